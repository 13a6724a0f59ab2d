"""Evidence by what showed under load: who waits for whom."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean

from envsnap.explain.candidates import Candidate
from envsnap.explain.explanation import Evidence
from envsnap.explain.kinds import STEP, is_exchange
from envsnap.explain.story import View
from envsnap.explain.weights import Weights
from envsnap.keys import Effect


def shown(candidate: Candidate, view: View, weights: Weights) -> Iterator[Evidence]:
    """By what else showed under load: who waits for whom."""
    effects = {*candidate.effects}
    if not effects & {*STEP, Effect.PREFILL} or Effect.VALIDITY in effects or candidate.id.startswith("load:"):
        return
    sizes = weights.mechanism
    waiting = _waiting(view)
    if waiting is None:
        return
    says, acts = waiting
    if is_exchange(candidate) if acts == {Effect.COMMUNICATION} else candidate.effects[0] in acts:
        yield Evidence(says, sizes.shows)
    elif Effect.HOST_LAUNCH in acts and is_exchange(candidate):
        yield Evidence(f"{says} Waiting for another rank would keep them busy.", sizes.shows_idle)
    elif not acts & effects:
        weight = sizes.shows_host if Effect.HOST_LAUNCH in acts else sizes.shows_other
        yield Evidence(f"{says} That is not what it acts on.", weight)


_KERNELS = frozenset({Effect.COMPUTE, Effect.MEMORY, Effect.VERIFY, Effect.DRAFT, Effect.PREFILL})


def _waiting(view: View) -> tuple[str, frozenset[Effect]] | None:
    """In words what the GPUs do on the slow side that they did not before, and which effects show so."""
    power = _medians(view, "during.gpu[].power_median_watts")
    use = _medians(view, "during.gpu[].utilization_median_percent")
    clock = _medians(view, "during.gpu[].sm_clock_median_mhz")
    if use is None or (view.symptom.gap or 0.0) < math.log(1.1):
        return None
    if use[1] < use[0] - 10:
        words = f"GPUs are busy {use[1]:.0f} % of the time, not {use[0]:.0f} %: they wait for the host."
        return words, frozenset({Effect.HOST_LAUNCH, Effect.STORAGE, Effect.WORKLOAD})
    if power is None or clock is None or abs(clock[1] / clock[0] - 1) >= 0.03:
        return None
    if view.symptom.step_moved is False or view.symptom.moving == {"prefill"}:
        return None  # what draws less may be prompts, computed in smaller pieces
    if power[1] < 0.92 * power[0]:
        if view.setting.ranks == 1:
            return None  # there is nobody to wait for
        draw = f"GPUs draw {power[1]:.0f} W, not {power[0]:.0f} W"
        return f"{draw}, as busy and at the same clocks: they wait for each other.", frozenset({Effect.COMMUNICATION})
    if power[1] > 0.95 * power[0]:
        words = "GPUs are as busy as before and draw as much: they wait for nobody, the kernels take longer."
        return words, _KERNELS
    return None


def _medians(view: View, key: str) -> tuple[float, float] | None:
    """The mean over GPUs on the fast and the slow side; None where one was not sampled."""
    sides = [[v for v in facts.values(key).values() if isinstance(v, (int, float))] for facts in view.sides]
    if not all(sides) or fmean(sides[0]) <= 0:
        return None
    return fmean(sides[0]), fmean(sides[1])
