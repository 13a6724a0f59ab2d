"""nvidia-smi (its table).

Seen: tables in public reports of the drivers 515.65, 535.129, 550.135, 570.133, 580.126 and 610.43 (whose head says
*KMD Version* and *CUDA UMD Version*). The capacity of power is taken for the limit in force, which it is rounded from.

Untested: MIG instances, drivers before 510, Windows (WDDM).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers import _words
from envsnap.importers._dates import c_locale
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_HEAD = re.compile(
    r"\s*\| NVIDIA-SMI (?P<smi>\d[\d.]+) +(?:Driver|KMD) Version: (?P<driver>\d[\d.]+) +"
    r"CUDA (?:UMD )?Version: (?P<cuda>\d+\.\d+|N/A|ERR!) +\|\s*\Z"
)
_TITLES = (
    re.compile(r"\s*\| GPU  Name +Persistence-M ?\| Bus-Id +Disp\.A \| Volatile Uncorr\. ECC \|\s*\Z"),
    re.compile(r"\s*\| Fan  Temp +Perf +Pwr:Usage/Cap ?\| +Memory-Usage \| GPU-Util  Compute M\. \|\s*\Z"),
    re.compile(r"\s*\| +\| +\| +MIG M\. \|\s*\Z"),
    re.compile(r"\s*\|=+\+=+\+=+\|\s*\Z"),
)
_RULE = re.compile(r"\s*[+|][-+=]+[+|]\s*\Z")
_FIRST = re.compile(
    r"\s*\| +(?P<index>\d{1,3})  (?P<name>\S.*?) +(?P<persistence>On|Off) +\| +(?P<bus>[0-9A-Fa-f]{8}:\S{2}:\S{2}\.\d) "
    r"(?P<display>On|Off|N/A) +\| +(?P<ecc>\d+|Off|N/A|On) +\|\s*\Z"
)
_SECOND = re.compile(
    r"\s*\| *(?P<fan>\d+%|N/A|ERR!) +(?P<temp>\d+)C +(?P<state>P\d+) +(?P<draw>\d+W|N/A) / +(?P<cap>\d+W|N/A) ?\|"
    r" +(?P<used>\d+)MiB / +(?P<total>\d+)MiB \| +(?P<util>\d+%|N/A) +(?P<mode>Default|E\. Process|Prohibited) +\|\s*\Z"
)
_THIRD = re.compile(r"\s*\| +\| +\| +(?P<mig>Disabled|Enabled|N/A)\*? +\|\s*\Z")
_MODES = {"Default": "default", "E. Process": "exclusive_process", "Prohibited": "prohibited"}


def recognise(text: Text) -> Iterator[range]:
    """From the head (or the date above it) to the last line that is drawn."""
    for head, line in enumerate(text.lines):
        if not _HEAD.match(line):
            continue
        start = head - 1 if head and _RULE.match(text.lines[head - 1]) else head
        if start and c_locale(text.lines[start - 1]):
            start -= 1
        stop = head + 1
        for number in range(head + 1, len(text.lines)):
            row = text.lines[number].strip()
            if row and row[0] not in "|+":
                break
            stop = number + 1 if row else stop
        yield range(start, stop)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `gpu[]` and `nvml`. From the first row on that is not as it should be, nothing is read."""
    at = lines.start
    while not (head := _HEAD.match(text.lines[at])):
        sheet.date = sheet.date or c_locale(text.lines[at])
        sheet.skip(at)
        at += 1
    sheet.version = head["smi"]
    sheet.value(at, "nvml.driver_version", head["driver"])
    sheet.value(at, "nvml.cuda_driver_version", _words.text(head["cuda"]) if head["cuda"][0].isdigit() else None)
    table = [n for n in range(at + 1, lines.stop) if text.lines[n].strip()]
    if table and _RULE.match(text.lines[table[0]]):
        sheet.skip(table.pop(0))
    if len(table) < len(_TITLES) or not all(t.match(text.lines[n]) for t, n in zip(_TITLES, table)):
        return
    sheet.skip(*table[: len(_TITLES)])
    rows = table[len(_TITLES) :]
    count = 0
    while len(rows) >= 4 and _gpu(text, rows[:4], count, sheet):
        count += 1
        rows = rows[4:]
    if (
        count
        and not any(_FIRST.match(text.lines[n]) for n in rows)
        and any("Processes:" in text.lines[n] for n in rows)
    ):
        sheet.value(table[len(_TITLES)], "nvml.gpu_count", count)
    sheet.skip(*(n for n in rows if _RULE.match(text.lines[n]) or _of_processes(text.lines[n])))


def _of_processes(line: str) -> bool:
    return bool(re.match(r"\s*\| +(?:Processes:|GPU +GI +CI|ID +ID|No running processes|\d+ +(?:N/A|\d+))", line))


def _gpu(text: Text, numbers: list[int], index: int, sheet: Sheet) -> bool:
    """The three rows of a GPU and the rule beneath; GPUs are listed from the first on unless `-i` was given."""
    first, second, third = (p.match(text.lines[n]) for p, n in zip((_FIRST, _SECOND, _THIRD), numbers))
    if not (first and second and third and _RULE.match(text.lines[numbers[3]])) or int(first["index"]) != index:
        return False
    a, b, c = numbers[:3]
    sheet.skip(*numbers)
    name = first["name"]
    found = (
        (a, "name", None if name.endswith("...") else name),
        (a, "persistence_mode", first["persistence"] == "On"),
        (a, "pci_address", _words.pci_address(first["bus"])),
        (a, "display_active", {"On": True, "Off": False}.get(first["display"])),
        (a, "ecc_mode", {"Off": False, "N/A": None}.get(first["ecc"], True)),
        (b, "temperature_celsius", int(second["temp"])),
        (b, "performance_state", int(second["state"][1:])),
        (b, "power_draw_watts", _watts(second["draw"])),
        (b, "enforced_power_limit_watts", _watts(second["cap"])),
        (b, "memory_used_bytes", int(second["used"]) << 20),
        (b, "memory_total_bytes", int(second["total"]) << 20),
        (b, "utilization_gpu_percent", _words.integer(second["util"].rstrip("%"))),
        (b, "compute_mode", _MODES[second["mode"]]),
        (c, "mig_mode", {"Enabled": True, "Disabled": False}.get(third["mig"])),
    )
    for line, key, value in found:
        sheet.value(line, path_of(f"gpu[].{key}", index), value)
    return True


def _watts(word: str) -> float | None:
    return float(word[:-1]) if word.endswith("W") else None
