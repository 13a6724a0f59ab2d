"""A result against stored ones: is a figure worse, the same, or can nobody tell?

Each side is a block of repetitions of one session, so that what sessions of a healthy machine differ by counts in:
as three or more baselines show it, else the figure's own allowance (`Quantity.session_difference`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import geometric_mean

from envsnap.probe.declared import Quantity, quantity_of
from envsnap.probe.result import Figure, ProbeResult
from envsnap.runs.metrics import Better
from envsnap.runs.verdict import SAME_WITHIN, Design, History, Outcome, Verdict, judge

ENOUGH_SESSIONS = 3
"""From this many baselines on they tell how much sessions differ."""

_SAME_WITHIN = 1.5
"""Without them, two figures are the same if their ratio surely lies within this many times the allowance."""


class Standing(str, Enum):
    """A figure against the baseline.

    UNKNOWN: the gap could be one between healthy sessions. MISSING: one side has no figure to compare.
    """

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    UNKNOWN = "unknown"
    MISSING = "missing"


@dataclass(frozen=True)
class Compared:
    """One figure of the baseline, as it stands now.

    `before` and `now` are geometric means of the repetitions, which is what is compared: `ratio` is now / before, with
    a 95 % interval.
    """

    name: str
    standing: Standing
    reason: str
    before: float | None = None
    now: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def compare(result: ProbeResult, baselines: Sequence[ProbeResult]) -> tuple[Compared, ...]:
    """Every figure that the first baseline measured, or of which the result alone has a value.

    The first baseline is the one that is compared with; with three or more, all of them show how much sessions of this
    machine differ. Raises: ValueError without a baseline.
    """
    if not baselines:
        raise ValueError("no baseline to compare with")
    names = [f.name for f in baselines[0].figures if f.values]
    names += [f.name for f in result.figures if f.values and f.name not in names]
    return tuple(_compare(name, result.figure(name), baselines) for name in names)


def _compare(name: str, now: Figure | None, baselines: Sequence[ProbeResult]) -> Compared:
    before = baselines[0].figure(name)
    means = (_mean(before), _mean(now))
    if before is None or not before.values:
        reason = (before.unavailable if before else "") or "not measured"
        return Compared(name, Standing.MISSING, f"the baseline has none: {reason}", *means)
    if now is None or not now.values:
        return Compared(name, Standing.MISSING, now.unavailable if now else "not asked for", *means)
    if before.method != now.method:
        reason = f"measured in another way: {before.method}, now {now.method}"
        return Compared(name, Standing.MISSING, reason, *means)
    quantity = quantity_of(name)
    same = [f for b in baselines if (f := b.figure(name)) and f.values and f.method == now.method]
    known = len(same) >= ENOUGH_SESSIONS
    verdict = judge(
        before.values,
        now.values,
        Design.BLOCKS,
        History(tuple(f.values for f in same)) if known else None,
        same_within=SAME_WITHIN if known else _SAME_WITHIN * quantity.session_difference,
        session_difference=quantity.session_difference,
    )
    return Compared(
        name, _standing(verdict, quantity), verdict.reason, *means, verdict.ratio, verdict.low, verdict.high
    )


def _mean(figure: Figure | None) -> float | None:
    return geometric_mean(figure.values) if figure and figure.values else None


def _standing(verdict: Verdict, quantity: Quantity) -> Standing:
    if verdict.outcome is Outcome.SAME:
        return Standing.SAME
    if verdict.outcome is Outcome.UNKNOWN:
        return Standing.UNKNOWN
    return Standing.WORSE if (verdict.ratio < 1) is (quantity.better is Better.HIGHER) else Standing.BETTER
