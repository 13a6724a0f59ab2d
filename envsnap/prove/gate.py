"""The gate: does the gap come back at all, when all suspects are put as either side had them?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

from envsnap.prove.belief import Spread
from envsnap.runs.verdict import SAME_WITHIN

PAIRS = 2
PAIRS_IF_NOISY = 3
NOISY = 0.10
MOST_PAIRS = 8
MOST_PAIRS_FOR_LITTLE = 4
"""Where the recorded gap is one that a verdict calls the same: it is settled sooner, and rather as nothing."""
_SURE = 0.997
"""One-sided: the chance that noise alone opens the gate is 0.3 % a look."""
_EXCLUDED = 0.975
_WORTH = 0.5
"""Part of the recorded gap that has to be excluded before it is said not to come back."""


class Gate(str, Enum):
    """What the gate says."""

    OPEN = "open"
    SHUT = "shut"
    UNDECIDED = "undecided"


def judge(slow: Sequence[float], fast: Sequence[float], spread: Spread, gap: float | None) -> Gate:
    """Judge log costs of interleaved runs. `gap` is the recorded log ratio, if there is one."""
    from scipy import special

    pairs = min(len(slow), len(fast))
    if pairs < pairs_of(spread):
        return Gate.UNDECIDED
    difference = math.fsum(slow) / len(slow) - math.fsum(fast) / len(fast)
    squares = sum(math.fsum((v - math.fsum(side) / len(side)) ** 2 for v in side) for side in (slow, fast))
    freedom = spread.freedom + len(slow) + len(fast) - 2
    sigma = math.sqrt((spread.freedom * spread.sigma**2 + squares) / freedom)
    error = max(sigma, 1e-4) * math.sqrt(1 / len(slow) + 1 / len(fast))
    same = math.log1p(SAME_WITHIN)
    worth = _WORTH * max(gap, same) if gap and gap > 0 else math.log(1.05)
    if difference > special.stdtrit(freedom, _SURE) * error:
        return Gate.OPEN
    if difference + special.stdtrit(freedom, _EXCLUDED) * error < worth:
        return Gate.SHUT
    if pairs >= (MOST_PAIRS_FOR_LITTLE if gap is not None and gap < same else MOST_PAIRS):
        clear = difference > max(worth, special.stdtrit(freedom, _EXCLUDED) * error)
        return Gate.OPEN if clear else Gate.SHUT
    return Gate.UNDECIDED


def pairs_of(spread: Spread) -> int:
    """How many pairs are run before the gate is judged."""
    return PAIRS_IF_NOISY if spread.sigma > NOISY else PAIRS
