"""Fewer samples that draw the same line."""

from __future__ import annotations

import random

import pytest

from envsnap.runs.thinning import lines, thinned


@pytest.mark.parametrize("seed", range(40))
def test_ends_and_extremes_survive_and_it_is_bounded(seed: int) -> None:
    draw = random.Random(seed)
    spread = draw.choice((1, 1000))
    points = [(float(i), float(draw.randrange(spread))) for i in range(draw.randrange(1, 400))]
    stretches = draw.randrange(1, 50)
    kept = thinned(points, stretches)
    assert len(kept) <= 4 * stretches
    assert kept == sorted(kept)
    assert set(kept) <= set(points)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    for end in (min, max):
        assert end(v for _, v in kept) == end(v for _, v in points)


def test_a_dip_of_one_sample_in_an_hour_is_as_deep_as_before() -> None:
    points = [(float(t), 345.0 if t == 1801 else 1980.0) for t in range(3600)]
    assert (1801.0, 345.0) in thinned(points, 100)


def test_few_points_stay_as_they_are() -> None:
    points = [(0.0, 1.0), (1.0, 5.0), (2.0, 2.0)]
    assert thinned(points, 1) == points


def test_samples_of_one_moment_do_not_divide_by_nothing() -> None:
    assert len(thinned([(1.0, float(i)) for i in range(100)], 3)) == 12


def test_a_long_pause_breaks_the_line() -> None:
    points = [(float(t), 1.0) for t in (0, 1, 2, 3, 60, 61, 62)]
    assert [len(line) for line in lines(points)] == [4, 3]
    assert list(lines([])) == []
    assert list(lines(points[:1])) == [points[:1]]
