"""The split of a change of throughput adds up, and says what it does not explain."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.runs.speed import Terms, log_mean, split


def test_the_incident_is_a_change_of_the_verify_step() -> None:
    shares = {s.term: s for s in split(Terms(94.0, parts={"verify": 0.019}, step_seconds=0.0191),
                                       Terms(60.0, parts={"verify": 0.029}, step_seconds=0.0291))}  # fmt: skip
    assert shares["verify"].share is not None
    assert shares["verify"].share > 0.9
    assert abs(shares["inferred_accept_length"].log_change) < 0.03
    assert sum(s.log_change for s in shares.values()) == pytest.approx(math.log(60 / 94))


def test_acceptance_alone() -> None:
    shares = {s.term: s for s in split(Terms(200.0, 2.5, 0.0125), Terms(160.0, 2.0, 0.0125))}
    assert shares["accept_length"].share == pytest.approx(1.0)
    assert shares["step_time"].log_change == 0.0
    assert shares["residual"].log_change == 0.0


def test_what_the_terms_do_not_explain_is_the_residual() -> None:
    shares = {s.term: s for s in split(Terms(200.0, 2.5, 0.0125), Terms(150.0, 2.5, 0.0125))}
    assert shares["residual"].share == pytest.approx(1.0)


def test_nothing_measured_is_all_residual() -> None:
    (share,) = split(Terms(100.0), Terms(80.0))
    assert share.term == "residual"
    assert share.log_change == pytest.approx(math.log(0.8))


def test_no_change_has_no_shares_of_it() -> None:
    assert all(s.share is None for s in split(Terms(100.0, 2.0, 0.02), Terms(100.0, 2.0, 0.02)))


def test_log_mean_of_equal_figures() -> None:
    assert log_mean(3.0, 3.0) == 3.0
    assert log_mean(1.0, math.e) == pytest.approx(math.e - 1)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_zero_tokens_are_no_speed(bad: float) -> None:
    with pytest.raises(ValueError):
        split(Terms(bad), Terms(1.0))


_figure = st.floats(0.001, 1000.0)


@given(_figure, _figure, _figure, _figure, st.floats(0.0, 0.9), st.floats(0.0, 0.9), _figure, _figure)
def test_shares_always_add_up(
    t1: float, t2: float, acc1: float, acc2: float, v1: float, v2: float, s1: float, s2: float
) -> None:
    a = Terms(t1, acc1, s1, {"verify": v1 * s1, "draft": 0.05 * s1})
    b = Terms(t2, acc2, s2, {"verify": v2 * s2, "draft": 0.05 * s2})
    assert sum(s.log_change for s in split(a, b)) == pytest.approx(math.log(t2 / t1), abs=1e-6)
