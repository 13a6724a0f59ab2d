"""Columns, percentiles, growth."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.runs.columns import Columns, growth, summary, transitions


def test_late_and_missing_columns_are_none() -> None:
    samples = Columns()
    samples.add(0.0, {"a": 1})
    samples.add(1.0, {"b": 2})
    assert samples.columns == {"a": [1, None], "b": [None, 2]}
    assert samples.window(0.5, 1.0).columns["b"] == [2]
    assert samples.where([True, False]).times == [0.0]


def test_json_round_trip_and_refusal_of_unequal_columns() -> None:
    samples = Columns([0.0, 1.0], {"a": [1, None]})
    assert Columns.from_json(samples.as_json()) == samples
    with pytest.raises(ValueError):
        Columns.from_json({"times": [0, 1], "columns": {"a": [1]}})


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_percentiles_agree_with_the_standard_library(numbers: list[float]) -> None:
    figures = summary(numbers)
    assert figures is not None
    cuts = statistics.quantiles(numbers, n=20, method="inclusive")
    assert figures.p5 == pytest.approx(cuts[0], abs=1e-6)
    assert figures.p95 == pytest.approx(cuts[-1], abs=1e-6)
    assert figures.median == statistics.median(numbers)


def test_a_counter_that_restarts_does_not_shrink() -> None:
    assert growth([5, 8, 2, 3]) == 3 + 2 + 1
    assert growth([5]) is None
    assert transitions([16, 16, None, 8, 16]) == 2
