"""nvidia-smi -q.

Seen: a recording of the driver 580.159.04 with two H200; excerpts in public reports of 396.54, 450.80.02 and 535.86.10,
whose labels are known where they mean the same.

Untested: whole dumps of drivers other than 580, MIG instances, vGPU, `-q -d` of parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from envsnap.importers import _gpus, _words
from envsnap.importers._dates import c_locale
from envsnap.importers._gpus import Label
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_HEAD = "==============NVSMI LOG=============="
_GPU = re.compile(r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\Z")
_ROW = re.compile(r"( *)(\S(?:[^:]*\S)?)(?: *: (.*))?\Z")
_TOP = re.compile(r"([A-Z][A-Za-z ]*?) +: (.+)\Z")
_STEP = 4
FOREIGN = 3
"""Lines in a row that something else (a library that is loaded before it) may print among its own."""
_REPEATED = ("Processes",)
_REASONS = {"Idle": "gpu_idle", "Applications Clocks Setting": "applications_clocks_setting",
            "SW Power Cap": "sw_power_cap", "HW Slowdown": "hw_slowdown", "Sync Boost": "sync_boost",
            "HW Thermal Slowdown": "hw_thermal_slowdown", "HW Power Brake Slowdown": "hw_power_brake_slowdown",
            "SW Thermal Slowdown": "sw_thermal_slowdown", "Display Clock Setting": "display_clock_setting"}  # fmt: skip
_FIRST_AND_LAST = ("Idle", "Display Clock Setting")


def recognise(text: Text) -> Iterator[range]:
    """From its title to the first line that is neither indented nor a GPU's."""
    starts = [n for n, line in enumerate(text.lines) if line.strip() == _HEAD]
    for start, limit in zip(starts, [*starts[1:], len(text.lines)]):
        indent = len(text.lines[start]) - len(text.lines[start].lstrip())
        stop, foreign = start + 1, 0
        for number in range(start + 1, limit):
            line = text.lines[number][indent:].rstrip()
            if line and not (line.startswith("    ") or _GPU.match(line) or _TOP.match(line)):
                foreign += 1
                if foreign > FOREIGN:
                    break
            elif line:
                stop, foreign = number + 1, 0
        yield range(start, stop)


@dataclass
class _Gpu:
    """The labels of one GPU, and whether their order makes sense."""

    found: dict[Label, tuple[int, str]] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    whole: bool = True


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `gpu[]` and `nvml`. A GPU whose labels are out of order is left out."""
    indent = len(text.lines[lines.start]) - len(text.lines[lines.start].lstrip())
    sheet.skip(lines.start)
    top: dict[str, tuple[int, str]] = {}
    gpus: list[_Gpu] = []
    for number in lines[1:]:
        line = text.lines[number][indent:].rstrip()
        if _GPU.match(line):
            gpus.append(_Gpu(lines=[number]))
        elif not gpus and (row := _TOP.match(line)):
            top[row[1]] = (number, row[2])
        elif gpus and line.startswith(" "):
            _add(gpus[-1], number, line)
    _log(sheet, top)
    minors = [_minor(gpu) for gpu in gpus]
    attached = _words.integer(top.get("Attached GPUs", (0, ""))[1])
    if not _gpus.indexed(attached, minors):
        for gpu in gpus:
            sheet.drop(gpu.lines[0], len(gpu.found))
            sheet.skip(*gpu.lines)
        if gpus:
            sheet.notes.append(f"it shows {len(gpus)} of {attached} GPUs, and not which: they are left out")
        return
    for index, gpu in enumerate(gpus):
        if not gpu.whole or next(iter(gpu.found), ("",))[0] != "Product Name":
            sheet.drop(gpu.lines[0], len(gpu.found))
            sheet.notes.append(f"the lines of GPU {index} are out of order: it is left out")
            continue
        sheet.skip(*gpu.lines)
        _gpus.put(sheet, _gpus.BY_TEXT, index, gpu.found)
        _reasons(sheet, index, gpu)


def _log(sheet: Sheet, top: dict[str, tuple[int, str]]) -> None:
    for name, path, take in (
        ("Driver Version", "nvml.driver_version", _words.text),
        ("CUDA Version", "nvml.cuda_driver_version", _words.text),
        ("Attached GPUs", "nvml.gpu_count", _words.integer),
    ):
        if name in top:
            sheet.value(top[name][0], path, take(top[name][1]))
    if "Driver Version" in top:
        sheet.version = top["Driver Version"][1]
    if "Timestamp" in top:
        sheet.skip(top["Timestamp"][0])
        sheet.date = c_locale(top["Timestamp"][1])


def _add(gpu: _Gpu, number: int, line: str) -> None:
    gpu.lines.append(number)
    row = _ROW.match(line)
    depth, beyond = divmod(len(row[1]) if row else 1, _STEP)
    if row is None or beyond or depth < 1 or depth > len(gpu.heads) + 1:
        gpu.whole = False
        return
    del gpu.heads[depth - 1 :]
    label = (*gpu.heads, row[2])
    gpu.heads.append(row[2])
    if label[0] in _REPEATED:
        return
    if label in gpu.found:
        gpu.whole = False
    gpu.found[label] = (number, (row[3] or "").strip())


def _minor(gpu: _Gpu) -> int | None:
    return _words.integer(gpu.found.get(("Minor Number",), (0, ""))[1])


def _reasons(sheet: Sheet, index: int, gpu: _Gpu) -> None:
    """What holds the clocks down, where the whole list is there."""
    for head in ("Clocks Event Reasons", "Clocks Throttle Reasons"):
        rows = {label[-1]: row for label, row in gpu.found.items() if label[0] == head and len(label) > 1}
        if not all(name in rows for name in _FIRST_AND_LAST):
            continue
        active = {name for name, (_, word) in rows.items() if word == "Active"}
        if active <= _REASONS.keys() and all(word in ("Active", "Not Active") for _, word in rows.values()):
            names = sorted(_REASONS[name] for name in active)
            sheet.value(rows["Idle"][0], path_of("gpu[].clocks_event_reasons", index), names)
