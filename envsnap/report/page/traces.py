"""What is drawn over time: each run's samples, on one clock that begins with its measured window."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from envsnap.reading import Json
from envsnap.report.page.content import Content
from envsnap.runs.columns import Columns
from envsnap.runs.run import Run
from envsnap.runs.thinning import Point

_GPU = re.compile(r"\Agpu\[(\d{1,6})\]\.")
_WILD = 1e18
"""No figure of a machine is that large, and arithmetic on it stays finite."""

RUNS = 3
"""Runs of a side that are drawn, those that succeeded first."""


@dataclass(frozen=True)
class Trace:
    """One run's samples. Times are seconds since the start of its measured window, or of the run without one."""

    letter: str
    run: Run
    samples: Columns

    @property
    def zero(self) -> float:
        """The run's second at which the clock begins."""
        return self.run.window[0] if self.run.window and self.window else 0.0

    @cached_property
    def times(self) -> list[float]:
        """When each sample was taken."""
        zero = self.zero
        return [t - zero for t in self.samples.times]

    @property
    def window(self) -> tuple[float, float] | None:
        """The measured part."""
        start, end = self.run.window or (0.0, 0.0)
        return (0.0, end - start) if end > start else None

    def points(self, column: str) -> list[Point]:
        """The figures of a column that were read."""
        held = zip(self.times, self.samples.columns.get(column, ()))
        return [
            (t, float(v)) for t, v in held if isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) < _WILD
        ]

    def states(self, column: str) -> list[tuple[float, Json]]:
        """The lists of names in a column, where they were read."""
        return [(t, v) for t, v in zip(self.times, self.samples.columns.get(column, ())) if isinstance(v, list)]


@dataclass(frozen=True)
class View:
    """A stretch of time on the common clock: the whole, or the surroundings of the measured windows."""

    name: str
    start: float
    end: float

    def holds(self, points: Sequence[Point]) -> list[Point]:
        """The points within, and the nearest one on either side, so that lines reach the edge."""
        first = bisect_left(points, self.start, key=lambda p: p[0])
        after = bisect_right(points, self.end, key=lambda p: p[0])
        return list(points[max(0, first - 1) : after + 1])


def traces(content: Content) -> list[Trace]:
    """The runs that are drawn, side A's first."""
    found: list[Trace] = []
    for letter, _, side in content.lettered():
        runs = sorted(side.runs, key=lambda r: r.status != "ok")
        numbers = content.gpu_numbers if letter == "b" else {}
        held = [Trace(letter, r, _renumbered(content.samples[r.id], numbers)) for r in runs if r.id in content.samples]
        found += [trace for trace in held if trace.samples.times][:RUNS]
    return found


def _renumbered(samples: Columns, numbers: Mapping[int, int]) -> Columns:
    """The samples with GPUs under the numbers by which the sides are compared."""
    if not numbers:
        return samples

    def renamed(match: re.Match[str]) -> str:
        return f"gpu[{numbers.get(int(match[1]), int(match[1]))}]."

    return Columns(samples.times, {_GPU.sub(renamed, name): column for name, column in samples.columns.items()})


def views(held: Sequence[Trace]) -> list[View]:
    """The surroundings of the measured windows first, where they are a small part of the whole; then the whole."""
    start, end = min(t.times[0] for t in held), max(t.times[-1] for t in held)
    whole = View("whole run", start, max(end, start + 1e-3))
    windows = [t.window for t in held if t.window]
    if not windows:
        return [whole]
    longest = max(w[1] for w in windows)
    near = View("measured window", max(start, -0.25 * longest), min(whole.end, 1.25 * longest))
    return [near, whole] if near.end - near.start < 0.9 * (whole.end - whole.start) else [whole]
