"""Verdict: do two sets of runs differ in a metric, are they the same, or can nobody tell?

Everything is computed on logarithms, so a difference is a ratio. What a set of runs can show depends on how it
was measured (`Design`):

- *interleaved*: both sides alternated in random order, so that what drifts hits both. Judged by their own spread.
- *blocks*: first one side, then the other. The two blocks may differ for reasons that belong to neither side, so
  the interval carries the spread between sessions of one configuration: from history, or a stated default.
- *single*: one run on a side. Never DIFFERENT.

The unit of repetition is a run with a fresh process. No bootstrap: percentile intervals of few runs are far too
narrow (20 % false alarms at three runs a side).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

LEVEL = 0.95
"""Two-sided level of every interval."""

DECIDE_AT = 0.04
"""Two-sided error at which DIFFERENT is said. A little below what the interval shows, so that false alarms stay under
5 % also where runs are not log-normal (two modes reach 5.7 % when decided at 5 %)."""

SAME_WITHIN = 0.03
"""Two metrics are the same if the 90 % interval of their ratio (two one-sided tests at 5 %) lies within this."""

SESSION_DIFFERENCE = 0.20
"""Without history: by how much two sessions of one configuration may differ, as a 95 % bound on their ratio.
Two identical servers were seen 17 % apart."""

PAIRED_FROM = 6
"""From this many pairs on, interleaved runs are analysed pair by pair. Below, the degrees of freedom that pairing
costs weigh more than the drift it removes, and interleaving has already balanced that drift."""


class Design(str, Enum):
    """How the two sets were measured."""

    INTERLEAVED = "interleaved"
    BLOCKS = "blocks"
    SINGLE = "single"


class Outcome(str, Enum):
    """What can be said."""

    DIFFERENT = "different"
    SAME = "same"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class History:
    """Earlier runs of one configuration: a list of sessions, each a list of the metric's values."""

    sessions: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Verdict:
    """`ratio` is b / a, with a 95 % interval from `low` to `high` (None where the design gives none).

    `suspicious` marks an UNKNOWN whose point estimate lies beyond SAME_WITHIN: worth an interleaved run.
    `rank_p` is the exact two-sided rank test's p value, from four runs a side on.
    """

    outcome: Outcome
    design: Design
    ratio: float
    low: float | None
    high: float | None
    n_a: int
    n_b: int
    reason: str
    suspicious: bool = False
    rank_p: float | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class _Spread:
    """A variance of logs and how well it is known."""

    variance: float
    freedom: float


def judge(
    a: Sequence[float],
    b: Sequence[float],
    design: Design,
    history: History | None = None,
    same_within: float = SAME_WITHIN,
    session_difference: float = SESSION_DIFFERENCE,
) -> Verdict:
    """Compare metric values of side a with side b, one value a run, all positive; pairs by position if interleaved.

    `session_difference` is what stands for the spread between sessions where history knows none.

    Raises: ValueError for an empty side, a value that is not positive, or interleaved sides of unequal length.
    """
    logs_a, logs_b = _logs(a), _logs(b)
    history = history or History()
    if len(logs_a) == 1 or len(logs_b) == 1:
        return _single(logs_a, logs_b, history)
    if design is Design.INTERLEAVED and len(logs_a) != len(logs_b):
        raise ValueError("interleaved runs come in pairs")
    difference = _mean(logs_b) - _mean(logs_a)
    error, freedom, reason = _standard_error(logs_a, logs_b, design, history, session_difference)
    margin = _t_quantile(0.5 + LEVEL / 2, freedom) * error
    margin_same = _t_quantile(LEVEL, freedom) * error
    low, high = difference - margin, difference + margin
    within = math.log1p(same_within)
    if max(abs(difference - margin_same), abs(difference + margin_same)) <= within:
        outcome = Outcome.SAME
    elif abs(difference) > _t_quantile(1 - DECIDE_AT / 2, freedom) * error:
        outcome = Outcome.DIFFERENT
    else:
        outcome = Outcome.UNKNOWN
    return Verdict(
        outcome=outcome,
        design=design,
        ratio=math.exp(difference),
        low=math.exp(low),
        high=math.exp(high),
        n_a=len(logs_a),
        n_b=len(logs_b),
        reason=reason,
        suspicious=outcome is Outcome.UNKNOWN and abs(difference) > within,
        rank_p=_rank_p(logs_a, logs_b, design),
        notes=_modes(logs_a, logs_b),
    )


def _standard_error(
    a: list[float], b: list[float], design: Design, history: History, session_difference: float
) -> tuple[float, float, str]:
    """Standard error of the mean difference, its degrees of freedom, and in words what it rests on."""
    within, session = _history_spreads(history)
    n_a, n_b = len(a), len(b)
    if design is Design.INTERLEAVED:
        if n_a >= PAIRED_FROM:
            pairs = [y - x for x, y in zip(a, b)]
            spread = _pool(_Spread(_variance(pairs), n_a - 1), within and _Spread(2 * within.variance, within.freedom))
            return math.sqrt(spread.variance / n_a), spread.freedom, f"{n_a} interleaved pairs"
        spread = _pool(_pooled_sides(a, b), within)
        reason = f"{n_a} interleaved pairs, judged by the spread of all {n_a + n_b} runs"
        return math.sqrt(spread.variance * (1 / n_a + 1 / n_b)), spread.freedom, reason
    own = _pool(_pooled_sides(a, b), within)
    of_means = own.variance * (1 / n_a + 1 / n_b)
    if session is None:
        between = _Spread((math.log1p(session_difference) / _t_quantile(0.5 + LEVEL / 2, math.inf)) ** 2, math.inf)
        known = (
            f"two sessions of one configuration may differ by {session_difference:.0%} (no history, a stated default)"
        )
    else:
        between = _Spread(2 * session.variance, session.freedom)
        known = f"{len(history.sessions)} earlier sessions of this configuration"
    total = of_means + between.variance
    # Satterthwaite: the degrees of freedom of a sum of two estimated variances.
    uncertain = of_means**2 / own.freedom + between.variance**2 / between.freedom
    return math.sqrt(total), total**2 / uncertain if uncertain else math.inf, f"two blocks; {known}"


def _history_spreads(history: History) -> tuple[_Spread | None, _Spread | None]:
    """Spread of runs within a session, and of sessions' own levels beyond that."""
    sessions = [_logs(s) for s in history.sessions if s]
    repeated = [s for s in sessions if len(s) > 1]
    freedom = sum(len(s) - 1 for s in repeated)
    within = _Spread(sum(_variance(s) * (len(s) - 1) for s in repeated) / freedom, freedom) if freedom else None
    if len(sessions) < 3:
        return within, None
    # NOTE: the variance of session means is kept whole: it holds a share of the spread within sessions, which is
    # counted once more, and errs on the side of UNKNOWN.
    return within, _Spread(_variance([_mean(s) for s in sessions]), len(sessions) - 1)


def _pool(own: _Spread, past: _Spread | None) -> _Spread:
    """The runs' own spread and history's, weighted by what each is known by.

    Where these runs scatter clearly more than history says, history is of other conditions and is left out.
    """
    if past is None or past.freedom <= 0:
        return own
    if past.variance == 0 or own.variance / past.variance > _f_quantile(0.9, own.freedom, past.freedom):
        return own
    freedom = own.freedom + past.freedom
    return _Spread((own.variance * own.freedom + past.variance * past.freedom) / freedom, freedom)


def _pooled_sides(a: list[float], b: list[float]) -> _Spread:
    freedom = len(a) + len(b) - 2
    return _Spread((_variance(a) * (len(a) - 1) + _variance(b) * (len(b) - 1)) / freedom, freedom)


def _single(a: list[float], b: list[float], history: History) -> Verdict:
    """One run on a side shows nothing by itself; history gives an interval in which such a ratio is expected."""
    difference = _mean(b) - _mean(a)
    past = [v for s in history.sessions for v in _logs(s)]
    low = high = None
    reason = "a single run on a side cannot show a difference"
    notes: tuple[str, ...] = ()
    if len(past) >= 3:
        margin = _t_quantile(0.5 + LEVEL / 2, len(past) - 1) * math.sqrt(_variance(past) * (1 / len(a) + 1 / len(b)))
        low, high = math.exp(difference - margin), math.exp(difference + margin)
        inside = abs(difference) <= margin
        notes = (
            f"two runs of one configuration differ by up to {math.expm1(margin):.1%} "
            f"in {len(past)} earlier runs; this gap is {'inside' if inside else 'outside'} that",
        )
    return Verdict(
        Outcome.UNKNOWN, Design.SINGLE, math.exp(difference), low, high, len(a), len(b), reason,
        suspicious=abs(difference) > math.log1p(SAME_WITHIN), notes=notes,
    )  # fmt: skip


def _rank_p(a: list[float], b: list[float], design: Design) -> float | None:
    if min(len(a), len(b)) < 4:
        return None
    from scipy import stats

    if design is Design.INTERLEAVED and len(a) >= PAIRED_FROM:
        differences = [y - x for x, y in zip(a, b)]
        if not any(differences):
            return 1.0
        return float(stats.wilcoxon(differences, method="exact" if all(differences) else "approx").pvalue)
    tied = len({*a, *b}) < len(a) + len(b)
    return float(stats.mannwhitneyu(a, b, method="asymptotic" if tied else "exact").pvalue)


def _modes(a: list[float], b: list[float]) -> tuple[str, ...]:
    """Name a side whose runs fall into two groups far apart: one figure does not describe it."""
    found = []
    for name, values in (("first", a), ("second", b)):
        ordered = sorted(values)
        if len(ordered) < 6:
            continue
        gap, at = max((y - x, i + 1) for i, (x, y) in enumerate(pairwise(ordered)))
        lower, upper = ordered[:at], ordered[at:]
        if min(len(lower), len(upper)) < 2:
            continue
        freedom = len(ordered) - 2
        inside = math.sqrt((_variance(lower) * (len(lower) - 1) + _variance(upper) * (len(upper) - 1)) / freedom)
        if gap > math.log(1.02) and gap > 4 * inside:
            low, high = math.exp(_mean(lower)), math.exp(_mean(upper))
            found.append(
                f"the {name} side has two modes: {len(lower)} runs near {low:.4g}, {len(upper)} near {high:.4g}"
            )
    return tuple(found)


def _logs(values: Sequence[float]) -> list[float]:
    if not values:
        raise ValueError("no runs to compare")
    for value in values:
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"a metric has to be positive, not {value}")
    return [math.log(v) for v in values]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) if len(values) > 1 else 0.0


def _t_quantile(p: float, freedom: float) -> float:
    from scipy import special

    return float(special.ndtri(p) if math.isinf(freedom) else special.stdtrit(freedom, p))


def _f_quantile(p: float, numerator: float, denominator: float) -> float:
    from scipy import special

    return float(special.fdtri(numerator, denominator, p))
