"""The symptom: how much slower, and which terms of the speed model made it so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from statistics import median

from envsnap.runs.compare import Comparison, Judged, worse
from envsnap.runs.metrics import Better
from envsnap.runs.run import Run
from envsnap.runs.speed import STEP_PARTS
from envsnap.runs.verdict import Design, Outcome

STEP_TERMS = ("step_time", *STEP_PARTS)
"""The terms that a step's time is made of."""

NOTICED = 0.04
"""A slowdown, as a logarithm, that has to be explained."""

FLAT = 0.01
"""A logarithm below which nothing slowed, so that shares of it mean nothing."""

_PREFILL = ("ttft_seconds", "prefill_seconds")


@dataclass(frozen=True)
class Symptom:
    """What the figures of two sides show, slow against fast; direction-free where there are none.

    `slowdown` is the logarithm of the ratio of times a token (0.45: times 1.57), None where nothing was measured.
    `terms` split it, each as a logarithm towards slower: `accept_length`, `step_time` or its parts (`verify`, `draft`,
    `draft_extend`, `decode`, `host_gap`), `residual`; beside them, not in the sum, `prefill` (time to first token).
    `inferred` are terms that follow from the model and were not measured. `figures` hold a term's fast and slow value.
    `gap` is the logarithm by which `metric`, the one that shows the difference most clearly, is worse. `failure` says
    why the slow side's runs failed, where none of them succeeded and the fast side's did.
    """

    slowdown: float | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    inferred: frozenset[str] = frozenset()
    figures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    design: Design = Design.SINGLE
    outcome: Outcome = Outcome.UNKNOWN
    control: Symptom | None = None
    gap: float | None = None
    metric: str = ""
    failure: str = ""

    @property
    def measured(self) -> bool:
        """Whether there are figures of both sides at all."""
        return self.slowdown is not None

    def share(self, term: str) -> float | None:
        """A term's part of the slowdown, as a fraction; None where the term was not measured or nothing slowed."""
        if self.slowdown is None or self.slowdown < FLAT or term not in self.terms:
            return None
        return self.terms[term] / self.slowdown

    def moved(self, term: str) -> bool | None:
        """Whether a term makes up at least a third of the slowdown; None where that is not known."""
        share = self.share(term)
        return None if share is None else share >= 1 / 3

    @property
    def moving(self) -> frozenset[str]:
        """Which of step, acceptance and prefill slowed, empty where that is not known."""
        found = set()
        if self.moved("accept_length"):
            found.add("acceptance")
        if self.step_moved or (self.step_moved is None and not found and (self.slowdown or 0.0) >= NOTICED):
            found.add("step")
        if (self.slowdown or 0.0) < NOTICED and self.terms.get("prefill", 0.0) >= NOTICED:
            found = {"prefill"}
        return frozenset(found)

    @property
    def step_moved(self) -> bool | None:
        """Whether the step takes longer, by at least a third of the slowdown; None where that is not known."""
        shares = [share for term in STEP_TERMS if (share := self.share(term)) is not None]
        return sum(shares) >= 1 / 3 if shares else None


def slower_side(a: Sequence[Run], b: Sequence[Run], comparison: Comparison | None) -> str:
    """Which side is the worse one, "a" or "b": the one whose runs failed, else the slower; "b" where nothing says."""
    succeeded = [any(r.status == "ok" for r in runs) for runs in (a, b)]
    if a and b and succeeded[0] is not succeeded[1]:
        return "b" if succeeded[0] else "a"
    shown = telling(comparison) if comparison else None
    return "a" if shown is not None and worse(shown) is False and shown.verdict.ratio != 1 else "b"


def telling(comparison: Comparison) -> Judged | None:
    """The metric in which the sides differ: of those with a good direction the first that is DIFFERENT, else the first
    that is suspicious, else the first.
    """
    judged = [j for j in comparison.judged if j.metric.better is not Better.NEITHER]
    different = [j for j in judged if j.verdict.outcome is Outcome.DIFFERENT]
    suspicious = [j for j in judged if j.verdict.suspicious]
    return next(iter((*different, *suspicious, *judged)), None)


def symptom_of(
    comparison: Comparison | None, slow: str, control: Comparison | None = None, failure: str = ""
) -> Symptom:
    """What a comparison shows, seen from its slower side; `control` is the one of the control pair."""
    beside = symptom_of(control, slow) if control else None
    if comparison is None:
        return Symptom(control=beside, failure=failure)
    sign = -1.0 if slow == "b" else 1.0
    shown = telling(comparison)
    terms = {s.term.removeprefix("inferred_"): sign * s.log_change for s in comparison.shares}
    figures = {
        s.term.removeprefix("inferred_"): _oriented((s.before, s.after), slow)
        for s in comparison.shares
        if s.before is not None and s.after is not None
    }
    gap = None if shown is None else abs(log(shown.verdict.ratio)) * (1 if worse(shown) is (slow == "b") else -1)
    slowdown = sum(terms.values()) if terms else gap
    for judged in comparison.judged:
        if judged.metric.name in _PREFILL and "prefill" not in terms:
            terms["prefill"] = -sign * log(judged.verdict.ratio)
            figures["prefill"] = _oriented((median(judged.a), median(judged.b)), slow)
    return Symptom(
        slowdown=slowdown,
        terms=terms,
        inferred=frozenset(s.term.removeprefix("inferred_") for s in comparison.shares if "inferred_" in s.term),
        figures=figures,
        design=comparison.design,
        outcome=_outcome(comparison, shown),
        control=beside,
        gap=gap,
        metric=shown.metric.name if shown else "",
        failure=failure,
    )


def _oriented(pair: tuple[float, float], slow: str) -> tuple[float, float]:
    return pair if slow == "b" else pair[::-1]


def _outcome(comparison: Comparison, shown: Judged | None) -> Outcome:
    """DIFFERENT where some metric is; SAME where all that have a good direction are."""
    outcomes = [j.verdict.outcome for j in comparison.judged if j.metric.better is not Better.NEITHER]
    if shown is not None and shown.verdict.outcome is Outcome.DIFFERENT:
        return Outcome.DIFFERENT
    return Outcome.SAME if outcomes and all(o is Outcome.SAME for o in outcomes) else Outcome.UNKNOWN
