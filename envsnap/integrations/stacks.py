"""Where this process's time goes while it serves: which lines of the recorded trees its threads are at, now and then.

Ten times a second the stacks of all threads are looked at. Counted once is each line that some thread is in, and apart
from that each that a thread is at: the innermost one of the recorded trees, whatever library it has called. What a
change costs then shows as its lines' share of the looks, in any Python and at next to no cost; that a line never ran is
nothing that looks can tell (see `reach` for that).
"""

from __future__ import annotations

import os
import random
import sys
import threading
from typing import Any

from envsnap.integrations.trees import Trees

LOOKS_PER_SECOND = 10.0
MAX_LINES = 20_000
"""Lines that are kept; what comes later is not counted."""
TOLD_LINES = 400
"""Lines that a record tells of: those at which most time was spent."""
FIRST_TOLD = 64
"""Looks after which they are told for the first time, and then whenever their number has doubled."""


class Stacks:
    """Looks at the stacks of this process from `serving` on, in a thread of its own."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self.looks = 0
        self._lines: dict[tuple[str, int], list[int]] = {}
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def serving(self) -> None:
        """From now on it serves: what was seen before is forgotten."""
        self.looks, self._lines = 0, {}
        if self._thread is None and not self.trees.off:
            self._thread = threading.Thread(target=self._run, name="envsnap-stacks", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    @property
    def told(self) -> int:
        """Changes where a record has news of them: seldom, since a record is a file to be written."""
        return (self.looks // FIRST_TOLD).bit_length()

    def found(self) -> dict[str, Any]:
        """{"looks", "files": {FILE: {LINE: [looks in it, looks at it]}}}, of the lines with most of them."""
        looks, lines = self.looks, list(self._lines.items())
        named: dict[str, dict[str, list[int]]] = {}
        for (file, line), counts in sorted(lines, key=lambda item: -sum(item[1]))[:TOLD_LINES]:
            named.setdefault(file, {})[str(line)] = list(counts)
        files: dict[str, dict[str, list[int]]] = {}
        for file, told in named.items():
            files.setdefault(os.path.realpath(file), {}).update(told)
        return {"looks": looks, "files": files}

    def _run(self) -> None:
        draw = random.Random(0)
        # NOTE: at irregular times, so that nothing which comes at a steady pace is always seen, or never.
        while not self._over.wait(draw.uniform(0.5, 1.5) / LOOKS_PER_SECOND):
            self._look()

    def _look(self) -> None:
        lines, own = self._lines, threading.get_ident()
        inside, at = set(), set()
        for thread, innermost in sys._current_frames().items():
            frame: Any = innermost if thread != own else None
            stack = []
            while frame is not None:
                if self.trees.holds(frame.f_code.co_filename):
                    stack.append((frame.f_code.co_filename, frame.f_lineno or 0))
                frame = frame.f_back
            inside.update(stack)
            at.update(stack[:1])
        for place in inside:
            if place in lines or len(lines) < MAX_LINES:
                counts = lines.setdefault(place, [0, 0])
                counts[0] += 1
                counts[1] += place in at
        self.looks += 1
