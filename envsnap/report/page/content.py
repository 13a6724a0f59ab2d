"""What a page is made of: one or two sides, and what the other reports found of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from envsnap.change import Diff
from envsnap.explain.explanation import Explanation, Side
from envsnap.gpu_pairing import aligned, pairing
from envsnap.runs.columns import Columns
from envsnap.runs.run import Run
from envsnap.snapshot import Snapshot

LETTERS = "ab"


@dataclass(frozen=True)
class Content:
    """One side, or two with their diff and explanation. `samples` are by the run's id, where they were kept."""

    sides: tuple[Side, ...]
    names: tuple[str, ...]
    samples: Mapping[str, Columns] = field(default_factory=dict)
    diff: Diff | None = None
    explanation: Explanation | None = None

    def lettered(self) -> Iterator[tuple[str, str, Side]]:
        """Each side with its letter and name."""
        return zip(LETTERS, self.names, self.sides)

    @cached_property
    def states(self) -> tuple[Snapshot, ...]:
        """The sides' snapshots as the diff compares them: the GPUs of the second numbered as in the first."""
        first, *others = (side.snapshot for side in self.sides)
        return (first, *(aligned(first, other)[0] for other in others))

    @cached_property
    def gpu_numbers(self) -> Mapping[int, int]:
        """The number under which each GPU of the second side is shown; empty where that is its own."""
        return pairing(*(side.snapshot for side in self.sides))[0] if len(self.sides) == 2 else {}

    @property
    def runs(self) -> list[tuple[str, Run]]:
        """Every run with its side's letter, in the order in which they ran."""
        return [(letter, run) for letter, _, side in self.lettered() for run in side.runs]

    @property
    def slow(self) -> str:
        """The letter of the slow side; of the second where nobody knows, empty with one side."""
        if self.explanation is None:
            return ""
        return "b" if self.explanation.fast == "a" else "a"
