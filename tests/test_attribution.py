"""The scoreboard itself: cases are whole, innocent changes are innocent, and scores are what they say."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from envsnap.collectors import keys
from envsnap.diff import diff
from envsnap.explain import NOT_REPRODUCIBLE, OUTSIDE, Explanation, Suspect, Symptom
from envsnap.keys import Kind, pattern_of
from tests.benchmarks.attribution import score
from tests.benchmarks.attribution.build import Laid, lay
from tests.benchmarks.attribution.cases import CULPRIT, LEFT_OUT, NONE, Case, families, invented, public
from tests.benchmarks.attribution.distractors import REPEATS, SUSPICIOUS, draw, footprint
from tests.benchmarks.attribution.report import lines

CASES = [c for c in (*public(), *invented(), *families()) if c.group != LEFT_OUT]


def case(name: str) -> Case:
    return next(c for c in CASES if c.id == name)


def test_every_public_case_is_translated_or_left_out_for_a_reason() -> None:
    assert len(public()) == 49
    assert all(c.why for c in public() if c.group != CULPRIT)
    assert all(c.changes or c.request for c in CASES if c.group == CULPRIT)


@pytest.mark.parametrize("each", CASES, ids=lambda c: c.id)
def test_a_case_is_made_of_declared_keys_and_its_cause_differs(each: Case) -> None:
    laid = lay(each, 0)
    for side in (laid.fast, laid.slow):
        assert not {pattern_of(p) for p in side.snapshot.values} - keys().keys()
    differing = {c.path for c in diff(laid.fast.snapshot, laid.slow.snapshot, also=list(Kind)).changes}
    differing |= {f"request[{name}]" for name in each.request.get("slow", {})}
    assert bool(laid.culprits & differing) is (each.group != NONE)
    assert len({*laid.innocent.values()}) >= SUSPICIOUS + REPEATS


def test_innocent_changes_never_touch_what_is_taken() -> None:
    machine = case("isolcpus").machine
    deeds = draw(machine, frozenset(), random.Random(1))
    assert len(deeds) == SUSPICIOUS + REPEATS
    assert len({mark for d in deeds for mark in footprint(d)}) == sum(len(footprint(d)) for d in deeds)
    taken = footprint(deeds[0]) | footprint(deeds[-1])
    for number in range(5):
        assert all(not footprint(d) & taken for d in draw(machine, taken, random.Random(number)))


def test_the_same_draw_is_the_same_pair() -> None:
    one, two = lay(case("areal-socket"), 3), lay(case("areal-socket"), 3)
    assert one.slow.snapshot.as_json() == two.slow.snapshot.as_json()
    assert [r.metrics for r in one.slow.runs] == [r.metrics for r in two.slow.runs]


def test_a_ranks_variable_stands_in_every_rank_and_not_in_the_shell() -> None:
    laid = lay(case("nvls-default-off"), 0)
    values = laid.slow.snapshot.values
    assert [values[f"worker[rank{i}].env[NCCL_NVLS_ENABLE]"] for i in range(8)] == ["0"] * 8
    assert "env[NCCL_NVLS_ENABLE]" not in values


def _explanation(laid: Laid, *shares: tuple[str, float, tuple[str, ...]]) -> Explanation:
    changes = {c.path: c for c in diff(laid.fast.snapshot, laid.slow.snapshot).changes}
    suspects = tuple(
        Suspect(name, name, tuple(changes[p] for p in paths), share, prior=share, mechanism="")
        for name, share, paths in shares
    )
    return Explanation("a", Symptom(), None, None, suspects)


def test_ranks_ties_and_hypotheses() -> None:
    laid = lay(case("clock-source-fell-back"), 0)
    other = next(p for p, name in laid.innocent.items() if p.startswith("package[") and p.endswith(".version"))
    cause = ("cause", 0.3, ("kernel.clock_source",))
    found = score.judge(laid, _explanation(laid, (OUTSIDE, 0.4, ()), cause, ("other", 0.3, (other,))), False)
    assert (found.better, found.tied, found.rank) == (1, 2, 2.5)
    assert (found.among(1), found.among(2), found.among(3)) == (0.0, 0.5, 1.0)
    assert found.among(1, bare=True) == 0.5
    assert not found.ruled_out
    assert sorted(found.pairs) == [(0.3, False), (0.3, True), (0.4, False)]
    none = score.judge(laid, _explanation(laid, (NOT_REPRODUCIBLE, 0.9, ()), ("other", 0.1, (other,))), False)
    assert (none.better, none.among(3), none.rank) == (None, 0.0, 3.0)


def test_figures_are_means_over_cases_and_calibration_counts_statements() -> None:
    laid = lay(case("clock-source-fell-back"), 0)
    sure = score.judge(laid, _explanation(laid, ("cause", 0.7, ("kernel.clock_source",)), (OUTSIDE, 0.3, ())), False)
    lost = replace(sure, better=None, pairs=((0.7, False), (0.3, False)))
    estimate = score.estimate([[sure, sure], [lost, sure]], score.among(1))
    assert estimate.value == 0.75
    assert (estimate.low, estimate.high) == (0.5, 1.0)
    bins = {b.low: b for b in score.calibration([[sure, sure], [lost, sure]])}
    assert (bins[0.6].count, bins[0.6].right.value) == (4, 0.75)
    assert (bins[0.2].count, bins[0.2].right.value) == (4, 0.0)
    text = "\n".join(lines("both", {"one": [sure, sure], "two": [lost, sure]}))
    assert "rank 1               75.0% (50%–100%)" in text
