"""Ranking: log odds of all suspects and of the two hypotheses without changes, as probabilities that add up to one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from envsnap.explain.evidence import Weighed
from envsnap.explain.explanation import NOT_REPRODUCIBLE, OUTSIDE, Evidence
from envsnap.explain.kinds import class_of
from envsnap.explain.weights import TIE, Nulls, Weights

_TIED_FROM = 0.02
"""Probability from which a tie is worth telling."""


@dataclass(frozen=True)
class Ranked:
    """One line of the ranking: a weighed candidate, or a hypothesis (`weighed` is None)."""

    id: str
    weighed: Weighed | None
    evidence: tuple[Evidence, ...]
    prior: float
    probability: float
    ties_with: tuple[str, ...] = ()


def rank(
    weighed: Sequence[Weighed],
    not_reproducible: Sequence[Evidence],
    outside: tuple[float, Sequence[Evidence]],
    weights: Weights,
) -> list[Ranked]:
    """All suspects and both hypotheses, the likeliest first.

    How likely it is at all that a captured change is the cause grows with their number and priors, up to what the two
    hypotheses leave: forty cosmetic changes are no suspect, and a hundred plausible ones do not crowd the
    hypotheses out. A change that evidence speaks against is less of a rival: where all others are ruled out, the one
    that is left has hardly less of a chance for them.
    """
    nulls = weights.nulls
    rates = [_rate(each, weights) for each in weighed]
    rivals = math.fsum(rate * _left(each, nulls) for each, rate in zip(weighed, rates))
    room = max(0.0, 1 - nulls.not_reproducible - outside[0])
    among = room * (1 - math.exp(-nulls.coverage * rivals))
    entries: list[tuple[str, Weighed | None, tuple[Evidence, ...], float]] = [
        (each.candidate.id, each, each.evidence, among * rate / rivals) for each, rate in zip(weighed, rates)
    ]
    entries.append((NOT_REPRODUCIBLE, None, tuple(not_reproducible), nulls.not_reproducible))
    entries.append((OUTSIDE, None, tuple(outside[1]), outside[0] + room - among))
    whole = math.fsum(entry[3] for entry in entries)
    entries = [(name, each, evidence, prior / whole) for name, each, evidence, prior in entries]
    scores = [math.log(max(prior, 1e-12)) + math.fsum(e.weight for e in evidence) for _, _, evidence, prior in entries]
    highest = max(scores)
    shares = [math.exp(score - highest) for score in scores]
    probabilities = [share / math.fsum(shares) for share in shares]
    order = sorted(range(len(entries)), key=lambda i: (-scores[i], entries[i][0]))
    return [
        Ranked(*entries[i], probability=probabilities[i], ties_with=_ties(i, entries, scores, probabilities))
        for i in order
    ]


def _rate(each: Weighed, weights: Weights) -> float:
    """How readily such a change is a cause, before any evidence."""
    odds = weights.classes[class_of(each.candidate)].odds
    return float(max(each.candidate.prior, 1e-3) ** weights.sharpness * math.exp(odds))


def _left(each: Weighed, nulls: Nulls) -> float:
    """How much of a change is left as a rival of the others, by what speaks against it."""
    return min(1.0, math.exp(nulls.eliminated * each.odds))


def _ties(
    index: int,
    entries: Sequence[tuple[str, Weighed | None, tuple[Evidence, ...], float]],
    scores: Sequence[float],
    probabilities: Sequence[float],
) -> tuple[str, ...]:
    if entries[index][1] is None or probabilities[index] < _TIED_FROM:
        return ()
    return tuple(
        entry[0]
        for i, entry in enumerate(entries)
        if i != index and entry[1] is not None and abs(scores[i] - scores[index]) < TIE
    )
