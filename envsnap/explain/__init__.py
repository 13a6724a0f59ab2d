"""Explain: which change made it slow, or none.

    changes ──> effective ones ──> suspects (what moved together) ──> stories ──> evidence ──> probabilities

Every step is a function on frozen data. A suspect's log odds are a sum of named pieces of evidence, normalised over
all suspects and two hypotheses that are always among them: that the difference is not reproducible, and that its
cause lies outside what was captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from envsnap.explain.explanation import (
    NOT_REPRODUCIBLE,
    OUTSIDE,
    Evidence,
    Explanation,
    Mistake,
    RuledOut,
    Side,
    Suspect,
)
from envsnap.explain.story import Clue, Facts, Finding, Innocent, Story, Together, View, every_story
from envsnap.explain.symptom import Symptom
from envsnap.explain.weights import WEIGHTS, Weights

if TYPE_CHECKING:
    from envsnap.explain.past import Past

__all__ = [
    "NOT_REPRODUCIBLE",
    "OUTSIDE",
    "WEIGHTS",
    "Clue",
    "Evidence",
    "Explanation",
    "Facts",
    "Finding",
    "Innocent",
    "Mistake",
    "RuledOut",
    "Side",
    "Story",
    "Suspect",
    "Symptom",
    "Together",
    "View",
    "Weights",
    "every_story",
    "explain",
]


def explain(
    a: Side,
    b: Side,
    *,
    control: tuple[Side, Side] | None = None,
    history: Sequence[Side | Past] = (),
    without: Sequence[str] = (),
    weights: Weights = WEIGHTS,
) -> Explanation:
    """Say which difference between two sides makes one of them slower, or that none does.

    `control` is a pair measured in the same two states under another load (without speculation, say): a suspect has to
    explain both. `history` are other sides or runs, of any state. `without` are codes of stories that are not told.
    """
    from envsnap.explain.explaining import explained

    return explained(a, b, control, history, without, weights)
