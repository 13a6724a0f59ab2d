"""The verdict says what its design can carry, and no more."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from envsnap.runs.verdict import Design, History, Outcome, judge

FAST = [94.0, 95.1, 93.2]
SLOW = [60.0, 59.1, 61.0]


def test_a_large_interleaved_gap_is_different() -> None:
    verdict = judge(FAST, SLOW, Design.INTERLEAVED)
    assert verdict.outcome is Outcome.DIFFERENT
    assert verdict.ratio == pytest.approx(0.638, abs=0.002)
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.low < verdict.ratio < verdict.high < 0.7


def test_the_interval_is_student_s_on_logs() -> None:
    logs_a, logs_b = [math.log(v) for v in FAST], [math.log(v) for v in SLOW]
    expected = stats.ttest_ind(logs_b, logs_a).confidence_interval(0.95)
    verdict = judge(FAST, SLOW, Design.INTERLEAVED)
    assert verdict.low == pytest.approx(math.exp(expected.low), rel=1e-9)
    assert verdict.high == pytest.approx(math.exp(expected.high), rel=1e-9)


def test_many_pairs_are_judged_as_pairs() -> None:
    a = [100.0, 90.0, 80.0, 70.0, 60.0, 50.0]  # a drift far larger than the gap
    b = [v * r for v, r in zip(a, (0.95, 0.951, 0.949, 0.95, 0.952, 0.948))]
    verdict = judge(a, b, Design.INTERLEAVED)
    assert verdict.outcome is Outcome.DIFFERENT
    assert verdict.ratio == pytest.approx(0.95, abs=0.001)
    assert verdict.rank_p == pytest.approx(2 / 2**6)


def test_blocks_carry_the_default_difference_between_sessions() -> None:
    small = judge([100.0, 100.1, 99.9], [88.0, 88.1, 87.9], Design.BLOCKS)
    assert small.outcome is Outcome.UNKNOWN
    assert small.suspicious
    assert "20%" in small.reason
    large = judge(FAST, SLOW, Design.BLOCKS)
    assert large.outcome is Outcome.DIFFERENT


def test_history_that_shows_steady_sessions_settles_a_block_gap() -> None:
    steady = History(tuple((100.0 + d, 100.1 + d, 99.9 + d) for d in (0.0, 0.2, -0.1, 0.1, -0.2, 0.05)))
    assert judge([100.0, 100.1, 99.9], [88.0, 88.1, 87.9], Design.BLOCKS, steady).outcome is Outcome.DIFFERENT


@pytest.mark.parametrize("design", list(Design))
def test_single_runs_are_never_different(design: Design) -> None:
    past = History(((100.0, 101.0, 99.0, 100.5),))
    verdict = judge([100.0], [10.0], design, past)
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.design is Design.SINGLE
    assert verdict.suspicious
    assert "outside" in verdict.notes[0]


def test_same_needs_an_interval_within_the_margin() -> None:
    steady = judge([100.0, 100.2, 99.9, 100.1], [100.1, 100.0, 99.8, 100.2], Design.INTERLEAVED)
    assert steady.outcome is Outcome.SAME
    noisy = judge([100.0, 110.0, 90.0, 105.0], [101.0, 92.0, 108.0, 99.0], Design.INTERLEAVED)
    assert noisy.outcome is Outcome.UNKNOWN


def test_equal_values_are_the_same_not_a_division_by_zero() -> None:
    assert judge([5.0, 5.0, 5.0], [5.0, 5.0, 5.0], Design.INTERLEAVED).outcome is Outcome.SAME


def test_exact_rank_test_from_four_a_side() -> None:
    a, b = [1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3]
    assert judge(a, b, Design.BLOCKS).rank_p == pytest.approx(2 / math.comb(8, 4))
    assert judge(a[:3], b[:3], Design.BLOCKS).rank_p is None


def test_two_modes_are_named() -> None:
    slow_mode = [2.58, 2.60, 2.57, 4.12, 4.10, 4.15]
    verdict = judge(slow_mode, [4.1, 4.12, 4.09, 4.11, 4.1, 4.13], Design.BLOCKS)
    assert any("two modes" in note and "3 runs near 2.58" in note for note in verdict.notes)
    assert len(verdict.notes) == 1


def test_history_of_other_conditions_does_not_hide_a_wider_spread() -> None:
    calm = History(((100.0, 100.01, 99.99, 100.0, 100.01),))
    a, b = [100.0, 120.0, 85.0], [80.0, 100.0, 70.0]
    assert judge(a, b, Design.INTERLEAVED, calm).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("bad", [[], [0.0, 1.0], [-1.0, 1.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_figures_that_are_no_speed_are_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError):
        judge(bad, [1.0, 1.0], Design.BLOCKS)


def test_interleaved_runs_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="pairs"):
        judge([1.0, 2.0], [1.0, 2.0, 3.0], Design.INTERLEAVED)


_values = st.lists(st.floats(0.5, 2000.0), min_size=1, max_size=8)


@given(_values, _values, st.sampled_from([Design.BLOCKS, Design.SINGLE]))
def test_the_verdict_mirrors(a: list[float], b: list[float], design: Design) -> None:
    there, back = judge(a, b, design), judge(b, a, design)
    assert there.outcome is back.outcome
    assert there.ratio == pytest.approx(1 / back.ratio)
    if there.low is not None and back.high is not None:
        assert there.low == pytest.approx(1 / back.high, rel=1e-6)
