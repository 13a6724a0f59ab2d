"""nvidia-smi -q -x.

Seen: a recording of the driver 580.159.04 with two H200 (nvsmi_device_v13.dtd).

Untested: other versions of the DTD, MIG instances, vGPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast
from xml.etree import ElementTree

from envsnap.importers import _gpus, _words
from envsnap.importers._dates import c_locale
from envsnap.importers._gpus import Label
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_PREAMBLE = re.compile(r'<\?xml [^<>]*\?>\s*\Z|<!DOCTYPE nvidia_smi_log SYSTEM "[\w.]+">\s*\Z')
_ROOT = "<nvidia_smi_log>"
_REASON = "clocks_event_reason_"
_REASONS = {name: name for name in ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
            "hw_thermal_slowdown", "hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown")}  # fmt: skip
_REASONS["display_clocks_setting"] = "display_clock_setting"


def recognise(text: Text) -> Iterator[range]:
    """From the root's opening to its end, or to the end of the text."""
    start: int | None = None
    for number, line in enumerate(text.lines):
        if line.strip() == _ROOT:
            start = number
            while start and text.lines[start - 1].startswith(("<?xml ", "<!DOCTYPE nvidia_smi_log ")):
                start -= 1
        elif "</nvidia_smi_log>" in line[:200] and start is not None:
            yield range(start, number + 1)
            start = None
    if start is not None:
        yield range(start, len(text.lines))


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `gpu[]` and `nvml`, of each GPU whose element is whole."""
    parser: ElementTree.XMLPullParser[Any] = ElementTree.XMLPullParser(events=("end",))
    gpus: list[tuple[int, int, ElementTree.Element]] = []
    attached: int | None = None
    begun = lines.start
    for number in lines:
        line = text.lines[number]
        if _PREAMBLE.match(line):
            sheet.skip(number)
            continue
        if "<!" in line:  # no entity or declaration of a document's own is followed
            break
        if line.strip() == _ROOT:
            sheet.skip(number)
        if "<gpu id=" in line:
            begun = number
        try:
            parser.feed(line + "\n")
            ended: list[ElementTree.Element] = [cast(Any, event)[1] for event in parser.read_events()]
        except ElementTree.ParseError:
            break
        for element in ended:
            word = (element.text or "").strip()
            if element.tag == "gpu" and element.get("id"):
                gpus.append((begun, number, element))
                sheet.skip(*range(begun, number + 1))
            elif element.tag == "driver_version":
                sheet.version = word
                sheet.value(number, "nvml.driver_version", _words.text(word))
            elif element.tag == "cuda_version":
                sheet.value(number, "nvml.cuda_driver_version", _words.text(word))
            elif element.tag == "attached_gpus":
                attached = _words.integer(word)
                sheet.value(number, "nvml.gpu_count", attached)
            elif element.tag == "timestamp":
                sheet.date = c_locale(word)
                sheet.skip(number)
            elif element.tag == "nvidia_smi_log":
                sheet.skip(number)
    minors = [_words.integer(element.findtext("minor_number", "").strip()) for _, _, element in gpus]
    if not _gpus.indexed(attached, minors):
        if gpus:
            sheet.drop(gpus[0][0], sum(len(list(element.iter())) for _, _, element in gpus))
            sheet.notes.append(f"it shows {len(gpus)} of {attached} GPUs, and not which: they are left out")
        return
    for index, (start, stop, element) in enumerate(gpus):
        found = dict(_leaves(element, (), start))
        _gpus.put(sheet, _gpus.BY_XML, index, found)
        _count_lines(sheet, text, start, stop)
        _reasons(sheet, index, start, element)


def _leaves(element: ElementTree.Element, above: Label, line: int) -> Iterator[tuple[Label, tuple[int, str]]]:
    """Each element without children by the tags that lead to it; where one stands twice, the first holds."""
    seen: set[Label] = set()
    for child in element:
        label = (*above, child.tag)
        if len(child):
            if label not in seen:
                yield from _leaves(child, label, line)
        elif label not in seen:
            yield label, (line, (child.text or "").strip())
        seen.add(label)


def _count_lines(sheet: Sheet, text: Text, start: int, stop: int) -> None:
    """Count the lines whose element has a key as taken."""
    tags = {label[-1] for label in _gpus.BY_XML}
    for number in range(start, stop + 1):
        if (match := re.match(r"\s*<(\w+)>[^<]+</", text.lines[number])) and match[1] in tags:
            sheet.taken.add(number)


def _reasons(sheet: Sheet, index: int, line: int, gpu: ElementTree.Element) -> None:
    reasons = gpu.find("clocks_event_reasons")
    if reasons is None:
        return
    words = {child.tag.removeprefix(_REASON): (child.text or "").strip() for child in reasons}
    active = {name for name, word in words.items() if word == "Active"}
    if words.keys() >= _REASONS.keys() and active <= _REASONS.keys():
        sheet.value(line, path_of("gpu[].clocks_event_reasons", index), sorted(_REASONS[name] for name in active))
