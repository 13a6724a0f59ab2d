"""Which Python code ran: the lines of files in the recorded trees, by `sys.monitoring` (Python 3.12 and later).

Every function of the process calls back once, when it first starts; only those in the recorded trees are then
watched line by line, and each line once. What has been seen costs nothing any more in Python 3.13; in 3.12 a watched
function loses its merged instructions for good, which costs pure Python code 2 to 8 % (tests/benchmarks/recording.py).
There are two windows, `start_up` and `serving`, since a line that matters is one that ran while serving: all are seen
anew when that begins.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from types import CodeType
from typing import Any

from envsnap.integrations.trees import Trees

monitoring: Any = getattr(sys, "monitoring", None)


class Window:
    """What ran in a span of time. `complete`: nothing of the recorded trees can have run in it unseen."""

    def __init__(self, begin: float, complete: bool) -> None:
        self.begin = begin
        self.complete = complete
        self.lines: dict[str, set[int]] = {}


class Reach:
    """What ran, window by window. `reason` says why nothing is watched; `count` grows with what is seen."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self.reason = ""
        self.count = 0
        self._tool = -1
        self._start_up = self._now = Window(time.time(), False)

    def start(self) -> None:
        """Watch from now on, if this Python can and another tool leaves room."""
        if self.trees.off:
            self.reason = "switched off"
        elif monitoring is None:
            self.reason = "needs Python 3.12 or later"
        elif sys.version_info < (3, 13) and not self.trees.given:
            # NOTE: measured 5 % there against 1 % on 3.13: 3.12 gives up instructions that it had merged, for good.
            self.reason = "slows Python 3.12 down by some percent; name directories in ENVSNAP_RECORD_CODE to have it"
        else:
            # 0, 1, 2 and 5 are kept for debuggers, coverage, profilers and optimizers.
            free = [number for number in (3, 4) if monitoring.get_tool(number) is None]
            if free:
                self._watch(free[0])
            else:
                self.reason = "other tools have taken sys.monitoring's free numbers"

    def _watch(self, tool: int) -> None:
        self._tool = tool
        running = _running()
        loaded = (getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values()))
        before = [*(code.co_filename for code in running), *(file for file in loaded if isinstance(file, str))]
        self._start_up = self._now = Window(time.time(), not any(map(self.trees.holds, before)))
        monitoring.use_tool_id(tool, "envsnap")
        monitoring.register_callback(tool, monitoring.events.PY_START, self._started)
        monitoring.register_callback(tool, monitoring.events.LINE, self._line)
        monitoring.set_events(tool, monitoring.events.PY_START)
        for code in running:
            self._started(code, 0)

    def serving(self) -> None:
        """From now on it serves. Said again, it does so from then on, and what ran before was start-up."""
        if self._tool < 0:
            return
        if self._now is not self._start_up:
            for file, lines in list(self._now.lines.items()):
                self._start_up.lines.setdefault(file, set()).update(lines)
        self._now = Window(time.time(), True)
        monitoring.restart_events()
        for code in _running():
            if self.trees.holds(code.co_filename):
                # NOTE: restarting alone reaches a function when it is next called, and one that is running never is.
                monitoring.set_local_events(self._tool, code, 0)
                self._started(code, 0)

    def stop(self) -> None:
        """Leave `sys.monitoring` as it was."""
        if self._tool >= 0:
            monitoring.set_events(self._tool, 0)
            monitoring.free_tool_id(self._tool)
            self._tool = -1

    def found(self) -> dict[str, Any]:
        """{"reason", "windows": {NAME: {"from", "to", "complete"}}, "files": {FILE: {NAME: [[first, last], ...]}}}."""
        if self.reason:
            return {"reason": self.reason, "windows": {}, "files": {}}
        named = {"start_up": self._start_up}
        if self._now is not self._start_up:
            named["serving"] = self._now
        windows: dict[str, Any] = {}
        files: dict[str, Any] = {}
        for name, window in named.items():
            end = time.time() if window is self._now else self._now.begin
            windows[name] = {"from": round(window.begin, 3), "to": round(end, 3), "complete": window.complete}
            for file, lines in list(window.lines.items()):
                files.setdefault(os.path.realpath(file), {})[name] = ranges(lines)
        return {"reason": "", "windows": windows, "files": files}

    def _started(self, code: CodeType, offset: int) -> Any:
        if self.trees.holds(code.co_filename):
            lines = {line for _, _, line in code.co_lines() if line}
            if len(lines) > 1:
                monitoring.set_local_events(self._tool, code, monitoring.events.LINE)
            else:
                # NOTE: an iteration within one line is no event, but would ever be looked at again: a place is left
                # alone only after an event. That would cost a comprehension a tenth of its speed.
                for line in lines:
                    self._line(code, line)
        return monitoring.DISABLE

    def _line(self, code: CodeType, line: int) -> Any:
        lines = self._now.lines.get(code.co_filename)
        if lines is None:
            lines = self._now.lines.setdefault(code.co_filename, set())
        if line not in lines:
            lines.add(line)
            self.count += 1
        return monitoring.DISABLE


def _running() -> list[CodeType]:
    """The functions that some thread is in."""
    found = []
    for innermost in sys._current_frames().values():
        frame: Any = innermost
        while frame is not None:
            found.append(frame.f_code)
            frame = frame.f_back
    return found


def ranges(lines: Iterable[int]) -> list[list[int]]:
    """Numbers as ascending runs: {1, 2, 3, 7} is [[1, 3], [7, 7]]."""
    found: list[list[int]] = []
    for line in sorted(lines):
        if found and found[-1][1] == line - 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return found
