"""Platform: the machine's make, firmware, and whether it is virtual."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors._files import FileFact, Files, read_files, readings, stated
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Lever, Type
from envsnap.reading import Found, Missing, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "/sys/class/dmi, /sys/hypervisor, /proc/cpuinfo"

_DMI = "/sys/class/dmi/id"
_EVERY = (Effect.HOST_LAUNCH, Effect.COMMUNICATION)

_FACTS = (
    FileFact(Key("platform.vendor", Type.STRING, Kind.IDENTITY, "Maker of the machine, or the cloud it belongs to.",
                 _EVERY, 0.2),
             f"{_DMI}/sys_vendor", stated),
    FileFact(Key("platform.product", Type.STRING, Kind.IDENTITY, "Model of the machine, or the cloud's instance type.",
                 _EVERY, 0.3),
             f"{_DMI}/product_name", stated),
    FileFact(Key("platform.board", Type.STRING, Kind.IDENTITY, "Model of the main board.", _EVERY, 0.1),
             f"{_DMI}/board_name", stated),
    FileFact(Key("platform.bios_vendor", Type.STRING, Kind.IDENTITY, "Maker of the firmware.", _EVERY, 0.05),
             f"{_DMI}/bios_vendor", stated),
    FileFact(Key("platform.bios_version", Type.STRING, Kind.IDENTITY,
                 "Version of the firmware; an update can reset PCIe, NUMA and power settings.",
                 _EVERY, 0.3, Lever.ROOT, "Compare the firmware's settings, they are not visible from here."),
             f"{_DMI}/bios_version", stated),
    FileFact(Key("platform.bios_date", Type.STRING, Kind.IDENTITY, "Date of the firmware.", _EVERY, 0.1),
             f"{_DMI}/bios_date", stated),
    FileFact(Key("platform.serial", Type.STRING, Kind.LABEL, "Serial number of the machine."),
             f"{_DMI}/product_serial", stated),
    FileFact(Key("platform.power_profile", Type.STRING, Kind.TUNABLE,
                 "Power profile that the firmware is told to follow.", _EVERY, 0.2, Lever.ROOT),
             "/sys/firmware/acpi/platform_profile", stated),
)  # fmt: skip

KEYS = (
    *(fact.key for fact in _FACTS),
    Key("platform.virtualization", Type.STRING, Kind.IDENTITY,
        "Hypervisor under this system: none, kvm, xen, vmware, hyperv, virtualbox, wsl, or other. "
        "Under one, PCIe and NUMA topology may be flattened.",
        (Effect.COMMUNICATION, Effect.HOST_LAUNCH), 0.4, advice="Give NCCL a topology file (NCCL_TOPO_FILE)."),
)  # fmt: skip

_EVIDENCE = (
    "/proc/sys/kernel/osrelease",
    "/sys/hypervisor/type",
    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
)

# Words in the names of maker and product, or in the clock sources that the hypervisor offers.
_SIGNS = (
    (r"VMware", "vmware"),
    (r"VirtualBox|innotek", "virtualbox"),
    (r"Microsoft Corporation Virtual Machine|hyperv_clocksource", "hyperv"),
    (r"\bXen\b|\bxen\b", "xen"),
    (r"QEMU|\bKVM\b|KubeVirt|OpenStack|Amazon EC2|Google Compute Engine|Alibaba Cloud ECS|kvm-clock", "kvm"),
)


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    files = read_files(host, (*(fact.file for fact in _FACTS), *_EVIDENCE))
    yield from readings(files, _FACTS)
    yield "platform.virtualization", attempt(_virtualization, host, files)


def _virtualization(host: Host, files: Files) -> str:
    release, hypervisor, clocks = (files.text(path) for path in _EVIDENCE)
    if "microsoft" in release.lower():
        return "wsl"
    if hypervisor:
        return hypervisor
    # NOTE: the beginning will do, and no more is read: cpuinfo of a large machine takes milliseconds to make.
    cpuinfo = host.read("/proc/cpuinfo", 8192, True)
    names = f"{files.text(f'{_DMI}/sys_vendor')} {files.text(f'{_DMI}/product_name')}"
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.M)
    # NOTE: a cloud's bare-metal instances carry its name too, but not the flag.
    if flags and "hypervisor" not in flags.group(1).split():
        return "none"
    for sign, name in _SIGNS:
        if re.search(sign, f"{names} {clocks}"):
            return name
    if flags:
        return "other"
    if isinstance(files[f"{_DMI}/sys_vendor"], Value):
        return "none"
    raise Missing(Why.NOT_SUPPORTED, "neither CPU flags nor firmware tell")
