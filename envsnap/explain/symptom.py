"""The symptom: how much slower, and which terms of the speed model made it so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envsnap.runs.verdict import Design, Outcome


@dataclass(frozen=True)
class Symptom:
    """What the figures of two sides show, slow against fast; direction-free where there are none.

    `slowdown` is the logarithm of the ratio of times a token (0.45: times 1.57), None where nothing was measured.
    `terms` split it, each as a logarithm towards slower: `accept_length`, `step_time` or its parts (`verify`, `draft`,
    `draft_extend`, `host_gap`), `residual`; beside them, not part of the sum, `prefill` (the time to the first token).
    `inferred` are terms that follow from the model and were not measured.
    """

    slowdown: float | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    inferred: frozenset[str] = frozenset()
    design: Design = Design.SINGLE
    outcome: Outcome = Outcome.UNKNOWN
    control: Symptom | None = None

    @property
    def measured(self) -> bool:
        """Whether there are figures of both sides at all."""
        return self.slowdown is not None

    def share(self, term: str) -> float | None:
        """A term's part of the slowdown, as a fraction; None where the term was not measured or nothing slowed."""
        if not self.slowdown or term not in self.terms:
            return None
        return self.terms[term] / self.slowdown

    def moved(self, term: str) -> bool | None:
        """Whether a term makes up at least a third of the slowdown; None where that is not known."""
        share = self.share(term)
        return None if share is None else share >= 1 / 3
