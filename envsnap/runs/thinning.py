"""Fewer samples that draw the same line: of each stretch of time the first, least, largest and last one are kept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

Point = tuple[float, float]
"""A time in seconds, and a figure."""

_GAP = 4
"""A pause counts as a gap from so many times the usual distance between samples on."""


def thinned(points: Sequence[Point], stretches: int) -> list[Point]:
    """At most four points of each of `stretches` equal stretches of time; all of them where they are that few.

    Extremes survive: a dip of one sample is as deep as before. `points` are in the order of time.
    """
    if len(points) <= 4 * stretches:
        return list(points)
    start, end = points[0][0], points[-1][0]
    if not end > start:
        return list(points[: 4 * stretches])
    times, values = ([point[i] for point in points] for i in (0, 1))
    edges = [bisect_left(times, start + (end - start) * i / stretches) for i in range(stretches)]
    found: list[Point] = []
    for first, after in pairwise([*edges, len(points)]):
        held = range(first, after)
        if held:
            least, largest = (end_of(held, key=values.__getitem__) for end_of in (min, max))
            found += [points[i] for i in sorted({first, least, largest, after - 1})]
    return found


def lines(points: Sequence[Point]) -> Iterator[list[Point]]:
    """The points in stretches without a gap: where nothing was read for long, no line is drawn."""
    if not points:
        return
    usual = median(b[0] - a[0] for a, b in pairwise(points)) if len(points) > 1 else 0.0
    line = [points[0]]
    for before, point in pairwise(points):
        if point[0] - before[0] > _GAP * usual:
            yield line
            line = []
        line.append(point)
    yield line
