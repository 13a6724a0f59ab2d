"""NCCL log.

Seen: NCCL 2.28.9 under NCCL_DEBUG=INFO on two H200, by themselves and among an engine's lines.

Untested: other versions, as far as their lines differ; several nodes; more than two ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors.nccl import rank_readings
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.reading import Value
from envsnap.workers import nccl_log

_LINE = re.compile(r"\s*(?P<line>\S+:\d+:\d+ \[-?\d+\] NCCL (?:INFO|WARN|TRACE) .*)")
_MATRIX = re.compile(r"NCCL INFO Enabled NCCL Func/Proto/Algo Matrix:\s*\Z")
_TABLE = re.compile(r"\s*(?:Function|Broadcast|Reduce|AllGather|ReduceScatter|AllReduce) \|[^|]*\|[^|]*\|?\s*\Z")
_FUNCTIONS = ("Function", "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def recognise(text: Text) -> Iterator[range]:
    """From the first line of NCCL's to the last: its lines stand among others'."""
    found = [n for n, line in enumerate(text.lines) if " NCCL " in line[:200] and _LINE.match(line)]
    if found:
        last = found[-1]
        while last + 1 < len(text.lines) and _TABLE.match(text.lines[last + 1]):
            last += 1
        yield range(found[0], last + 1)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `nccl.rank[]`, as a capture makes them of such a log."""
    kept: list[str] = []
    rows = 0
    in_table = False
    for number in lines:
        line = text.lines[number]
        if match := _LINE.match(line):
            kept.append(match["line"])
            sheet.skip(number)
            in_table, rows = bool(_MATRIX.search(match["line"])), 0
        elif in_table and rows < len(_FUNCTIONS) and _TABLE.match(line) and line.split()[0] == _FUNCTIONS[rows]:
            kept.append(line)
            sheet.skip(number)
            rows += 1
        else:
            in_table = in_table and not line.strip()
    log = nccl_log.parse(kept)
    sheet.value(lines.start, "nccl.log.rank_count", len(log.ranks) or None)
    for number, rank in sorted(log.ranks.items()):
        for path, found in rank_readings(number, rank):
            # NOTE: a log that was cut may have lost what these lists lack.
            if isinstance(found, Value) and found.value != []:
                sheet.value(lines.start, path, found.value)
        sheet.version = sheet.version or rank.version
    if log.cut:
        sheet.notes.append("only the beginning of the log was read")
