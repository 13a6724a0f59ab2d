"""The symptom: how much slower, and which terms of the speed model made it so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log
from statistics import median

from envsnap.runs.compare import Comparison, Judged, worse
from envsnap.runs.metrics import Better
from envsnap.runs.verdict import Design, Outcome

STEP_TERMS = ("step_time", "verify", "draft", "draft_extend", "host_gap")
"""The terms that a step's time is made of."""

FLAT = 0.01
"""A logarithm below which nothing slowed, so that shares of it mean nothing."""

_PREFILL = ("ttft_seconds", "prefill_seconds")
_STEP = "step_seconds"


@dataclass(frozen=True)
class Symptom:
    """What the figures of two sides show, slow against fast; direction-free where there are none.

    `slowdown` is the logarithm of the ratio of times a token (0.45: times 1.57), None where nothing was measured.
    `terms` split it, each as a logarithm towards slower: `accept_length`, `step_time` or its parts (`verify`, `draft`,
    `draft_extend`, `host_gap`), `residual`; beside them, not part of the sum, `prefill` (the time to the first token).
    `inferred` are terms that follow from the model and were not measured. `figures` hold a term's fast and slow value.
    """

    slowdown: float | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    inferred: frozenset[str] = frozenset()
    figures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    design: Design = Design.SINGLE
    outcome: Outcome = Outcome.UNKNOWN
    control: Symptom | None = None

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
    def step_moved(self) -> bool | None:
        """Whether the step takes longer, by at least a third of the slowdown; None where that is not known."""
        shares = [share for term in STEP_TERMS if (share := self.share(term)) is not None]
        return sum(shares) >= 1 / 3 if shares else None


def slower_side(comparison: Comparison) -> str:
    """Which side is the slower one, "a" or "b"; "b" where the figures do not say."""
    if comparison.shares:
        return "b" if sum(s.log_change for s in comparison.shares) <= 0 else "a"
    for judged in comparison.judged:
        if judged.metric.better is not Better.NEITHER:
            return "b" if worse(judged) or judged.verdict.ratio == 1 else "a"
    return "b"


def symptom_of(comparison: Comparison | None, slow: str, control: Comparison | None = None) -> Symptom:
    """What a comparison shows, seen from its slower side; `control` is the one of the control pair."""
    beside = symptom_of(control, slow) if control else None
    if comparison is None:
        return Symptom(control=beside)
    sign = -1.0 if slow == "b" else 1.0
    main = _speed(comparison)
    terms = {s.term.removeprefix("inferred_"): sign * s.log_change for s in comparison.shares}
    figures = {
        s.term.removeprefix("inferred_"): _oriented((s.before, s.after), slow)
        for s in comparison.shares
        if s.before is not None and s.after is not None
    }
    slowdown = sum(terms.values()) if terms else None
    if slowdown is None and main is not None:
        slowdown = abs(log(main.verdict.ratio)) * (1 if worse(main) is (slow == "b") else -1)
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
        outcome=_outcome(comparison, main),
        control=beside,
    )


def _oriented(pair: tuple[float, float], slow: str) -> tuple[float, float]:
    return pair if slow == "b" else pair[::-1]


def _speed(comparison: Comparison) -> Judged | None:
    """The metric that the slowdown is read from: the first that has a good direction."""
    return next((j for j in comparison.judged if j.metric.better is not Better.NEITHER), None)


def _outcome(comparison: Comparison, main: Judged | None) -> Outcome:
    """DIFFERENT where speed or step time differs: the latter scatters less, for acceptance is not in it."""
    step = next((j for j in comparison.judged if j.metric.name == _STEP), None)
    outcomes = [j.verdict.outcome for j in (main, step) if j is not None]
    if Outcome.DIFFERENT in outcomes:
        return Outcome.DIFFERENT
    return Outcome.SAME if outcomes and all(o is Outcome.SAME for o in outcomes) else Outcome.UNKNOWN
