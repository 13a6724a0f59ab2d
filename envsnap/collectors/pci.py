"""PCI: GPUs and RDMA adapters, and every bridge between them and their root."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envsnap.collectors import Partial
from envsnap.collectors._files import FileFact, Files, natural, parsed, read_files, stated, switch
from envsnap.collectors._pci_config import WORDS, config_readings
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Error, Found, Missing, Unavailable, Value, Why
from envsnap.scope import Scope

METHOD = "/sys/bus/pci, /sys/class/infiniband"

DEVICES, INFINIBAND = "/sys/bus/pci/devices", "/sys/class/infiniband"
GPUS_OF_DRIVER = "/proc/driver/nvidia/gpus"
NVIDIA, AMD = "10de", "1002"
DISPLAY, ACCELERATOR, INFINIBAND_CLASS = 0x03, 0x12, 0x0207
MAX_DEVICES = 64

COMMUNICATION, PREFILL = Effect.COMMUNICATION, Effect.PREFILL
LINK = (COMMUNICATION, PREFILL)


def _gts(text: str) -> float:
    """`32.0 GT/s PCIe` of recent kernels, `8 GT/s` of older ones. Raises: Missing for `Unknown`."""
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", text)
    if not match:
        raise Missing(Why.NOT_SUPPORTED, f"it says {text!r}")
    return float(match.group(1))


def _lanes(text: str) -> int:
    """NOTE: 0 is a link that is down or not there at all, 63 and 255 one whose width is unknown."""
    lanes = natural(text)
    if lanes not in (1, 2, 4, 8, 12, 16, 32):
        raise Missing(Why.NOT_SUPPORTED, f"it says {lanes}")
    return lanes


def _total(text: str) -> int:
    """The count in the line `TOTAL_ERR_COR 3`."""
    match = re.search(r"^TOTAL_\w+ (\d+)$", text, re.M)
    if not match:
        raise Missing(Why.NOT_SUPPORTED, "no total among its counters")
    return int(match.group(1))


FACTS = (
    FileFact(Key("pci[].link_speed_gts", Type.NUMBER, Kind.CONDITION, "Transfer rate of each lane of the PCIe link "
                 "that leads up from here.", LINK, 0.4,
             advice="Compare under load only: idle links go down to 2.5 GT/s."), "current_link_speed", _gts),
    FileFact(Key("pci[].max_link_speed_gts", Type.NUMBER, Kind.IDENTITY, "Highest transfer rate of the PCIe link.",
             LINK, 0.3), "max_link_speed", _gts),
    FileFact(Key("pci[].link_width_lanes", Type.INTEGER, Kind.IDENTITY, "Lanes that the PCIe link uses.", LINK, 0.5,
                 advice="Fewer than the maximum: reseat the board, riser or cable; check bifurcation."),
             "current_link_width", _lanes),
    FileFact(Key("pci[].max_link_width_lanes", Type.INTEGER, Kind.IDENTITY, "Lanes that the device has.", LINK, 0.3),
             "max_link_width", _lanes),
    FileFact(Key("pci[].numa_node", Type.INTEGER, Kind.IDENTITY, "NUMA node that the device is attached to.",
                 (COMMUNICATION, Effect.HOST_LAUNCH), 0.3), "numa_node", natural),
    FileFact(Key("pci[].iommu_type", Type.STRING, Kind.TUNABLE, "How the IOMMU treats the device: identity lets its "
                 "addresses through, DMA and DMA-FQ translate them.", LINK, 0.4, Lever.ROOT,
                 "Bare metal: boot with iommu=pt."), "iommu_group/type", stated),
    FileFact(Key("pci[].d3cold_allowed", Type.BOOLEAN, Kind.TUNABLE,
             "Whether the device may be powered off while idle.",
                 (Effect.HOST_LAUNCH,), 0.05, Lever.ROOT), "d3cold_allowed", switch),
    FileFact(Key("pci[].power_control", Type.STRING, Kind.TUNABLE, "Whether the kernel may suspend the device while "
                 "idle (auto) or not (on).", (Effect.HOST_LAUNCH,), 0.1, Lever.ROOT), "power/control", stated),
    *(
        FileFact(Key(f"pci[].aer_{name}_count", Type.INTEGER, Kind.COUNTER, f"PCIe errors that {what}.", LINK, prior,
                     advice="Growth points to a bad board, riser or cable."), f"aer_dev_{name}", _total)
        for name, prior, what in (
            ("correctable", 0.3, "the link corrected, at the cost of sending again"),
            ("nonfatal", 0.4, "lost a transaction"),
            ("fatal", 0.4, "took the link down"),
        )
    ),
)  # fmt: skip
ADDRESS = Key("pci[].address", Type.STRING, Kind.LABEL, "PCI address of the device.")
PCI_ID = Key("pci[].id", Type.STRING, Kind.IDENTITY, "PCI vendor and device: which chip it is.", LINK, 0.2)
DRIVER = Key("pci[].driver", Type.STRING, Kind.TUNABLE, "Kernel driver bound to the device.", LINK, 0.3, Lever.ROOT,
             "vfio-pci: the device is set aside for a virtual machine.")  # fmt: skip
IOMMU_GROUP = Key("pci[].iommu_group", Type.INTEGER, Kind.LABEL, "Number of the device's IOMMU group.")
RDMA_DEVICES = Key("pci[].rdma_devices", Type.STRINGS, Kind.LABEL, "Names of the RDMA devices of the adapter.")
BAR_SIZE = Key("pci[].bar[].size_bytes", Type.INTEGER, Kind.IDENTITY, "Size of a memory window of the device.", LINK,
               0.2, advice="A GPU's is as large as its memory with Resizable BAR.")  # fmt: skip
BAR_LARGEST = Key("pci[].bar[].largest_size_bytes", Type.INTEGER, Kind.IDENTITY, "Size that the window can be made, "
                  "where it can be resized.", LINK, 0.05)  # fmt: skip
KEYS = (
    ADDRESS, PCI_ID, DRIVER, IOMMU_GROUP, RDMA_DEVICES, BAR_SIZE, BAR_LARGEST, *(f.key for f in FACTS),
    *(w.key for w in WORDS),
)  # fmt: skip


@dataclass(frozen=True)
class Device:
    """A PCI device by its uevent, and the addresses of the bridges above it, nearest first."""

    address: str
    uevent: Mapping[str, str]
    bridges: tuple[str, ...]

    @property
    def id(self) -> str:
        """Vendor and device."""
        return self.uevent.get("PCI_ID", "").lower()

    @property
    def kind(self) -> int:
        """Class and subclass."""
        text = self.uevent.get("PCI_CLASS", "")
        return int(text, 16) >> 8 if re.fullmatch("[0-9A-Fa-f]{1,8}", text) else 0

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU of a kind that computes."""
        return self.id[:4] in (NVIDIA, AMD) and self.kind >> 8 in (DISPLAY, ACCELERATOR)


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings. Raises: Missing without PCI, Partial beyond 64 devices of interest."""
    places, rdma, of_driver, uevents = host.found(
        [["links", DEVICES], ["links", INFINIBAND], ["list", GPUS_OF_DRIVER], ["read_matching", f"{DEVICES}/*/uevent"]]
    )
    devices = _devices(value_of(places), value_of(uevents))
    rdma_names = _rdma_names(rdma.value if isinstance(rdma, Value) else {})
    named = _named(devices, of_driver.value if isinstance(of_driver, Value) else [], rdma_names)
    if not named:
        raise Missing(Why.ABSENT, "no GPU and no RDMA adapter on the PCI bus")
    nodes = _with_bridges(dict(list(named.items())[:MAX_DEVICES]), devices)

    addresses = list(dict.fromkeys(device.address for device in nodes.values()))
    ends = {device.address for device in named.values()}
    files = read_files(host, [path for address in addresses for path in _paths(address, address in ends)])
    extra = host.found([[op, f"{DEVICES}/{a}{rest}"] for a in addresses for op, rest in _REQUESTS])
    configs = dict(zip(addresses, extra[0::2]))
    groups = dict(zip(addresses, extra[1::2]))
    for name, device in nodes.items():
        yield from _readings(name, device, files, configs[device.address], groups[device.address])
        if device.address in rdma_names:
            yield path_of(RDMA_DEVICES.pattern, name), Value(rdma_names[device.address])
    if len(named) > MAX_DEVICES:
        raise Partial(f"only the first {MAX_DEVICES} of {len(named)} GPUs and RDMA adapters were looked at")


_REQUESTS = (("pci_config", ""), ("link", "/iommu_group"))
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")


def _devices(places: Mapping[str, str], uevents: Mapping[str, list[str]]) -> dict[str, Device]:
    """Every device by address; its place in the tree is the path that its link leads to."""
    devices = {}
    for address, target in places.items():
        answer = uevents.get(f"{DEVICES}/{address}/uevent") or [""]
        lines = answer[1].splitlines() if answer[0] == "ok" else []
        uevent = dict(line.split("=", 1) for line in lines if "=" in line)
        above = [part for part in target.split("/") if _ADDRESS.match(part) and part != address]
        devices[address] = Device(address, uevent, tuple(reversed(above)))
    return devices


def _rdma_names(links: Mapping[str, str]) -> dict[str, list[str]]:
    """RDMA device names by the PCI address that their link leads through, of physical and virtual functions alike."""
    names: dict[str, list[str]] = {}
    for name, target in sorted(links.items()):
        through = [part for part in target.split("/") if _ADDRESS.match(part)]
        if through:
            names.setdefault(through[-1], []).append(name)
    return names


def _named(devices: Mapping[str, Device], of_driver: list[str], rdma: Mapping[str, list[str]]) -> dict[str, Device]:
    """The devices of interest by role, in order of address.

    NOTE: NVML numbers only the GPUs that its driver drives here; in a container, /proc shows those and sysfs all. They
    come first, so that both count alike.
    """
    gpus = sorted((d for d in devices.values() if d.is_gpu), key=lambda d: (d.address not in of_driver, d.address))
    nics = sorted((d for d in devices.values() if d.address in rdma or d.kind == INFINIBAND_CLASS),
                  key=lambda d: d.address)  # fmt: skip
    return {**{f"gpu{i}": d for i, d in enumerate(gpus)}, **{f"nic{i}": d for i, d in enumerate(nics)}}


def _with_bridges(named: Mapping[str, Device], devices: Mapping[str, Device]) -> dict[str, Device]:
    """Each device followed by the bridges above it."""
    nodes = {}
    for name, device in named.items():
        nodes[name] = device
        for step, address in enumerate(device.bridges, 1):
            if address in devices:
                nodes[f"{name}/up{step}"] = devices[address]
    return nodes


def _paths(address: str, is_end: bool) -> list[str]:
    names = [f.file for f in FACTS]
    if is_end:
        names += ["resource", *(f"resource{bar}_resize" for bar in range(6))]
    return [f"{DEVICES}/{address}/{name}" for name in names]


def _readings(name: str, device: Device, files: Files, config: Found, group: Found) -> Iterator[tuple[str, Found]]:
    where = f"{DEVICES}/{device.address}"
    yield path_of(ADDRESS.pattern, name), Value(device.address)
    yield path_of(PCI_ID.pattern, name), Value(device.id)
    if "DRIVER" in device.uevent:
        yield path_of(DRIVER.pattern, name), Value(device.uevent["DRIVER"])
    yield path_of(IOMMU_GROUP.pattern, name), parsed(group, lambda link: int(link.rpartition("/")[2]))
    for f in FACTS:
        yield path_of(f.key.pattern, name), files.value(f"{where}/{f.file}", f.parse)
    for key, found in config_readings(config):
        yield path_of(key.pattern, name), found
    yield from _bars(name, where, files)


def _bars(name: str, where: str, files: Files) -> Iterator[tuple[str, Found]]:
    """Only of the devices at the end of a branch: what a bridge maps is none of its own."""
    sizes = files.value(f"{where}/resource", _bar_sizes)
    if isinstance(sizes, Error):
        yield f"pci[{name}].bar", sizes
    for bar, size in sizes.value.items() if isinstance(sizes, Value) else ():
        yield path_of(BAR_SIZE.pattern, name, bar), Value(size)
        largest = files.value(f"{where}/resource{bar}_resize", _largest)
        if not (isinstance(largest, Unavailable) and largest.why is Why.ABSENT):
            yield path_of(BAR_LARGEST.pattern, name, bar), largest


def _bar_sizes(resource: str) -> dict[int, int]:
    """Sizes of the memory windows, by number; lines are start, end and flags (0x200 for memory), six of windows."""
    sizes = {}
    for bar, line in enumerate(resource.splitlines()[:6]):
        start, end, flags = (int(word, 16) for word in line.split())
        if flags & 0x200 and end > start:
            sizes[bar] = end - start + 1
    return sizes


def _largest(text: str) -> int:
    """The largest size among those in a mask, whose lowest bit stands for 1 MiB."""
    return 1 << 20 << int(text, 16).bit_length() - 1
