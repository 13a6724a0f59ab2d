"""Scales, ticks and marks."""

from __future__ import annotations

from itertools import pairwise

import pytest

from envsnap.report.page.svg import Scale, around, nice_ticks, ratio_ticks, ratios


@pytest.mark.parametrize(
    ("low", "high", "count", "ticks"),
    [
        (0, 100, 4, [0, 25, 50, 75, 100]),
        (345, 1980, 2, [500, 1000, 1500]),
        (-12.0, 61.0, 4, [0, 20, 40, 60]),
        (0.0049, 0.0281, 4, [0.005, 0.01, 0.015, 0.02, 0.025]),
        (5, 5, 4, [5]),
    ],
)
def test_ticks_are_round(low: float, high: float, count: int, ticks: list[float]) -> None:
    assert nice_ticks(low, high, count) == pytest.approx(ticks)


def test_places() -> None:
    assert [Scale(0, 10).at(v) for v in (-5, 0, 5, 10, 20)] == [0, 0, 500, 1000, 1000]
    by_ratio = Scale(0.1, 10, by_ratio=True)
    assert [round(by_ratio.at(v)) for v in (0.1, 1, 10)] == [0, 500, 1000]
    assert by_ratio.percent(1) == "50%"


def test_figures_that_are_all_one_have_a_scale_too() -> None:
    scale = around([0.0, 0.0])
    assert scale.low < 0 < scale.high
    assert around([7.0]).at(7.0) == 500


def test_noise_does_not_look_large() -> None:
    scale = ratios([0.999, 1.001])
    assert scale.at(1.001) - scale.at(0.999) < 25


@pytest.mark.parametrize("values", [[0.19], [0.95], [0.6, 1.3], [1.0], [0.01, 30]])
def test_one_is_always_marked_and_marks_have_room(values: list[float]) -> None:
    scale = ratios(values)
    marked = ratio_ticks(scale, apart=0.1)
    assert 1 in marked
    places = [scale.at(t) for t in marked]
    assert all(b - a > 100 for a, b in pairwise(places))
