"""lspci -vv.

Seen: pciutils 3.9 on a virtual machine without GPUs; public listings of an A100 and an RTX 4090. GPUs are counted over
the whole bus, so that an excerpt that does not begin with device 00:00.0 is left out.

Untested: -vvv and -xxx, bridges above the GPUs, RDMA adapters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from envsnap.importers import _words
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of
from envsnap.reading import Json

_DEVICE = re.compile(
    r"(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) "
    r"(?P<kind>[A-Z0-9][^:\[]*?)(?: \[[0-9a-f]{4}\])?: (?P<name>.*)"
)
_ID = re.compile(r"\[([0-9a-f]{4}:[0-9a-f]{4})\]")
_KINDS = ("VGA compatible controller", "3D controller", "Display controller", "Processing accelerators")
_MAKERS = ("NVIDIA Corporation", "Advanced Micro Devices, Inc. [AMD/ATI]")
_ORDER = ("Control", "Status", "Latency", "Interrupt", "NUMA node", "IOMMU group", "Region", "Expansion ROM",
          "Capabilities", "Kernel driver in use", "Kernel modules")  # fmt: skip
_IN_EXPRESS = ("DevCap", "DevCtl", "DevSta", "LnkCap", "LnkCtl", "LnkSta", "DevCap2", "DevCtl2", "LnkCap2", "LnkCtl2",
               "LnkSta2")  # fmt: skip


@dataclass
class _Device:
    """Its lines, and the texts of the blocks in its Express capability."""

    address: str
    kind: str
    name: str
    lines: list[int] = field(default_factory=list)
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    express: dict[str, tuple[int, str]] = field(default_factory=dict)
    whole: bool = True

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU that the collector would count."""
        return self.kind in _KINDS and self.name.startswith(_MAKERS)


def recognise(text: Text) -> Iterator[range]:
    """Devices, each followed by the indented lines of -v."""
    start: int | None = None
    detailed, stop = 0, 0
    for number, line in enumerate([*text.lines, "end"]):
        if _DEVICE.match(line):
            start, stop = (number if start is None else start), number + 1
        elif start is not None and line[:1] == "\t":
            detailed, stop = detailed + 1, number + 1
        elif start is not None and line.strip():
            if detailed:
                yield range(start, stop)
            start, detailed = None, 0


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `pci[gpu…]`. A device whose lines are out of order is left out."""
    devices: list[_Device] = []
    for number in lines:
        line = text.lines[number]
        if match := _DEVICE.match(line):
            devices.append(_Device(match["address"], match["kind"], match["name"], [number]))
        elif line.strip() and devices:
            _add(devices[-1], number, line)
    for device in devices:
        sheet.skip(*device.lines)
    gpus = [device for device in devices if device.is_gpu]
    if gpus and devices[0].address not in ("00:00.0", "0000:00:00.0"):
        sheet.drop(gpus[0].lines[0], sum(len(gpu.rows) for gpu in gpus))
        sheet.notes.append("it is not the whole bus, so that GPUs cannot be counted: they are left out")
        return
    gpus.sort(key=lambda gpu: (_driver(gpu) != "nvidia", _words.pci_address(gpu.address) or ""))
    for index, gpu in enumerate(gpus):
        if not (gpu.whole and _in_order(gpu)):
            sheet.drop(gpu.lines[0], len(gpu.rows))
            sheet.notes.append(f"the lines of the device {gpu.address} are out of order: it is left out")
            continue
        for at, name, value in _readings(gpu):
            sheet.value(at, path_of(f"pci[].{name}", f"gpu{index}"), value)


def _add(device: _Device, number: int, line: str) -> None:
    device.lines.append(number)
    depth = len(line) - len(line.lstrip("\t"))
    label, colon, rest = line.strip().partition(":")
    if depth == 1:
        device.rows.append((number, label if colon else "", rest.strip()))
    elif depth == 2 and colon and label in _IN_EXPRESS:
        device.whole = device.whole and label not in device.express
        device.express[label] = number, rest.strip()
    elif depth == 3 and device.express:
        last, (at, so_far) = list(device.express.items())[-1]
        device.express[last] = at, f"{so_far} {line.strip()}"
    elif depth == 0:
        device.whole = False


def _in_order(device: _Device) -> bool:
    """Whether its lines stand as lspci writes them: shuffled lines would be another device's."""
    known = [next((k for k in _ORDER if label.startswith(k)), "") for _, label, _ in device.rows]
    places = [_ORDER.index(k) for k in known if k]
    express = [_IN_EXPRESS.index(label) for label in device.express]
    first = [label for _, label, _ in device.rows[:4]]
    begins = "Control" in first and "Status" in first
    return begins and places == sorted(places) and express == sorted(express) and known.count("Control") == 1


def _driver(device: _Device) -> str:
    return next((rest for _, label, rest in device.rows if label == "Kernel driver in use"), "")


def _readings(device: _Device) -> Iterator[tuple[int, str, Json]]:
    yield device.lines[0], "address", _words.pci_address(device.address)
    if ids := _ID.findall(device.name):
        yield device.lines[0], "id", ids[-1]
    for number, label, rest in device.rows:
        if label == "Kernel driver in use":
            yield number, "driver", rest
        elif label == "NUMA node":
            yield number, "numa_node", _words.integer(rest)
        elif label == "IOMMU group":
            yield number, "iommu_group", _words.integer(rest)
        elif (region := re.fullmatch(r"Region ([0-5])", label)) and rest.startswith("Memory at"):
            size = re.search(r"\[size=(\d+[KMG])\]", rest)
            yield number, f"bar[{region[1]}].size_bytes", _words.size_bytes(size[1]) if size else None
    for block, pattern, name, take in _EXPRESS:
        if block in device.express:
            number, text = device.express[block]
            found = re.search(pattern, text)
            yield number, name, take(found[1]) if found else None


def _aspm(word: str) -> list[str] | None:
    """`Disabled`, `L1 Enabled`, `L0s L1 Enabled`."""
    if word == "Disabled":
        return []
    names = word.removesuffix(" Enabled").lower().split()
    return sorted(names) if names and set(names) <= {"l0s", "l1"} else None


_EXPRESS: tuple[tuple[str, str, str, Callable[[str], Json]], ...] = (
    ("LnkCap", r"Speed (\d+(?:\.\d)?)GT/s", "max_link_speed_gts", float),
    ("LnkCap", r"Width x(\d{1,2})\b", "max_link_width_lanes", int),
    ("LnkSta", r"Speed (\d+(?:\.\d)?)GT/s", "link_speed_gts", float),
    ("LnkSta", r"Width x(\d{1,2})\b", "link_width_lanes", int),
    ("DevCtl", r"MaxPayload (\d+) bytes", "max_payload_bytes", int),
    ("DevCtl", r"MaxReadReq (\d+) bytes", "max_read_request_bytes", int),
    ("DevCtl", r"RlxdOrd([+-])", "relaxed_ordering", "+".__eq__),
    ("DevCtl", r"ExtTag([+-])", "extended_tags", "+".__eq__),
    ("LnkCtl", r"ASPM (Disabled|(?:L0s )?(?:L1 )?Enabled)", "aspm_enabled", _aspm),
    ("LnkCtl2", r"Target Link Speed: (\d+(?:\.\d)?)GT/s", "target_link_speed_gts", float),
    ("LnkCtl2", r"SpeedDis([+-])", "autonomous_speed_disabled", "+".__eq__),
)
