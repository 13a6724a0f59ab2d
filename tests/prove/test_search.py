"""The search on made-up engines: what it finds, what it denies, and what it never does twice."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from envsnap.prove.belief import Spread
from envsnap.prove.gate import Gate, judge
from envsnap.prove.search import OTHERS, Problem, Result, Search, Trial

NAMES = [f"s{i:02}" for i in range(20)]
GAP = math.log(1.5)

Engine = Callable[[frozenset[str]], "float | None"]


def problem(**changed: object) -> Problem:
    prior = dict.fromkeys(NAMES, 0.7 / len(NAMES))
    return Problem(**{"prior": prior, "none": 0.3, "spread": Spread(0.02, 6.0), "gap": GAP, **changed})  # type: ignore[arg-type]


def run(engine: Engine, budget: int = 60, noise: float = 0.02, **changed: object) -> tuple[Result, list[Trial]]:
    draw = random.Random(5)
    search = Search(problem(**changed), budget)
    while isinstance(step := search.step, Trial):
        level = engine(step.reverted)
        value = None if level is None else level + draw.gauss(0, noise)
        search.add(Trial(step.reverted, step.purpose, step.suspect, value))
    return step, search.trials


def slow_unless(*culprits: tuple[str, float]) -> Engine:
    return lambda reverted: sum(effect for name, effect in culprits if name not in reverted)


def test_one_cause_is_confirmed_by_a_necessity_and_a_sufficiency_run() -> None:
    result, trials = run(slow_unless(("s07", GAP)))
    assert result.outcome == "confirmed"
    (culprit,) = result.culprits
    assert culprit.suspect == "s07"
    assert culprit.probability >= 0.99
    assert culprit.low < GAP < culprit.high
    assert culprit.fraction == pytest.approx(1.0, abs=0.1)
    confirming = {t.purpose: t.reverted for t in trials if t.suspect == "s07"}
    assert confirming == {"necessity": {"s07"}, "sufficiency": set(NAMES) - {"s07"}}
    assert len(trials) <= 14


def test_a_gap_that_does_not_come_back_ends_at_the_gate() -> None:
    result, trials = run(lambda reverted: 0.0)
    assert (result.outcome, result.culprits) == ("not_reproducible", ())
    assert len(trials) == 4
    assert {len(t.reverted) for t in trials} == {0, len(NAMES)}


def test_the_likeliest_is_tried_alone_where_it_holds_half_of_the_probability() -> None:
    prior = {name: 0.9 if name == "s03" else 0.05 / 19 for name in NAMES}
    _, trials = run(slow_unless(("s03", GAP)), prior=prior, none=0.05)
    assert trials[4].reverted == {"s03"}
    assert len(trials) == 6


def test_a_wrong_favourite_is_given_up() -> None:
    prior = {name: 0.9 if name == "s03" else 0.05 / 19 for name in NAMES}
    result, _ = run(slow_unless(("s11", GAP)), prior=prior, none=0.05)
    assert [c.suspect for c in result.culprits] == ["s11"]


def test_two_causes_that_add_up_are_both_found() -> None:
    result, _ = run(slow_unless(("s02", GAP * 0.6), ("s15", GAP * 0.4)), noise=0.01, spread=Spread(0.01, 6.0))
    assert {c.suspect for c in result.culprits} == {"s02", "s15"}
    assert sum(c.fraction for c in result.culprits) == pytest.approx(1.0, abs=0.1)


def test_two_that_act_only_together_are_told_so() -> None:
    result, _ = run(lambda reverted: 0.0 if reverted & {"s02", "s15"} else GAP)
    assert {c.suspect for c in result.culprits} == {"s02", "s15"}
    assert result.culprits[-1].only_with == result.culprits[0].suspect


def test_two_of_which_each_hides_the_other_are_both_found() -> None:
    result, _ = run(lambda reverted: 0.0 if reverted >= {"s02", "s15"} else GAP)
    assert {c.suspect for c in result.culprits} == {"s02", "s15"}


@pytest.mark.parametrize("alone", [0.3, 0.6])
def test_one_that_only_adds_to_another_is_told_so(alone: float) -> None:
    """A slow allocator makes nothing slower by itself, and a check in every step the slower for it."""

    def engine(reverted: frozenset[str]) -> float:
        return GAP * ("s02" not in reverted) * (1.0 if "s15" not in reverted else alone)

    result, trials = run(engine, noise=0.01, spread=Spread(0.01, 6.0))
    found = {c.suspect: c for c in result.culprits}
    assert found.keys() == {"s02", "s15"}
    assert (found["s02"].only_with, found["s15"].only_with) == ("", "s02")
    assert found["s02"].effect == pytest.approx(alone * GAP, abs=0.03)
    assert found["s15"].effect == pytest.approx((1 - alone) * GAP, abs=0.03)
    assert len(trials) <= 30


def test_one_that_only_adds_to_what_nobody_suspects_is_told_so() -> None:
    """What it adds to is no suspect, and was only on the slow side's whole state."""

    def engine(reverted: frozenset[str]) -> float:
        return GAP * (len(reverted) < 8) * (1.0 if "s15" not in reverted else 0.5)

    result, _ = run(engine, noise=0.01, spread=Spread(0.01, 6.0), prior={**dict.fromkeys(NAMES, 0.01), "s15": 0.7})
    assert [(c.suspect, c.only_with) for c in result.culprits if c.suspect == "s15"] == [("s15", OTHERS)]


def test_a_suspect_that_brought_much_back_is_not_ruled_out() -> None:
    """Its part of what was found is within the noise, and so is no culprit; nor is it acquitted."""

    def engine(reverted: frozenset[str]) -> float:
        return GAP * ("s02" not in reverted) * (1.0 if "s15" not in reverted else 0.6)

    prior = {**dict.fromkeys(NAMES, 0.01), "s15": 0.5, "s02": 0.05}
    for noise in (0.03, 0.05, 0.06):
        result, trials = run(engine, noise=noise, spread=Spread(noise, 6.0), prior=prior)
        assert any(t.reverted == {"s15"} for t in trials)
        assert "s15" in {*(c.suspect for c in result.culprits), *result.beside}
    result, _ = run(slow_unless(("s02", GAP)), prior=prior)
    assert result.beside == {}


def test_a_small_effect_is_measured_against_both_ends_too() -> None:
    """Its error is as much that of the levels, which rest on the gate's few runs."""
    result, trials = run(slow_unless(("s02", GAP * 0.7), ("s15", GAP * 0.3)), noise=0.12, spread=Spread(0.12, 6.0))
    assert {"level"} <= {t.purpose for t in trials}
    assert all(len(t.reverted) in (0, len(NAMES)) or "s02" in t.reverted for t in trials if t.purpose == "level")
    assert result.culprits[0].suspect == "s02"


def test_what_does_not_start_alone_is_confirmed_beside_others() -> None:
    """The only one left slow does not start but beside a partner, which is not out of the question either."""

    def engine(reverted: frozenset[str]) -> float | None:
        return None if "s05" in reverted and "s07" not in reverted else GAP * ("s07" not in reverted)

    few = dict.fromkeys(NAMES[:8], 0.7 / 8)
    result, trials = run(engine, prior=few)
    assert [c.suspect for c in result.culprits] == ["s07"]
    failed = [t.reverted for t in trials if t.value is None]
    assert len(set(failed)) == len(failed)


def test_a_combination_that_does_not_start_is_never_tried_again() -> None:
    def engine(reverted: frozenset[str]) -> float | None:
        return None if ("s01" in reverted) != ("s02" in reverted) else (0.0 if "s09" in reverted else GAP)

    result, trials = run(engine)
    assert [c.suspect for c in result.culprits] == ["s09"]
    failed = [t.reverted for t in trials if t.value is None]
    assert failed
    assert len(set(failed)) == len(failed)


@pytest.mark.parametrize(("side", "name"), [(0, "slow"), (len(NAMES), "fast")])
def test_a_side_that_always_fails_is_trouble(side: int, name: str) -> None:
    result, trials = run(lambda reverted: None if len(reverted) == side else 0.0)
    assert result.outcome == "failing"
    assert f"the {name} side" in result.reason
    assert len(trials) <= 6


def test_a_spent_budget_is_no_verdict() -> None:
    result, trials = run(slow_unless(("s07", GAP)), budget=6)
    assert result.outcome == "budget"
    assert len(trials) == 6
    assert result.belief is not None
    assert result.belief.probability["s07"] > result.belief.probability["s00"] or result.belief.none < 0.99


def test_an_interrupted_search_goes_on_as_if_it_had_not_been() -> None:
    _, trials = run(slow_unless(("s07", GAP)))
    for count in range(len(trials)):
        step = Search(problem(), 60, trials[:count]).step
        assert isinstance(step, Trial)
        assert (step.reverted, step.purpose) == (trials[count].reverted, trials[count].purpose)


def test_cheap_levers_are_tried_first() -> None:
    costs = dict.fromkeys(NAMES[:10], 1.0) | dict.fromkeys(NAMES[10:], 2.0)
    _, trials = run(slow_unless(("s07", GAP)), costs=costs)
    assert trials[4].reverted <= set(NAMES[:10])


def test_one_outlier_settles_nothing() -> None:
    seen = 0

    def engine(reverted: frozenset[str]) -> float:
        nonlocal seen
        seen += 1
        return (0.0 if "s07" in reverted else GAP) + (GAP if seen == 6 else 0.0)

    result, _ = run(engine)
    assert [c.suspect for c in result.culprits] == ["s07"]


def test_little_is_settled_sooner_and_rather_as_nothing() -> None:
    """Two sides that a verdict calls the same are not run sixteen times to see that they are."""
    spread = Spread(0.03, 8)
    alike = [0.00, 0.03, -0.02, 0.01, -0.01, 0.02, -0.03, 0.00]
    assert judge(alike[:3], alike[:3], spread, math.log(1.014)) is Gate.UNDECIDED
    assert judge(alike[:4], alike[4:], spread, math.log(1.014)) is Gate.SHUT
    assert judge(alike[:4], alike[4:], spread, math.log(1.04)) is Gate.UNDECIDED
    slower = [v + 0.2 for v in alike]
    assert judge(slower[:4], alike[4:], spread, math.log(1.014)) is Gate.OPEN


def test_the_gate_wants_more_pairs_where_runs_scatter() -> None:
    assert judge([0.4, 0.4], [0.0, 0.0], Spread(0.02, 6.0), 0.4) is Gate.OPEN
    assert judge([0.4, 0.4], [0.0, 0.0], Spread(0.2, 6.0), 0.4) is Gate.UNDECIDED
    assert judge([0.0, 0.01], [0.0, 0.01], Spread(0.02, 6.0), 0.4) is Gate.SHUT
    assert judge([0.0, 0.0], [0.4, 0.4], Spread(0.02, 6.0), 0.4) is Gate.SHUT


def test_a_gap_that_no_single_suspect_explains_is_no_acquittal() -> None:
    # Three of which any one suffices: no search for one or two can resolve it.
    result, _ = run(lambda reverted: 0.0 if len(reverted) > 12 else GAP)
    assert result.outcome in ("unsettled", "budget")
    assert result.culprits == ()
