"""Where time went: at which share of the looks into a side's computing workers they were in a line of a file.

The record of it is one reading, `record.code_time`.
"""

from __future__ import annotations

from dataclasses import dataclass

from envsnap.explain.code.ran import holding
from envsnap.explain.ranks import computing
from envsnap.explain.story import Facts
from envsnap.reading import Json

TIME = "record.code_time"

LEAST_LOOKS = 50
"""Looks from which on a share is told: of 50, a share of 0.1 is known within 0.04."""


@dataclass(frozen=True)
class Time:
    """Shares of time, 0 to 1: in some lines with all that they called, and of it what no other recorded line had."""

    inside: float = 0.0
    at: float = 0.0

    def __add__(self, more: Time) -> Time:
        """Of both together. Lines of one function exclude each other at a look; of nested ones they may not."""
        return Time(min(1.0, self.inside + more.inside), min(1.0, self.at + more.at))


class Spent:
    """What one side's workers were seen at. `looks` of the worker that was looked at least; 0 where none was."""

    def __init__(self, facts: Facts) -> None:
        self._workers: list[tuple[int, dict[str, Json]]] = []
        for snapshot, _ in holding(facts, TIME):
            workers = {role: w for role, w in snapshot.values[TIME].items() if isinstance(w, dict)}
            for role in computing(workers):
                looks, files = workers[role].get("looks"), workers[role].get("files")
                if isinstance(looks, int) and looks >= LEAST_LOOKS and isinstance(files, dict):
                    self._workers.append((looks, files))
        self.looks = min((looks for looks, _ in self._workers), default=0)

    def lines(self, file: str) -> dict[int, Time]:
        """The time in each line of a file: the mean over the workers."""
        found: dict[int, Time] = {}
        for looks, files in self._workers:
            lines = files.get(file)
            for line, counts in lines.items() if isinstance(lines, dict) else ():
                if line.isdecimal() and isinstance(counts, list) and [type(n) for n in counts] == [int, int]:
                    inside, at = (n / looks / len(self._workers) for n in counts)
                    found[int(line)] = found.get(int(line), Time()) + Time(inside, at)
        return found
