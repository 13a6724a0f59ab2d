"""nvidia-smi topo -m.

Seen: a recording of the driver 580.159.04 with two H200; tables with network cards in public reports of 535 to 590.

Untested: NVSwitch systems of more than eight GPUs, ROCm's tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers import _words
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_HEAD = re.compile(r"\s*GPU0(?:\s+(?:GPU|NIC)\d+|\s+mlx5_\w+)*\s+CPU Affinity\b")
_ROW = re.compile(r"\s*(GPU\d{1,3}|NIC\d{1,3}|mlx5_\w+)\s+(.*)\Z")
_LINK = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d{1,2}|N/A\Z")
_TOPOLOGY = {"SYS": "system", "NODE": "node", "PHB": "hostbridge", "PXB": "multiple", "PIX": "single"}
_LEGEND = re.compile(r"\s*(?:Legend:|(?:X|SYS|NODE|PHB|PXB|PIX|NV#)\s+= .*|NIC Legend:|NIC\d+: \S+)\s*\Z")


def recognise(text: Text) -> Iterator[range]:
    """From the head of the table over its rows and its legend."""
    for start, line in enumerate(text.lines):
        if not _HEAD.match(line):
            continue
        stop = start + 1
        for number in range(start + 1, len(text.lines)):
            row = text.lines[number]
            if row.strip() and not (_ROW.match(row) or _LEGEND.match(row)):
                break
            stop = number + 1 if row.strip() else stop
        yield range(start, stop)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `gpu_pair[]` and of the GPUs' affinity. A table whose rows do not follow each other is left out."""
    columns = re.findall(r"(?:GPU|NIC)\d+|mlx5_\w+", text.lines[lines.start].partition("CPU Affinity")[0])
    after = [name for name in ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID") if name in text.lines[lines.start]]
    gpus = [name for name in columns if name.startswith("GPU")]
    sheet.skip(lines.start)
    rows: list[tuple[int, list[str]]] = []
    for number in lines[1:]:
        line = text.lines[number]
        if match := _ROW.match(line):
            cells = match[2].split()
            if len(rows) >= len(columns) or match[1] != columns[len(rows)] or not _fits(cells, columns, len(rows)):
                sheet.drop(number)
                sheet.notes.append("the rows of its table are out of order or cut: those from there on are left out")
                break
            rows.append((number, cells))
            sheet.skip(number)
        elif line.strip():
            sheet.skip(number)
    for index, (number, cells) in enumerate(rows):
        if columns[index] not in gpus:
            continue
        gpu = int(columns[index][3:])
        for other, cell in zip(columns, cells):
            # NOTE: NV# hides what PCIe path lies beneath, which is what the key holds.
            if other.startswith("GPU") and int(other[3:]) > gpu and cell in _TOPOLOGY:
                sheet.value(number, path_of("gpu_pair[].topology", f"{gpu}/{other[3:]}"), _TOPOLOGY[cell])
        _affinity(sheet, number, gpu, cells[len(columns) :], after)


def _fits(cells: list[str], columns: list[str], index: int) -> bool:
    links = cells[: len(columns)]
    return len(links) == len(columns) and links[index] == "X" and all(map(_LINK.match, links)) and links.count("X") == 1


def _affinity(sheet: Sheet, number: int, gpu: int, cells: list[str], names: list[str]) -> None:
    """NOTE: a blank cell moves those behind it to the left, so that only a whole row says which is which."""
    if len(cells) != len(names):
        return
    for name, cell in zip(names, cells):
        key = {"CPU Affinity": "cpu_affinity", "NUMA Affinity": "memory_affinity"}.get(name)
        if key:
            sheet.value(number, path_of(f"gpu[].{key}", gpu), _words.cpus(cell))
