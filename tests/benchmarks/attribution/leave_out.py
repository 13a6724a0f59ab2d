"""Weights without the category that is judged, and stories without a case's own.

The odds of each class of suspects are set anew from the cases of all other categories: by how much oftener the culprit
is of a class than the suspects of that class would be by the priors of their keys alone. Shrunk to none, as a class of
few cases tells little.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from envsnap.explain import NOT_REPRODUCIBLE, OUTSIDE, Explanation, Weights, every_story, explain
from envsnap.explain.candidates import candidate
from envsnap.explain.effective import effective
from envsnap.explain.explanation import Mistake, Suspect
from envsnap.explain.kinds import class_of
from envsnap.explain.story import Clue, Facts, Innocent, Together, View
from envsnap.explain.weights import WEIGHTS, Weight
from envsnap.explain.work import asked_otherwise
from tests.benchmarks.attribution.build import Laid, lay
from tests.benchmarks.attribution.cases import CULPRIT, Case

SHRINK = 3.0
"""Cases that a class is taken to have had beside its own, with neither more nor fewer culprits than expected."""


@dataclass(frozen=True)
class Seen:
    """Of one case: how its suspects' probabilities fall on classes, and the class of the culprit."""

    category: str
    expected: Mapping[str, float]
    culprit: str


def without_own_category(cases: Sequence[Case], draws: int = 2) -> dict[str, Weights]:
    """Weights for each category, set from the cases of all others."""
    flat = replace(WEIGHTS, classes={name: replace(w, odds=0.0) for name, w in WEIGHTS.classes.items()})
    seen = [
        s for case in cases if case.group == CULPRIT for i in range(draws) if (s := _seen(lay(case, 1000 + i), flat))
    ]
    return {
        category: replace(WEIGHTS, classes=_fitted([s for s in seen if s.category != category], draws))
        for category in {case.category for case in cases}
    }


def _seen(laid: Laid, weights: Weights) -> Seen | None:
    found: Explanation = explain(laid.fast, laid.slow, weights=weights)
    expected: defaultdict[str, float] = defaultdict(float)
    culprit = ""
    for suspect in found.suspects:
        if suspect.id in (NOT_REPRODUCIBLE, OUTSIDE):
            continue
        expected[_class(suspect)] += suspect.probability
        if not culprit and any(c.path in laid.culprits for c in suspect.changes):
            culprit = _class(suspect)
    total = math.fsum(expected.values())
    if not culprit or not total:
        return None
    return Seen(laid.case.category, {name: share / total for name, share in expected.items()}, culprit)


def _class(suspect: Suspect) -> str:
    return class_of(candidate(suspect.id, suspect.changes))


def _fitted(seen: Sequence[Seen], draws: int) -> dict[str, Weight]:
    culprits = Counter(s.culprit for s in seen)
    expected: Counter[str] = Counter()
    for each in seen:
        expected.update(each.expected)
    shrink = SHRINK * draws
    return {
        name: Weight(
            math.log((culprits[name] + shrink) / (expected[name] + shrink)),
            f"board: culprits of {culprits[name] / draws:.1f} cases, {expected[name] / draws:.1f} expected",
        )
        for name in WEIGHTS.classes
    }


def own_stories(laid: Laid) -> tuple[str, ...]:
    """The stories that say anything in favour of the case's culprit."""
    one, two = Facts(laid.fast), Facts(laid.slow)
    found = effective(one, two)
    symptom = explain(laid.fast, laid.slow).symptom
    view = View(one, two, (*found.changes, *asked_otherwise(one, two)), symptom, found.shown)
    own = set()
    for story in every_story():
        if any(facts.has(key) for key in story.NEEDS for facts in view.sides):
            for finding in story.tell(view):
                if isinstance(finding, (Innocent, Mistake)) or (isinstance(finding, Clue) and finding.weight <= 0):
                    continue
                assert isinstance(finding, (Clue, Together))
                if any(c.path in laid.culprits for c in finding.changes):
                    own.add(story.CODE)
    return tuple(sorted(own))
