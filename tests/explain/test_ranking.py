"""From log odds to probabilities: rivals, the two hypotheses, temperature."""

from __future__ import annotations

import math

import pytest

from envsnap.explain import NOT_REPRODUCIBLE, OUTSIDE, Evidence
from envsnap.explain.candidates import gather
from envsnap.explain.evidence import Weighed
from envsnap.explain.ranking import Ranked, rank
from envsnap.explain.weights import WEIGHTS
from tests.explain.test_candidates import change


def weighed(name: str, odds: float) -> Weighed:
    [candidate] = gather([change(f"env[{name}]")])
    return Weighed(candidate, (Evidence("made up", odds),), None)


def ranked(*suspects: Weighed) -> dict[str, Ranked]:
    found = rank(suspects, [Evidence("it comes back", -3.0)], (WEIGHTS.nulls.outside, []), WEIGHTS)
    assert math.fsum(r.probability for r in found) == pytest.approx(1)
    assert math.fsum(r.prior for r in found) == pytest.approx(1)
    return {r.id: r for r in found}


RULED_OUT = [weighed(f"NCCL_OFF_{i}", -6.0) for i in range(30)]
LIKELY = [weighed(f"NCCL_ON_{i}", 1.0) for i in range(30)]


def test_what_is_ruled_out_does_not_crowd_out_what_is_left() -> None:
    ruled_out, likely = (ranked(weighed("NCCL_X", 2.0), *others) for others in (RULED_OUT, LIKELY))
    assert ruled_out["env:NCCL_X"].probability > 0.5
    assert likely["env:NCCL_X"].probability < 0.1
    assert max(r.probability for r in ruled_out.values() if "_OFF_" in r.id) < 0.01


def test_a_single_change_that_could_have_done_it_leads() -> None:
    found = ranked(weighed("NCCL_X", 0.7))
    assert found["env:NCCL_X"].probability > found[OUTSIDE].probability > found[NOT_REPRODUCIBLE].probability


def test_nothing_that_changed_leaves_the_hypotheses() -> None:
    assert set(ranked()) == {NOT_REPRODUCIBLE, OUTSIDE}
    found = ranked(*RULED_OUT)
    assert found[OUTSIDE].probability > 0.5
