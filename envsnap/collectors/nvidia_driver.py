"""NVIDIA driver: kernel modules and their parameters, daemons, and whether its libraries belong to its module."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors._files import Files, integer, parsed, read_files
from envsnap.host import Host, value_of
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope
from envsnap.workers import tree

METHOD = "/proc/driver/nvidia, /sys/module, the process table, names of the driver's files"

PROC = "/proc/driver/nvidia"
VERSION, PARAMS = f"{PROC}/version", f"{PROC}/params"
INFORMATION, POWER = f"{PROC}/gpus/*/information", f"{PROC}/gpus/*/power"
MODULE_PARAMETERS = "/sys/module/nvidia*/parameters/*"
DEVICES = "/dev/nvidia*"
LIBRARY_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib",
)  # fmt: skip
LIBRARIES = tuple(f"{directory}/libcuda.so*" for directory in LIBRARY_DIRECTORIES)
COMPAT = "/usr/local/cuda*/compat/libcuda.so.*"
FIRMWARE = "/lib/firmware/nvidia/*"
PID_NAMESPACE, INITIAL_PID_NAMESPACE = "/proc/self/ns/pid", "pid:[4026531836]"

COMMUNICATION, COMPUTE, HOST_LAUNCH = Effect.COMMUNICATION, Effect.COMPUTE, Effect.HOST_LAUNCH
VALIDITY = Effect.VALIDITY

DAEMONS = {
    "nvidia-persistenced", "nv-fabricmanager", "nvidia-imex", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
    "nvidia-powerd", "nv-hostengine", "dcgm-exporter",
}  # fmt: skip

PARAMETERS_THAT_MATTER = (
    At("NvLinkDisable", effects=(COMMUNICATION,), prior=0.7),
    At("RmNvlinkBandwidth*", effects=(COMMUNICATION,), prior=0.6),
    At("RegistryDwords*", effects=(COMMUNICATION, COMPUTE), prior=0.6,
       meaning="Registry keys of the driver, such as those that force or forbid peer-to-peer access."),
    At("EnablePCIERelaxedOrderingMode", effects=(COMMUNICATION,), prior=0.3),
    At("EnableStreamMemOPs", effects=(COMMUNICATION, HOST_LAUNCH), prior=0.3),
    At("DmaRemapPeerMmio", effects=(COMMUNICATION,), prior=0.3),
    At("GrdmaPciTopoCheckOverride", effects=(COMMUNICATION,), prior=0.3),
    At("EnableResizableBar", effects=(COMMUNICATION,), prior=0.2),
    At("EnableMSI", effects=(HOST_LAUNCH,), prior=0.3),
    At("EnableGpuFirmware", effects=(HOST_LAUNCH, COMPUTE), prior=0.3),
    At("peerdirect_support", effects=(COMMUNICATION,), prior=0.4),
)  # fmt: skip
MODPROBE = "Set by an options line in /etc/modprobe.d; the module has to be loaded again."

MODULE_VERSION = Key(
    "nvidia.module_version", Type.STRING, Kind.IDENTITY, "Version of the loaded kernel module.",
    (COMPUTE, COMMUNICATION, HOST_LAUNCH), 0.4, Lever.ROOT,
)  # fmt: skip
MODULE_FLAVOUR = Key(
    "nvidia.module_flavour", Type.STRING, Kind.IDENTITY, "Which of NVIDIA's two kernel modules is loaded: open or "
    "proprietary.", (COMPUTE, COMMUNICATION, HOST_LAUNCH), 0.4, Lever.ROOT,
)  # fmt: skip
MODULE_COMPILER = Key(
    "nvidia.module_compiler", Type.STRING, Kind.IDENTITY, "Version of the gcc that built the kernel module.", (), 0.02
)
PARAMETER = Key(
    "nvidia.module[].parameter[]", Type.INTEGER, Kind.TUNABLE, "Parameter of a kernel module of the driver; yes and no "
    "are 1 and 0.", (COMPUTE, COMMUNICATION), 0.15, Lever.ROOT, MODPROBE, at=PARAMETERS_THAT_MATTER,
)  # fmt: skip
TEXT_PARAMETER = Key(
    "nvidia.module[].text_parameter[]", Type.STRING, Kind.TUNABLE, "Parameter of a kernel module of the driver that is "
    "no number.", (COMPUTE, COMMUNICATION), 0.15, Lever.ROOT, MODPROBE, at=PARAMETERS_THAT_MATTER,
)  # fmt: skip
GPU_FACTS = {
    "model": Key("nvidia.gpu[].model", Type.STRING, Kind.IDENTITY, "Product name of a GPU that the module drives.",
                 (COMPUTE,), 0.4),
    "pci_address": Key("nvidia.gpu[].pci_address", Type.STRING, Kind.LABEL, "PCI address of that GPU."),
    "excluded": Key("nvidia.gpu[].excluded", Type.BOOLEAN, Kind.TUNABLE, "Whether the module was told to leave the GPU "
                    "alone.", (COMPUTE,), 0.3, Lever.ROOT),
    "dma_address_bits": Key("nvidia.gpu[].dma_address_bits", Type.INTEGER, Kind.IDENTITY, "Bits of the addresses that "
                            "the GPU can reach by DMA.", (COMMUNICATION,), 0.1),
    "runtime_d3": Key("nvidia.gpu[].runtime_d3", Type.STRING, Kind.TUNABLE, "Whether the GPU may be powered off while "
                      "idle, in the driver's words.", (HOST_LAUNCH,), 0.1, Lever.ROOT),
}  # fmt: skip
DAEMON = Key(
    "nvidia.daemon[].running", Type.BOOLEAN, Kind.TUNABLE, "Whether a daemon of the driver runs.", (HOST_LAUNCH,), 0.2,
    Lever.ROOT,
    at=(
        At("nv-fabricmanager", effects=(COMMUNICATION, VALIDITY), prior=0.6,
           advice="Boards with NVSwitch need it, of the driver's own version."),
        At("nvidia-imex", effects=(COMMUNICATION,), prior=0.5),
        At("nvidia-cuda-mps-*", effects=(COMPUTE, HOST_LAUNCH), prior=0.5),
        At("nv-hostengine", effects=(COMPUTE,), prior=0.3, advice="DCGM's profiling metrics slow kernels down."),
        At("dcgm-exporter", effects=(COMPUTE,), prior=0.3, advice="DCGM's profiling metrics slow kernels down."),
    ),
)  # fmt: skip
DEVICE_FILES = Key(
    "nvidia.device_files", Type.STRINGS, Kind.IDENTITY, "Device files of the driver, other than one for each GPU.",
    (COMMUNICATION, VALIDITY), 0.2,
)  # fmt: skip
LIBRARY_VERSIONS = Key(
    "nvidia.library_versions", Type.STRINGS, Kind.IDENTITY, "Driver versions whose libcuda is installed.",
    (COMPUTE, VALIDITY), 0.3, Lever.PACKAGE,
)  # fmt: skip
LIBRARY_MATCHES = Key(
    "nvidia.library_matches_module", Type.BOOLEAN, Kind.IDENTITY, "Whether the installed libcuda is of the loaded "
    "module's version.", (VALIDITY, COMPUTE), 0.5, Lever.ROOT,
    "After an upgrade of the driver: reboot, or load the modules again. In a container: start it again.",
)  # fmt: skip
COMPAT_VERSION = Key(
    "nvidia.cuda_compat_versions", Type.STRINGS, Kind.IDENTITY, "Versions of CUDA forward compatibility packages, "
    "whose libcuda can take the place of the driver's.", (COMPUTE, COMMUNICATION), 0.4, Lever.PACKAGE,
    "Remove cuda-compat where the driver is new enough.",
)  # fmt: skip
FIRMWARE_VERSIONS = Key(
    "nvidia.firmware_versions", Type.STRINGS, Kind.IDENTITY, "Driver versions whose GPU firmware is installed.",
    (VALIDITY,), 0.05, Lever.PACKAGE,
)  # fmt: skip
KEYS = (
    MODULE_VERSION, MODULE_FLAVOUR, MODULE_COMPILER, PARAMETER, TEXT_PARAMETER, *GPU_FACTS.values(), DAEMON,
    DEVICE_FILES, LIBRARY_VERSIONS, LIBRARY_MATCHES, COMPAT_VERSION, FIRMWARE_VERSIONS,
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings. Raises: Missing where the module is not loaded."""
    files = read_files(host, (VERSION, PARAMS, INFORMATION, POWER, MODULE_PARAMETERS))
    value_of(files[VERSION])
    yield MODULE_VERSION.pattern, files.value(VERSION, _module_version)
    yield MODULE_FLAVOUR.pattern, files.value(VERSION, _flavour)
    yield MODULE_COMPILER.pattern, files.value(VERSION, _compiler)
    yield from _parameters(files)
    yield from _gpus(files)
    yield from _daemons(host)
    yield from _installed(host, files.value(VERSION, _module_version))


def _module_version(text: str) -> str:
    """`… Kernel Module  535.129.03 …` of the proprietary module, `… for x86_64  580.159.04 …` of the open one."""
    match = re.search(r"\s(\d{2,4}(?:\.\d+)+)\b", text.split("\n")[0])
    if not match:
        raise ValueError(f"no version in {text[:80]!r}")
    return match.group(1)


def _flavour(text: str) -> str:
    first = text.split("\n")[0]
    if "Kernel Module" not in first:
        raise ValueError(f"unknown module {first[:80]!r}")
    return "open" if "Open Kernel Module" in first else "proprietary"


def _compiler(text: str) -> str:
    match = re.search(r"gcc version (\d[\w.]*)", text)
    if not match:
        raise Missing(Why.NOT_SUPPORTED, "the module does not say what built it")
    return match.group(1)


def _parameters(files: Files) -> Iterator[tuple[str, Found]]:
    """Parameters of the module nvidia stand in a file of its own, without their prefix NVreg_."""
    params = files[PARAMS]
    if not isinstance(params, Value):
        yield "nvidia.module[nvidia]", params
    else:
        for name, text in _fields(params.value).items():
            yield _parameter("nvidia", name, Value(text))
    for (module, name), found in files.matching(MODULE_PARAMETERS):
        yield _parameter("nvidia" + module, name.removeprefix("NVreg_"), found)


def _parameter(module: str, name: str, found: Found) -> tuple[str, Found]:
    text = found.value if isinstance(found, Value) else ""
    if isinstance(found, Value) and not re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+|[YN]", text):
        return path_of(TEXT_PARAMETER.pattern, module, name), Value(text.strip('"'))
    return path_of(PARAMETER.pattern, module, name), parsed(found, _number)


def _number(text: str) -> int:
    return {"Y": 1, "N": 0}[text] if text in ("Y", "N") else int(text, 0)


def _fields(text: str) -> dict[str, str]:
    """Lines of the form `Name: value`."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _gpus(files: Files) -> Iterator[tuple[str, Found]]:
    """NOTE: in a container these are the GPUs that it was given, in NVML's order (that of PCI addresses)."""
    power = {address: found for (address,), found in files.matching(POWER)}
    for index, ((address,), found) in enumerate(sorted(files.matching(INFORMATION), key=lambda item: item[0])):
        of: dict[str, Found] = {
            "model": parsed(found, lambda text: _field(text, "Model")),
            "pci_address": Value(address),
            "excluded": parsed(found, lambda text: {"Yes": True, "No": False}[_field(text, "GPU Excluded")]),
            "dma_address_bits": parsed(found, lambda text: integer(_field(text, "DMA Size").removesuffix(" bits"))),
            "runtime_d3": parsed(
                power.get(address) or Unavailable(Why.NOT_SUPPORTED, "this driver has no power file"),
                lambda text: _field(text, "Runtime D3 status").lower(),
            ),
        }
        for name, reading in of.items():
            yield path_of(GPU_FACTS[name].pattern, index), reading


def _field(text: str, name: str) -> str:
    """Raises: Missing where the driver does not say."""
    value = _fields(text).get(name, "")
    if not value or "?" in value:
        raise Missing(Why.NOT_SUPPORTED, f"this driver does not say {name!r}")
    return value


def _daemons(host: Host) -> Iterator[tuple[str, Found]]:
    """NOTE: what is not seen from within a container may well run outside it."""
    namespace, processes = attempt(host.link, PID_NAMESPACE), attempt(tree.table, host)
    running = {p.program for p in processes.value.values()} if isinstance(processes, Value) else set()
    for name in sorted(DAEMONS):
        found: Found = Value(True)
        if not isinstance(processes, Value):
            found = processes
        elif name not in running:
            outside = namespace == Value(INITIAL_PID_NAMESPACE)
            found = Value(False) if outside else Unavailable(Why.DENIED, "only processes of this container can be seen")
        yield path_of(DAEMON.pattern, name), found


def _installed(host: Host, module_version: Found) -> Iterator[tuple[str, Found]]:
    patterns = (DEVICES, COMPAT, FIRMWARE, *LIBRARIES)
    devices, compat, firmware, *libraries = (
        found.value if isinstance(found, Value) and isinstance(found.value, list) else []
        for found in host.found([["glob", pattern] for pattern in patterns])
    )
    names = {path.rpartition("/")[2] for path in devices}
    yield DEVICE_FILES.pattern, Value(sorted(name for name in names if not re.fullmatch(r"nvidia\d+", name)))
    paths = [path for found in libraries for path in found]
    yield LIBRARY_VERSIONS.pattern, Value(_versions(paths))
    yield LIBRARY_MATCHES.pattern, attempt(lambda: _matches(host, paths, value_of(module_version)))
    yield COMPAT_VERSION.pattern, Value(_versions(compat))
    yield FIRMWARE_VERSIONS.pattern, Value(_versions(firmware))


def _versions(paths: list[str]) -> list[str]:
    """The versions in names such as libcuda.so.580.159.04, and not the 1 of libcuda.so.1."""
    found = (re.search(r"(?:/|\.so\.)(\d{2,4}(?:\.\d+)+)\Z", path) for path in paths)
    return sorted({match.group(1) for match in found if match})


def _matches(host: Host, paths: list[str], module_version: str) -> bool:
    link = next((path for path in paths if path.endswith("/libcuda.so.1")), None)
    if link is None:
        raise Missing(Why.ABSENT, "no libcuda.so.1 in the system's directories")
    version = _versions([host.realpath(link)])
    if not version:
        raise Missing(Why.NOT_SUPPORTED, "libcuda's name holds no version")
    return version == [module_version]
