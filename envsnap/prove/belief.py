"""What trials say about suspects: a posterior over each of them and *none*, with the levels and the spread fitted.

One figure a trial: the logarithm of the metric, turned so that slower is larger. Every trial reverts a set of suspects
to how the fast side had them. A suspect that is the cause of a fraction f of the gap lowers the figure by f times the
gap where it is reverted; the rest of the gap belongs to some other suspect, which is reverted too or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FREEDOM = 4.0
"""Of Student's t: one run in twenty that is far off must not settle anything."""

FRACTIONS = ((1.0, 0.82), (0.75, 0.06), (0.5, 0.06), (0.25, 0.06))
"""How much of the gap one suspect may make up, and how readily that is believed."""

_BETWEEN = 0.08
"""Standard deviation of a uniform share between two of those, in parts of the gap."""


@dataclass(frozen=True)
class Shot:
    """One trial that gave a figure: which suspects were reverted (those that are in question), and log cost."""

    reverted: frozenset[str]
    value: float


@dataclass(frozen=True)
class Spread:
    """Standard deviation of log cost between runs of one configuration, known as well as from `freedom` + 1 runs."""

    sigma: float
    freedom: float


@dataclass(frozen=True)
class Belief:
    """`slow` and `fast` are log costs, `sigma` their spread between runs; probabilities with `none` add up to 1.

    `n_slow` and `n_fast` say on how many runs the levels rest.
    """

    slow: float
    fast: float
    sigma: float
    n_slow: float
    n_fast: float
    probability: Mapping[str, float]
    none: float

    @property
    def gap(self) -> float:
        """Log ratio of slow to fast."""
        return self.slow - self.fast


def believe(prior: Mapping[str, float], none: float, shots: Sequence[Shot], spread: Spread) -> Belief:
    """The posterior. `prior` and `none` add up to 1; among the shots are ones with nothing and ones with all reverted.

    Levels and spread are refined by the shots whose side is known, so that a spread that was misjudged corrects itself.
    """
    every = frozenset(prior)
    ends = [0 if not s.reverted else 1 if s.reverted == every else None for s in shots]
    slow = _mean([s.value for s, end in zip(shots, ends) if end == 0])
    fast = _mean([s.value for s, end in zip(shots, ends) if end == 1])
    patterns = _patterns(prior, shots)
    sigma = spread.sigma
    weights = [(float(end == 0), float(end == 1)) for end in ends]
    for _ in range(3):
        slow, fast, sigma = _levels(shots, weights, slow, fast, spread)
        posterior, none_now, weights = _posterior(prior, none, shots, ends, patterns, (slow, fast, sigma))
    return Belief(slow, fast, sigma, sum(w[0] for w in weights), sum(w[1] for w in weights), posterior, none_now)


def _patterns(prior: Mapping[str, float], shots: Sequence[Shot]) -> dict[int, list[str]]:
    """Suspects that were reverted in the same trials cannot be told apart: bits of trials -> suspects."""
    bits = dict.fromkeys(prior, 0)
    for number, shot in enumerate(shots):
        for suspect in shot.reverted:
            bits[suspect] |= 1 << number
    found: dict[int, list[str]] = {}
    for suspect, pattern in bits.items():
        found.setdefault(pattern, []).append(suspect)
    return found


def _levels(
    shots: Sequence[Shot], weights: Sequence[tuple[float, float]], slow: float, fast: float, spread: Spread
) -> tuple[float, float, float]:
    """Both levels and the spread, each trial weighted by how surely it is of that level, outliers by little."""
    sums = [[0.0, 0.0], [0.0, 0.0]]
    for shot, pair in zip(shots, weights):
        for side, level in enumerate((slow, fast)):
            weight = pair[side] * _robust(shot.value - level, spread.sigma)
            sums[side][0] += weight * shot.value
            sums[side][1] += weight
    slow, fast = (total / weight for total, weight in sums)
    squares = sum(
        w * _robust(s.value - level, spread.sigma) * (s.value - level) ** 2
        for s, pair in zip(shots, weights)
        for w, level in zip(pair, (slow, fast))
    )
    count = sum(a + b for a, b in weights)
    variance = (spread.freedom * spread.sigma**2 + squares) / max(spread.freedom + count - 2, 1.0)
    return slow, fast, max(math.sqrt(variance), 1e-4)


def _robust(residual: float, sigma: float) -> float:
    return (FREEDOM + 1) / (FREEDOM + (residual / sigma) ** 2)


def _posterior(
    prior: Mapping[str, float],
    none: float,
    shots: Sequence[Shot],
    ends: Sequence[int | None],
    patterns: Mapping[int, list[str]],
    levels: tuple[float, float, float],
) -> tuple[dict[str, float], float, list[tuple[float, float]]]:
    """Probabilities, and for each trial how surely it was at the slow and at the fast level."""
    slow, fast, sigma = levels
    tables = [_table(s, len(prior), slow, fast, sigma) for s in shots]
    scores: dict[int, list[float]] = {
        pattern: [
            math.log(belief) + sum(table[f][pattern >> t & 1] for t, table in enumerate(tables))
            for f, (_, belief) in enumerate(FRACTIONS)
        ]
        for pattern in patterns
    }
    # NOTE: a culprit is fitted by two levels and none by one, which costs it half the log of the trials (as in BIC).
    occam = 0.5 * math.log(len(shots))
    alone = _alone(shots, sigma)
    top = max(alone, max(max(s) for s in scores.values()) - occam)
    odds = {p: [math.exp(s - occam - top) for s in of] for p, of in scores.items()}
    nothing = none * math.exp(alone - top)
    masses = {p: sum(prior[s] for s in members) for p, members in patterns.items()}
    whole = nothing + sum(masses[p] * sum(odds[p]) for p in patterns)
    if whole <= 0:  # all priors that are left are zero
        return dict(prior), none, [(float(e == 0), float(e == 1)) for e in ends]
    posterior = {s: prior[s] * sum(odds[p]) / whole for p, members in patterns.items() for s in members}
    weights = []
    for number, end in enumerate(ends):
        if end is not None:
            weights.append((float(end == 0), float(end == 1)))
            continue
        sides = [0.0, 0.0]
        for pattern in patterns:
            sides[pattern >> number & 1] += masses[pattern] * odds[pattern][0] / whole
        weights.append((sides[0], sides[1]))
    return posterior, nothing / whole, weights


def _table(shot: Shot, count: int, slow: float, fast: float, spread: float) -> list[tuple[float, float]]:
    """Log likelihood by fraction, for a culprit that was not reverted and for one that was."""
    rows = []
    for fraction, _ in FRACTIONS:
        row = []
        # NOTE: a part of the gap is of any size; the few that are tried stand for all between them.
        sigma = spread if fraction == 1.0 else math.hypot(spread, _BETWEEN * (slow - fast))
        for reverted in (0, 1):
            level = slow - fraction * (slow - fast) * reverted
            others = (len(shot.reverted) - reverted) / (count - 1) if count > 1 else 0.0
            others = min(max(others, 0.0), 1.0)
            rest = (1 - fraction) * (slow - fast)
            density = (1 - others) * _t(shot.value - level, sigma)
            if others and rest:
                density += others * _t(shot.value - level + rest, sigma)
            elif others:
                density += others * _t(shot.value - level, sigma)
            row.append(math.log(density + 1e-300))
        rows.append((row[0], row[1]))
    return rows


def _alone(shots: Sequence[Shot], sigma: float) -> float:
    """Log likelihood where nothing matters and all trials have one level."""
    level = _mean([s.value for s in shots])
    for _ in range(3):
        weights = [_robust(s.value - level, sigma) for s in shots]
        level = sum(w * s.value for w, s in zip(weights, shots)) / sum(weights)
    return sum(math.log(_t(s.value - level, sigma)) for s in shots)


_SCALE = math.gamma((FREEDOM + 1) / 2) / (math.gamma(FREEDOM / 2) * math.sqrt(FREEDOM * math.pi))


def _t(residual: float, sigma: float) -> float:
    return float(_SCALE / sigma * (1 + (residual / sigma) ** 2 / FREEDOM) ** (-(FREEDOM + 1) / 2))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
