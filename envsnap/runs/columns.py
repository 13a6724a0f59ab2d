"""Samples over time as columns, and what they come to: median, 5th and 95th percentile of the busy ones."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from envsnap.reading import Json


@dataclass
class Columns:
    """Times in seconds since the start of the run, and one list a column, as long as `times`; None where not read."""

    times: list[float] = field(default_factory=list)
    columns: dict[str, list[Json]] = field(default_factory=dict)

    def add(self, time: float, row: dict[str, Json]) -> None:
        """Append one sample; what a column lacks, earlier or now, is None."""
        for name in row:
            if name not in self.columns:
                self.columns[name] = [None] * len(self.times)
        self.times.append(time)
        for name, column in self.columns.items():
            column.append(row.get(name))

    def window(self, start: float, end: float) -> Columns:
        """The samples from `start` to `end`, both included."""
        first, last = bisect.bisect_left(self.times, start), bisect.bisect_right(self.times, end)
        return Columns(self.times[first:last], {n: c[first:last] for n, c in self.columns.items()})

    def where(self, keep: Sequence[bool]) -> Columns:
        """The samples whose flag is set."""
        chosen = [i for i, wanted in enumerate(keep) if wanted]
        return Columns([self.times[i] for i in chosen], {n: [c[i] for i in chosen] for n, c in self.columns.items()})

    def thinned(self) -> Columns:
        """Every second sample."""
        return self.where([i % 2 == 0 for i in range(len(self.times))])

    def numbers(self, name: str) -> list[float]:
        """The numbers of a column, without what was not read."""
        return [v for v in self.columns.get(name, ()) if isinstance(v, (int, float)) and not isinstance(v, bool)]

    def as_json(self) -> dict[str, Json]:
        """Times to the millisecond, columns as they are."""
        return {"times": [round(t, 3) for t in self.times], "columns": self.columns}

    @classmethod
    def from_json(cls, data: Json) -> Columns:
        """Raises: ValueError where the columns are not all as long as the times."""
        times, columns = list(data["times"]), {str(n): list(c) for n, c in data["columns"].items()}
        if any(len(column) != len(times) for column in columns.values()):
            raise ValueError("columns of unequal length")
        return cls([float(t) for t in times], columns)


@dataclass(frozen=True)
class Summary:
    """Median, 5th and 95th percentile, and of how many samples."""

    median: float
    p5: float
    p95: float
    count: int


def summary(numbers: Iterable[float]) -> Summary | None:
    """The summary of some numbers; None if there are none. Percentiles by linear interpolation."""
    ordered = sorted(numbers)
    if not ordered:
        return None
    return Summary(median(ordered), _percentile(ordered, 0.05), _percentile(ordered, 0.95), len(ordered))


def _percentile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def growth(numbers: Sequence[float]) -> float | None:
    """How much a counter grew; a fall is a restart of the counter, from which on its value counts."""
    if len(numbers) < 2:
        return None
    grown = 0.0
    for before, after in pairwise(numbers):
        grown += after - before if after >= before else after
    return grown


def transitions(values: Sequence[Json]) -> int:
    """How often a value changed from one sample to the next, of those that were read."""
    known = [v for v in values if v is not None]
    return sum(a != b for a, b in pairwise(known))
