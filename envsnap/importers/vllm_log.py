"""vLLM server log.

Seen: public reports of 0.6 to 0.29 (V0 and V1 engines), with lines of throughput and of speculation.

Untested: logs of one's own making; figures of several data-parallel engines are not added up; Ray's prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors._server_arguments import named
from envsnap.importers import _arguments
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.importers._throughput import Interval, measured
from envsnap.keys import path_of
from envsnap.reading import Json

SOURCE = "vLLM's log"
_LINE = re.compile(
    r"\s*(?:\([\w.-]{1,60}(?: pid=\d+)?\) )?(?:INFO|WARNING|ERROR|DEBUG) (\d\d-\d\d \d\d:\d\d:\d\d) "
    r"\[?[\w./-]{1,100}:\d+\] (.*)"
)
_VERSION = re.compile(r"vLLM API server version (\S+)\s*\Z")
_ENGINE = re.compile(r"Initializing a V[01] LLM engine \(v([^)\s]+)\) with config: (.*)\Z")
_GIVEN = re.compile(r"non-default args: (\{.*\})\s*\Z")
_THROUGHPUT = re.compile(
    r"(?:Engine (\d+): )?Avg prompt throughput: [\d.]+ tokens/s, "
    r"Avg generation throughput: (\d{1,9}\.\d+) tokens/s, Running: (\d{1,6}) reqs, "
)
_ACCEPTED = re.compile(r"SpecDecoding metrics: .*?Mean acceptance length: (\d{1,3}\.\d+),")
_SIZES = re.compile(r"""['"]cudagraph_capture_sizes['"]: ?\[([\d, ]+)\]""")
_MODE = re.compile(r"""['"]cudagraph_mode['"]: ?<CUDAGraphMode\.(\w+):""")
_RESOLVED = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?|'[^']*'|True|False|[A-Za-z_][\w./-]*")
_NO_ARGUMENTS = {"served_model_name"}


def recognise(text: Text) -> Iterator[range]:
    """From the first to the last line of its form, where some line is one that only vLLM writes."""
    found = [n for n, line in enumerate(text.lines) if ":" in line[:200] and _LINE.match(line)]
    if any(_is_vllm(text.lines[n][:600]) for n in found):
        yield range(found[0], found[-1] + 1)


def _is_vllm(line: str) -> bool:
    marks = ("vLLM API server version", "LLM engine (v", "Avg generation throughput:", "SpecDecoding metrics:",
             "non-default args:")  # fmt: skip
    return any(mark in line for mark in marks)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `server[0]` and what it measured while it decoded."""
    intervals: list[tuple[int, Interval]] = []
    given: dict[str, tuple[int, Json]] = {}
    resolved: dict[str, tuple[int, Json]] = {}
    engines: set[str] = set()
    for number in lines:
        match = _LINE.match(text.lines[number])
        if not match:
            continue
        sheet.date = sheet.date or match[1]
        sheet.skip(number)
        said = match[2]
        if version := _VERSION.match(said):
            sheet.version = version[1]
            sheet.value(number, "server[0].version", version[1])
        elif engine := _ENGINE.match(said):
            sheet.version = engine[1]
            sheet.value(number, "server[0].version", engine[1])
            resolved |= {name: (number, value) for name, value in _resolved(engine[2])}
            _graphs(sheet, number, engine[2])
        elif arguments := _GIVEN.match(said):
            given |= {name: (number, value) for name, value in _given(sheet, arguments[1])}
        elif speed := _THROUGHPUT.match(said):
            engines.add(speed[1] or "")
            intervals.append((number, Interval(float(speed[2]), int(speed[3]))))
        elif (accepted := _ACCEPTED.match(said)) and intervals:
            at, last = intervals[-1]
            intervals[-1] = at, Interval(last.tokens_per_second, last.running, float(accepted[1]))
            sheet.taken.add(number)
    for name, (number, value) in {**given, **resolved}.items():
        sheet.value(number, path_of("server[].argument[]", 0, name), value)
    if sheet.entries or intervals:
        sheet.value(lines.start, "server[0].engine", "vllm")
    speculates = None if not resolved else "speculative_config" in resolved or any(n.startswith("spec") for n in given)
    found = measured([interval for _, interval in intervals], SOURCE, speculates)
    if found and len(engines) == 1:
        sheet.taken.update(number for number, _ in intervals)
        sheet.figures(intervals[0][0], found)
    elif found:
        sheet.notes.append(f"figures of {len(engines)} engines are left out")


def _resolved(text: str) -> Iterator[tuple[str, Json]]:
    """Simple values of the configuration; structures are told by what was given."""
    for name, word in _arguments.split(text).items():
        if name in _NO_ARGUMENTS or word == "None" or not _RESOLVED.fullmatch(word):
            continue
        try:
            yield name, _arguments.literal(word)
        except _arguments.Unreadable:
            yield name, word.removeprefix("torch.")


def _given(sheet: Sheet, text: str) -> Iterator[tuple[str, Json]]:
    try:
        arguments = _arguments.literal(text)
    except _arguments.Unreadable:
        sheet.notes.append("its line of arguments cannot be read")
        return
    if isinstance(arguments, dict):
        yield from named({n: v for n, v in arguments.items() if n not in _NO_ARGUMENTS})


def _graphs(sheet: Sheet, number: int, text: str) -> None:
    if mode := _MODE.search(text):
        sheet.value(number, path_of("server[].argument[]", 0, "compilation_config.cudagraph_mode"), mode[1])
    if sizes := _SIZES.search(text):
        numbers = sorted(int(size) for size in sizes[1].split(",") if size.strip())
        sheet.value(number, "server[0].dp[0].graph_batch_sizes", numbers)
