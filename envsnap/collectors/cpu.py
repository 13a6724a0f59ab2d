"""CPU: model, topology, frequency and idle settings, mitigations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envsnap.collectors import _cpu_power
from envsnap.collectors._files import (
    FileFact,
    Files,
    cpu_count,
    cpu_list,
    natural,
    parsed,
    read_files,
    readings,
    switch,
)
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Json, Missing, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "/proc/cpuinfo, /sys/devices/system/cpu, /sys/class/powercap"

_CPU = "/sys/devices/system/cpu"
_EACH = f"{_CPU}/cpu[0-9]*"
_CACHE = f"{_CPU}/cpu0/cache/index[0-9]*"
_VULNERABILITY = f"{_CPU}/vulnerabilities/*"

_HOST = (Effect.HOST_LAUNCH, Effect.COMPUTE)
_LAUNCH = (Effect.HOST_LAUNCH,)

_LISTS = (
    FileFact(Key("cpu.online", Type.STRING, Kind.TUNABLE, "CPUs that are switched on.", _HOST, 0.3, Lever.ROOT),
             f"{_CPU}/online", cpu_list),
    FileFact(Key("cpu.offline", Type.STRING, Kind.TUNABLE, "CPUs that are switched off or absent.",
                 _HOST, 0.1, Lever.ROOT),
             f"{_CPU}/offline", cpu_list),
    FileFact(Key("cpu.isolated", Type.STRING, Kind.TUNABLE,
                 "CPUs that the scheduler places nothing on by itself; threads bound there do not spread out.",
                 _LAUNCH, 0.4, Lever.ROOT, "Remove isolcpus from the kernel's command line and reboot."),
             f"{_CPU}/isolated", cpu_list),
    FileFact(Key("cpu.nohz_full", Type.STRING, Kind.TUNABLE, "CPUs that run without the periodic tick.",
                 _LAUNCH, 0.15, Lever.ROOT),
             f"{_CPU}/nohz_full", cpu_list),
    FileFact(Key("cpu.threads_count", Type.INTEGER, Kind.IDENTITY, "Logical CPUs that are online.", _HOST, 0.2),
             f"{_CPU}/online", cpu_count),
    FileFact(Key("cpu.smt_active", Type.BOOLEAN, Kind.TUNABLE, "Whether cores run more than one thread each.",
                 _HOST, 0.2, Lever.ROOT),
             f"{_CPU}/smt/active", switch),
    FileFact(Key("cpu.smt_control", Type.STRING, Kind.TUNABLE, "The kernel's switch for simultaneous multithreading.",
                 _HOST, 0.1, Lever.ROOT),
             f"{_CPU}/smt/control"),
)  # fmt: skip

_MODEL = (
    Key("cpu.vendor", Type.STRING, Kind.IDENTITY, "Maker of the CPU.", _HOST, 0.3),
    Key("cpu.model", Type.STRING, Kind.IDENTITY, "Name of the CPU model, where there is no name its part number.",
        _HOST, 0.4),
    Key("cpu.family", Type.INTEGER, Kind.IDENTITY, "CPU family; on ARM the architecture's version.", _HOST, 0.1),
    Key("cpu.model_number", Type.INTEGER, Kind.IDENTITY, "Number of the model in its family; on ARM the part.",
        _HOST, 0.1),
    Key("cpu.stepping", Type.INTEGER, Kind.IDENTITY, "Stepping; on ARM the revision.", _HOST, 0.05),
    Key("cpu.flags", Type.STRINGS, Kind.IDENTITY,
        "Instruction sets and timer features that speed depends on, among those the kernel lists.", _HOST, 0.2),
)  # fmt: skip

_MICROCODE = Key("cpu.microcode", Type.STRING, Kind.IDENTITY,
                 "Revision of the microcode; an update can bring slower mitigations.",
                 _HOST, 0.2, Lever.ROOT)  # fmt: skip

KEYS = (
    *(fact.key for fact in _LISTS),
    *_MODEL,
    _MICROCODE,
    Key("cpu[].microcode", Type.STRING, Kind.IDENTITY, "Revision of the microcode on a CPU that differs from most.",
        _HOST, 0.3, Lever.ROOT),
    Key("cpu.sockets_count", Type.INTEGER, Kind.IDENTITY, "CPU packages.", _HOST, 0.2),
    Key("cpu.cores_count", Type.INTEGER, Kind.IDENTITY, "Cores that are online.", _HOST, 0.2),
    Key("cpu.cache[].size_bytes", Type.INTEGER, Kind.IDENTITY, "Size of one cache of this level, as CPU 0 has it.",
        (Effect.COMPUTE,), 0.1),
    Key("cpu.cache[].cpus_count", Type.INTEGER, Kind.IDENTITY, "Logical CPUs that share one cache with CPU 0.",
        (Effect.COMPUTE,), 0.1),
    Key("cpu.vulnerability[]", Type.STRING, Kind.TUNABLE,
        "What the kernel says of a CPU vulnerability: not affected, vulnerable, or mitigated and how.",
        _LAUNCH, 0.2, Lever.ROOT, "Compare the kernel's `mitigations` parameter and the microcode."),
    Key("cpu.core_throttle_count", Type.INTEGER, Kind.COUNTER,
        "Times that a core was slowed for its temperature, summed over CPUs since boot.", _HOST, 0.4,
        advice="Check cooling and the package's power cap."),
    Key("cpu.package_throttle_count", Type.INTEGER, Kind.COUNTER,
        "Times that the package was slowed for its temperature, on the CPU that saw most since boot.", _HOST, 0.4,
        advice="Check cooling and the package's power cap."),
    *_cpu_power.KEYS,
)  # fmt: skip

_FILES = (
    "/proc/cpuinfo",
    *(fact.file for fact in _LISTS),
    f"{_EACH}/topology/core_siblings_list",
    f"{_EACH}/topology/thread_siblings_list",
    f"{_EACH}/thermal_throttle/core_throttle_count",
    f"{_EACH}/thermal_throttle/package_throttle_count",
    *(f"{_CACHE}/{name}" for name in ("level", "type", "size", "shared_cpu_list")),
    _VULNERABILITY,
    *_cpu_power.FILES,
)


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    files = read_files(host, _FILES)
    yield from _model(files["/proc/cpuinfo"])
    yield from readings(files, _LISTS)
    yield "cpu.sockets_count", attempt(_distinct, files, f"{_EACH}/topology/core_siblings_list")
    yield "cpu.cores_count", attempt(_distinct, files, f"{_EACH}/topology/thread_siblings_list")
    yield from _caches(files)
    yield from files.absent(_VULNERABILITY, "cpu.vulnerability")
    for (name,), found in files.matching(_VULNERABILITY):
        yield path_of("cpu.vulnerability[]", name), found
    for name, combine in (("core_throttle_count", sum), ("package_throttle_count", max)):
        yield f"cpu.{name}", attempt(_over_cpus, combine, files, f"{_EACH}/thermal_throttle/{name}")
    yield from _cpu_power.collect(host, files, files.text("/proc/cpuinfo"))


# -- /proc/cpuinfo --------------------------------------------------------------------------------------------

_ARM_VENDORS = {0x41: "ARM", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4E: "NVIDIA", 0x51: "Qualcomm", 0xC0: "Ampere"}
_ARM_MODELS = {
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD83): "Neoverse-V3AE",
    (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD8E): "Neoverse-N3",
    (0x4E, 0x004): "Carmel",
    (0x4E, 0x010): "Olympus",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}

_FAST = re.compile(
    r"(aes|amx\w*|aperfmperf|asimd\w*|avx\w*|bf16|bmi[12]|constant_tsc|erms|f16c|fma|fp16|fsrm|hle|hwp\w*|i8mm|invpcid"
    r"|la57|nonstop_tsc|pcid|pdpe1gb|rtm|sha_ni|sme\w*|sse4_[12]|sve\w*|tsc_known_freq|tsc_reliable|vaes)\Z"
)


def _model(cpuinfo: Found) -> Iterator[tuple[str, Found]]:
    """What the first CPU in /proc/cpuinfo is."""
    if not isinstance(cpuinfo, Value):
        yield from ((key.pattern, cpuinfo) for key in (*_MODEL, _MICROCODE))
        return
    # NOTE: old ARM kernels put what holds for all CPUs after a blank line; all first mentions are one CPU's.
    first: dict[str, str] = {}
    for line in str(cpuinfo.value)[:16384].splitlines():
        name, colon, text = line.partition(":")
        if colon:
            first.setdefault(name.strip(), text.strip())
    read = _arm if "CPU implementer" in first else _x86
    for key in _MODEL:
        yield key.pattern, attempt(read, first, key.name)
    listed = re.findall(r"^processor\s*: (\d+)$|^microcode\s*: (\S+)$", cpuinfo.value, re.M)
    yield from _cpu_power.folded("cpu.microcode", _per_processor(listed))


def _per_processor(listed: list[tuple[str, str]]) -> Iterator[tuple[int, Found]]:
    processor = 0
    for number, microcode in listed:
        if number:
            processor = int(number)
        else:
            yield processor, Value(microcode)


def _x86(first: dict[str, str], name: str) -> Json:
    if name == "flags":
        return _fast(first, "flags")
    field = {"vendor": "vendor_id", "model": "model name", "family": "cpu family", "model_number": "model"}
    text = _field(first, field.get(name, name))
    return text if name in ("vendor", "model") else natural(text)


def _arm(first: dict[str, str], name: str) -> Json:
    if name == "flags":
        return _fast(first, "Features")
    implementer, part = (int(_field(first, field), 0) for field in ("CPU implementer", "CPU part"))
    if name == "vendor":
        return _ARM_VENDORS.get(implementer, hex(implementer))
    if name == "model":
        return _ARM_MODELS.get((implementer, part), hex(part))
    field = {"family": "CPU architecture", "model_number": "CPU part", "stepping": "CPU revision"}[name]
    return int(_field(first, field), 0)


def _field(first: dict[str, str], name: str) -> str:
    if name not in first:
        raise Missing(Why.NOT_SUPPORTED, f"/proc/cpuinfo has no {name!r} here")
    return first[name]


def _fast(first: dict[str, str], name: str) -> list[str]:
    return fast_flags(_field(first, name))


def fast_flags(listed: str) -> list[str]:
    """Of a list of CPU flags those that speed depends on, sorted."""
    return sorted({flag for flag in listed.split() if _FAST.match(flag)})


# -- sysfs ----------------------------------------------------------------------------------------------------


def _distinct(files: Files, pattern: str) -> int:
    groups = {found.value for _, found in files.matching(pattern) if isinstance(found, Value)}
    if not groups:
        raise Missing(Why.ABSENT, f"no {pattern}")
    return len(groups)


def _over_cpus(combine: Callable[[list[int]], int], files: Files, pattern: str) -> int:
    counts = [value_of(parsed(found, natural)) for _, found in files.matching(pattern)]
    if not counts:
        raise Missing(Why.ABSENT, f"no {pattern}")
    return combine(counts)


def _caches(files: Files) -> Iterator[tuple[str, Found]]:
    yield from files.absent(f"{_CACHE}/level", "cpu.cache")
    for (index,), level in files.matching(f"{_CACHE}/level"):
        if not isinstance(level, Value):
            continue
        folder = _CACHE.replace("[0-9]*", index)
        kind = {"Data": "d", "Instruction": "i"}.get(files.text(f"{folder}/type"), "")
        name = f"L{level.value}{kind}"
        yield path_of("cpu.cache[].size_bytes", name), files.value(f"{folder}/size", _cache_bytes)
        yield path_of("cpu.cache[].cpus_count", name), files.value(f"{folder}/shared_cpu_list", cpu_count)


def _cache_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG])", text)
    if not match:
        raise ValueError(f"not the size of a cache: {text[:40]!r}")
    return int(match.group(1)) << {"K": 10, "M": 20, "G": 30}[match.group(2)]
