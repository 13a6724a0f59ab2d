"""serving benchmark table (SGLang, vLLM).

Seen: SGLang 0.5.16, and its source; the source of vLLM's.

Untested: vLLM's from a run of one's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers import _words
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.reading import Json
from envsnap.runs.metrics import NoMetrics
from envsnap.runs.readers._serving import measured

_HEAD = re.compile(r"\s*=+ Serving Benchmark Result =+\s*\Z")
_FOOT = re.compile(r"\s*={40,}\s*\Z")
_ROW = re.compile(r"\s*([A-Z][\w &.()/%-]{2,60}?):(?: +(\S.{0,60}?))?\s*\Z")
_TITLE = re.compile(r"\s*-{3,}.*-{3,}\s*\Z")
_FIELDS = {
    "Successful requests": ("completed", _words.integer),
    "Benchmark duration (s)": ("duration", _words.figure),
    "Total input tokens": ("total_input_tokens", _words.integer),
    "Total generated tokens": ("total_output_tokens", _words.integer),
    "Output token throughput (tok/s)": ("output_throughput", _words.figure),
    "Median TTFT (ms)": ("median_ttft_ms", _words.figure),
    "Median TPOT (ms)": ("median_tpot_ms", _words.figure),
    "Median E2E Latency (ms)": ("median_e2e_latency_ms", _words.figure),
    "Accept length": ("accept_length", _words.figure),
    "Acceptance length": ("accept_length", _words.figure),
    "Failed requests": ("failed", _words.integer),
    "Backend": ("backend", _words.text),
    "Traffic request rate": ("request_rate", _words.text),
    "Max request concurrency": ("max_concurrency", _words.integer),
    "Maximum request concurrency": ("max_concurrency", _words.integer),
}
_ASKED = ("backend", "max_concurrency")


def recognise(text: Text) -> Iterator[range]:
    """From the title to the rule at the end; a table without its end is cut."""
    for start, line in enumerate(text.lines):
        if not _HEAD.match(line):
            continue
        for number in range(start + 1, min(start + 80, len(text.lines))):
            row = text.lines[number]
            if _FOOT.match(row):
                yield range(start, number + 1)
                break
            if row.strip() and not (_ROW.match(row) or _TITLE.match(row)):
                yield range(start, number)
                break


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """What was measured."""
    document: dict[str, Json] = {}
    for number in lines:
        row = _ROW.match(text.lines[number])
        if not row:
            sheet.skip(*((number,) if text.lines[number].strip() else ()))
        elif row[1] in _FIELDS:
            name, take = _FIELDS[row[1]]
            value = take(row[2] or "")
            if value is not None:
                document.setdefault(name, value)
            sheet.taken.add(number)
        else:
            sheet.skip(number)
    if not _FOOT.match(text.lines[lines[-1]]):
        sheet.notes.append("the table has no end: it is left out")
        return
    try:
        sheet.figures(lines.start, measured(document, "serving benchmark", "accept_length", "e2e_latency", _ASKED))
    except (NoMetrics, KeyError, ValueError, TypeError):
        sheet.notes.append("it holds no usable figure")
