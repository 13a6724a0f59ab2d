"""SGLang server log.

Seen: 0.5.16 on two H200 with EAGLE-3 (also one that failed at its start) and on a CPU; lines of 0.4 to 0.5 in public
reports. The line of arguments gives what /server_info would.

Untested: prefill and decode servers apart, several nodes; the figures of data-parallel ranks are not added up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from envsnap.collectors._server_arguments import named
from envsnap.collectors._server_sglang import NOT_ARGUMENTS
from envsnap.importers import _arguments
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.importers._throughput import Interval, measured
from envsnap.keys import path_of

SOURCE = "SGLang's log"
_LINE = re.compile(r"\s*\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)((?: (?:DP|TP|PP|EP|ATTN_TP|MOE_EP)\d+)*)\] (.*)")
_ARGUMENTS = re.compile(r"server_args=(ServerArgs\(.*\))\s*\Z")
_DECODE = re.compile(r"Decode batch(?: \[\d+\])?[.,] #running-req: (\d{1,6}), ")
_SPEED = re.compile(r"gen throughput \(token/s\): (\d{1,9}\.\d+)(?:,|\s*\Z)")
_ACCEPTED = re.compile(r"accept len: (\d{1,3}\.\d+)(?:,|\s*\Z)")
_GRAPH = re.compile(r"(?:cuda|cpu) graph: (True|False)(?:,|\s*\Z)")
_BEGIN = re.compile(
    r"Capture target (?:decode|verify) CUDA graph begin\..*\bbs=\[([\d, ]+)\]|Capture cuda graph bs \[([\d, ]+)\]"
)
_END = re.compile(r"Capture (?:target (?:decode|verify) CUDA|cuda) graph end\b")
_NCCL = re.compile(r"sglang is using nccl==(\d+\.\d+\.\d+)\s*\Z")
_CAPACITY = re.compile(r"max_total_num_tokens=(\d{1,12}), ")
_SERVES = ("The server is fired up", "Prefill batch", "Decode batch")
_FAILS = "Scheduler hit an exception: Traceback"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?::|\s*\Z)")
_TRACEBACK = 400
"""Lines that a traceback may have."""
_UNREADABLE = "its line of arguments is cut or cannot be read"
_MARKS = ("server_args=ServerArgs", "Decode batch", "Prefill batch", "Init torch distributed", "Load weight",
          "The server is fired up")  # fmt: skip
_ANY = re.compile("|".join(re.escape(mark) for mark in _MARKS))


def recognise(text: Text) -> Iterator[range]:
    """From the first to the last line of its form, where some line is one that only SGLang writes."""
    found = [n for n, line in enumerate(text.lines) if "[" in line[:40] and _LINE.match(line)]
    if any(_ANY.search(text.lines[n][:400]) for n in found):
        yield range(found[0], found[-1] + 1)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `server[0]` and what it measured while it decoded."""
    intervals: list[tuple[int, Interval]] = []
    begun: tuple[int, list[int]] | None = None
    algorithms: set[object] = set()
    failed, served = "", False
    seen: set[str] = set()
    for number in lines:
        match = _LINE.match(text.lines[number])
        if not match:
            continue
        sheet.date = sheet.date or match[1]
        sheet.skip(number)
        said = match[3]
        served = served or said.startswith(_SERVES)
        if arguments := _ARGUMENTS.match(said):
            if arguments[1] not in seen:  # a server that was started again tells the same
                algorithms.add(_put_arguments(sheet, number, arguments[1]))
            seen.add(arguments[1])
            sheet.taken.add(number)
        elif said.startswith("server_args="):
            sheet.notes.append(_UNREADABLE)
        elif decoding := _DECODE.match(said):
            if interval := _interval(int(decoding[1]), said):
                intervals.append((number, interval))
        elif begin := _BEGIN.search(said):
            begun = number, sorted(int(size) for size in (begin[1] or begin[2]).split(",") if size.strip())
        elif begun and _END.search(said):
            sheet.value(begun[0], "server[0].dp[0].graph_batch_sizes", begun[1])
        elif said.startswith(_FAILS):
            failed = failed or _exception(text, range(number + 1, lines.stop), sheet)
        elif nccl := _NCCL.match(said):
            sheet.value(number, "library[nccl/0].version", nccl[1])
        elif (capacity := _CAPACITY.match(said)) and "DP" not in match[2]:
            sheet.value(number, "server[0].dp[0].token_capacity_count", int(capacity[1]))
    if sheet.entries or intervals:
        sheet.value(lines.start, "server[0].engine", "sglang")
    if failed and not served:
        sheet.failure = f"the server did not start: {failed}"
    _figures(sheet, intervals, None if len(algorithms) != 1 else algorithms.pop() is not None)


def _put_arguments(sheet: Sheet, number: int, text: str) -> object:
    """The resolved arguments; returns the algorithm of speculation."""
    try:
        arguments = _arguments.call(text)
    except _arguments.Unreadable:
        sheet.notes.append(_UNREADABLE)
        return "?"
    for name, value in named({n: v for n, v in arguments.items() if n not in NOT_ARGUMENTS}):
        sheet.value(number, path_of("server[].argument[]", 0, name), value)
    return arguments.get("speculative_algorithm", "?")


def _exception(text: Text, lines: range, sheet: Sheet) -> str:
    """The last line of the traceback that follows, which says what went wrong."""
    for number in lines[:_TRACEBACK]:
        line = text.lines[number]
        if _LINE.match(line):
            break
        sheet.skip(number)
        if _RAISED.match(line):
            return line.strip()[:300]
    return "an exception that the log does not hold whole"


def _interval(running: int, said: str) -> Interval | None:
    speed, accepted, graph = _SPEED.search(said), _ACCEPTED.search(said), _GRAPH.search(said)
    if not speed:
        return None
    return Interval(
        float(speed[1]), running, float(accepted[1]) if accepted else None, graph[1] == "True" if graph else None
    )


def _figures(sheet: Sheet, intervals: list[tuple[int, Interval]], speculates: bool | None) -> None:
    each = [interval for _, interval in intervals]
    found = measured(each, SOURCE, speculates)
    if not found:
        return
    for number, _ in intervals:
        sheet.taken.add(number)
    sheet.figures(intervals[0][0], found)
    graphs = Counter(interval.graph for interval in each if interval.running and interval.graph is not None)
    if graphs:
        share = 100 * graphs[True] / graphs.total()
        sheet.value(intervals[0][0], "during.server.decode_graph_percent", round(share, 2))
    running = [interval.running for interval in each if interval.running]
    sheet.value(intervals[0][0], "during.server.decode_batch_mean_count", round(sum(running) / len(running), 3))
