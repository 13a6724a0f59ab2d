from __future__ import annotations

from typing import Any

import pytest

from envsnap.probe.judge import Compared, Standing, compare
from envsnap.probe.result import Figure, ProbeResult

MATMUL, LAUNCH, LINK = "gpu[0].matmul_tflops", "gpu[0].launch_microseconds", "gpu[0].host_to_device_gb_per_second"


def result(**figures: Any) -> ProbeResult:
    """One of `Figure`s given by name, or of what is measured around a value with half a percent of noise."""
    made = [
        value
        if isinstance(value, Figure)
        else Figure(name, tuple(value * (1 + e / 1000) for e in (-5, 0, 5, 2, -2)), "m")
        for name, value in figures.items()
    ]
    return ProbeResult("2026-01-01T00:00:00+00:00", 1.0, (0,), tuple(made))


def one(before: dict[str, Any], now: dict[str, Any]) -> Compared:
    (compared,) = compare(result(**now), [result(**before)])
    return compared


@pytest.mark.parametrize(
    ("name", "ratio", "standing"),
    [
        (MATMUL, 0.90, Standing.WORSE),
        (MATMUL, 1.10, Standing.BETTER),
        (MATMUL, 0.98, Standing.SAME),
        (MATMUL, 0.955, Standing.UNKNOWN),
        (LAUNCH, 1.60, Standing.WORSE),
        (LAUNCH, 0.60, Standing.BETTER),
        (LAUNCH, 1.05, Standing.SAME),
        (LINK, 0.50, Standing.WORSE),
        (LINK, 0.92, Standing.UNKNOWN),
    ],
)
def test_a_gap_counts_beyond_what_sessions_differ_by(name: str, ratio: float, standing: Standing) -> None:
    compared = one({name: 100.0}, {name: 100.0 * ratio})
    assert compared.standing is standing
    assert compared.ratio == pytest.approx(ratio)
    assert compared.low is not None
    assert compared.high is not None
    assert compared.low < ratio < compared.high
    assert "a stated default" in compared.reason


def test_the_allowance_is_the_figure_s_own() -> None:
    assert "may differ by 5%" in one({MATMUL: 1.0}, {MATMUL: 1.0}).reason
    assert "may differ by 10%" in one({LINK: 1.0}, {LINK: 1.0}).reason


def test_three_baselines_tell_how_much_sessions_differ() -> None:
    quiet = [result(**{LINK: 50.0 + e}) for e in (0, 0.1, -0.1, 0.05)]
    wild = [result(**{LINK: 50.0 * (1 + e)}) for e in (0, 0.2, -0.2, 0.1)]
    now = result(**{LINK: 46.0})
    (by_default,) = compare(now, quiet[:1])
    (by_quiet,) = compare(now, quiet)
    (by_wild,) = compare(now, wild)
    assert [c.standing for c in (by_default, by_quiet, by_wild)] == [
        Standing.UNKNOWN, Standing.WORSE, Standing.UNKNOWN,
    ]  # fmt: skip
    assert "4 earlier sessions" in by_quiet.reason


def test_the_same_repetitions_each_time_are_the_same() -> None:
    steady = result(**{"gpu[0].matmul_sm_clock_mhz": Figure("gpu[0].matmul_sm_clock_mhz", (1980.0,) * 7, "m")})
    assert [c.standing for c in compare(steady, [steady])] == [Standing.SAME]
    assert [c.standing for c in compare(steady, [steady] * 3)] == [Standing.SAME]


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        ({MATMUL: 1.0}, {}, "not asked for"),
        ({MATMUL: 1.0}, {MATMUL: Figure(MATMUL, unavailable="no torch")}, "no torch"),
        ({}, {MATMUL: 1.0}, "the baseline has none: not measured"),
        ({MATMUL: Figure(MATMUL, unavailable="no torch")}, {MATMUL: 1.0}, "the baseline has none: no torch"),
        ({MATMUL: 1.0}, {MATMUL: Figure(MATMUL, (1.0, 1.0), "n")}, "measured in another way: m, now n"),
    ],
)
def test_what_is_not_there_is_never_the_same(before: dict[str, Any], now: dict[str, Any], reason: str) -> None:
    compared = one(before, now)
    assert (compared.standing, compared.reason, compared.ratio) == (Standing.MISSING, reason, None)


def test_what_neither_side_has_is_left_out() -> None:
    none = result(**{MATMUL: Figure(MATMUL, unavailable="no torch")})
    assert compare(none, [none]) == ()
