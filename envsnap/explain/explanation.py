"""What an explanation holds: the two sides, suspects with their evidence, and what was ruled out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envsnap.change import Change, NotCompared
from envsnap.keys import Effect
from envsnap.snapshot import Snapshot

if TYPE_CHECKING:
    from envsnap.explain.symptom import Symptom
    from envsnap.runs.compare import Comparison
    from envsnap.runs.run import Run

NOT_REPRODUCIBLE = "not_reproducible"
"""Id of the hypothesis that there is no lasting difference: noise, warm-up, a neighbour that has left."""

OUTSIDE = "outside"
"""Id of the hypothesis that the cause is nothing that was captured."""


@dataclass(frozen=True)
class Side:
    """What is known of one side: its state, and the runs that were measured in it.

    A side of which only figures are known is a run with these metrics and a snapshot that holds little, its sections
    unavailable as `not_recorded`. Without runs there are no figures, and nothing can be said about the speed.
    """

    snapshot: Snapshot
    runs: tuple[Run, ...] = ()
    label: str = ""

    @classmethod
    def of_runs(cls, runs: Sequence[Run], label: str = "") -> Side:
        """The side of some runs: the state of the first that succeeded. Raises: ValueError without any run."""
        if not runs:
            raise ValueError("a side needs at least one run")
        state = next((r for r in runs if r.status == "ok"), runs[0])
        return cls(state.snapshot, tuple(runs), label or state.label)


@dataclass(frozen=True)
class Evidence:
    """A sentence that speaks for a suspect (`weight` above zero) or against it; the weight is in log odds."""

    text: str
    weight: float
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suspect:
    """Changes that moved together, or one of the two hypotheses without changes (`NOT_REPRODUCIBLE`, `OUTSIDE`).

    The probabilities of all suspects add up to 1; `prior` is what it was before any evidence. `largest_ratio` is by how
    much physics lets it lengthen a step at most, as a ratio of times slow / fast (None: no bound is known),
    `unexplained` what is left of the slowdown then, as such a ratio. `ties_with` are the ids of suspects with equal
    evidence. `next` holds commands as argument arrays.
    """

    id: str
    title: str
    changes: tuple[Change, ...]
    probability: float
    prior: float
    mechanism: str
    effects: tuple[Effect, ...] = ()
    evidence_for: tuple[Evidence, ...] = ()
    evidence_against: tuple[Evidence, ...] = ()
    largest_ratio: float | None = None
    unexplained: float | None = None
    ties_with: tuple[str, ...] = ()
    next: tuple[tuple[str, ...], ...] = ()
    story: str | None = None


@dataclass(frozen=True)
class RuledOut:
    """What an investigator can stop wondering about, and why, in one sentence."""

    title: str
    reason: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mistake:
    """What is wrong on both sides, and so explains no difference between them."""

    title: str
    advice: str
    paths: tuple[str, ...] = ()
    story: str = ""


@dataclass(frozen=True)
class Explanation:
    """Suspects, the likeliest first; every change in them reads fast → slow. `fast` is "a" or "b".

    `unrecorded`: next to nothing is known of the state behind the fast side's figures. `contamination` are sentences on
    how far the fast side can be trusted as a baseline, `notes` qualify the whole.
    """

    fast: str
    symptom: Symptom
    comparison: Comparison | None
    control: Comparison | None
    suspects: tuple[Suspect, ...]
    ruled_out: tuple[RuledOut, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    not_comparable: tuple[NotCompared, ...] = ()
    contamination: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unrecorded: bool = False
