"""Fewer samples that draw the same line: of each stretch of time the first, least, largest and last one are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
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
    wide = (end - start) / stretches
    found: list[Point] = []
    for _, group in groupby(enumerate(points), lambda p: min(stretches - 1, int((p[1][0] - start) / wide))):
        held = list(group)
        kept = {held[0][0], held[-1][0]}
        kept |= {min(held, key=lambda p: p[1][1])[0], max(held, key=lambda p: p[1][1])[0]}
        found += [points[i] for i in sorted(kept)]
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
