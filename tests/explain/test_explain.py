"""From two sides to an explanation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.collectors import keys
from envsnap.explain import (
    NOT_REPRODUCIBLE,
    OUTSIDE,
    Clue,
    Explanation,
    Innocent,
    Mistake,
    Side,
    Together,
    View,
    explain,
)
from envsnap.explain import tell as telling
from envsnap.explain.ranking import rank
from envsnap.explain.symptom import symptom_of
from envsnap.explain.weights import WEIGHTS
from envsnap.keys import Effect, path_of
from envsnap.runs.compare import compare
from tests.explain.pairs import SERVER, run, side, snapshot

PROTOCOL = [f"worker[scheduler_TP{i}].env[NCCL_PROTO]" for i in range(8)]
FAST = {**SERVER, **dict.fromkeys(PROTOCOL, "LL"), "kernel.release": "6.8", "package[rich].version": "13.0"}
SLOW = {**SERVER, **dict.fromkeys(PROTOCOL, "Simple"), "kernel.release": "6.8", "package[rich].version": "14.0"}


def pair(count: int = 3) -> tuple[Side, Side]:
    return (
        side(FAST, count, "fast", stream_tokens_per_second=94.0, accept_length=1.8, step_seconds=0.019),
        side(SLOW, count, "slow", stream_tokens_per_second=60.0, accept_length=1.75, step_seconds=0.029),
    )


def ids(found: Explanation) -> list[str]:
    return [s.id for s in found.suspects]


def test_probabilities_add_up_and_both_hypotheses_are_there() -> None:
    found = explain(*pair())
    assert math.fsum(s.probability for s in found.suspects) == pytest.approx(1.0)
    assert math.fsum(s.prior for s in found.suspects) == pytest.approx(1.0)
    assert {NOT_REPRODUCIBLE, OUTSIDE} <= set(ids(found))
    assert ids(found)[0] == "env:NCCL_PROTO"
    assert [s.probability for s in found.suspects] == sorted((s.probability for s in found.suspects), reverse=True)


def test_which_side_is_named_first_does_not_matter() -> None:
    a, b = pair()
    one, two = explain(a, b), explain(b, a)
    assert (one.fast, two.fast) == ("a", "b")
    assert [(s.id, round(s.probability, 9)) for s in one.suspects] == [
        (s.id, round(s.probability, 9)) for s in two.suspects
    ]
    assert one.suspects[0].changes == two.suspects[0].changes
    assert any("A is the slower side" in note for note in two.notes)


def test_bare_snapshots_are_ranked_by_what_they_could_do() -> None:
    found = explain(Side(snapshot(FAST)), Side(snapshot(SLOW)))
    assert found.comparison is None
    assert not found.symptom.measured
    assert any("No speed is known" in note for note in found.notes)
    changed = [s.id for s in found.suspects if s.changes]
    assert changed[0] == "env:NCCL_PROTO"


def test_cosmetic_changes_alone_are_no_cause() -> None:
    quiet = {f"package[p{i}].version": "1.0" for i in range(40)}
    loud = dict.fromkeys(quiet, "1.1")
    a = side({**SERVER, **quiet}, 3, "a", stream_tokens_per_second=94.0)
    b = side({**SERVER, **loud}, 3, "b", stream_tokens_per_second=60.0)
    found = explain(a, b)
    assert ids(found)[0] == OUTSIDE
    assert sum(s.probability for s in found.suspects if s.changes) < 0.1


def test_a_side_whose_runs_failed_is_the_slow_one() -> None:
    a, _ = pair()
    from dataclasses import replace

    failed = [replace(r, status="failed", reason="NCCL timed out", metrics=()) for r in side(SLOW, 2, "b", x=1.0).runs]
    for one, two in ((a, Side.of_runs(failed)), (Side.of_runs(failed), a)):
        found = explain(one, two)
        assert found.symptom.failure == "NCCL timed out"
        assert found.suspects[0].id == "env:NCCL_PROTO"
        assert found.fast == ("a" if one is a else "b")


def test_what_the_client_asked_is_a_suspect() -> None:
    from dataclasses import replace

    a, b = pair()
    one = Side.of_runs([replace(r, request={"dataset": "sharegpt", "seed": 1}) for r in a.runs])
    two = Side.of_runs([replace(r, request={"dataset": "random", "seed": 1}) for r in b.runs])
    found = explain(one, two)
    asked = next(s for s in found.suspects if s.id.startswith("request"))
    assert [(c.path, c.before.value, c.after.value) for c in asked.changes] == [  # type: ignore[union-attr]
        ("request[dataset]", "sharegpt", "random")
    ]


def test_a_benchmarks_options_stand_for_a_request_that_was_not_recorded() -> None:
    a = Side.of_runs([run(SLOW, "a", command=("bench", "--num-prompts", "8", "--output-file", "a"), tpot_seconds=0.01)])
    b = Side.of_runs(
        [run(SLOW, "b", command=("bench", "--num-prompts", "64", "--output-file", "b"), tpot_seconds=0.02)]
    )
    assert [s.id for s in explain(a, b).suspects if s.changes] == ["request[num_prompts]"]


def test_equal_evidence_is_called_a_tie() -> None:
    names = ("NCCL_UNHEARD_OF_A", "NCCL_UNHEARD_OF_B")
    rank0 = "worker[scheduler_TP0].env"
    fast = {**SERVER, **{f"{rank0}[{n}]": "1" for n in names}}
    slow = {**SERVER, **{f"{rank0}[{n}]": "2" for n in names}}
    found = explain(side(fast, 3, "a", step_seconds=0.01), side(slow, 3, "b", step_seconds=0.02))
    first, second = [s for s in found.suspects if s.changes]
    assert {first.id, second.id} == {f"env:{n}" for n in names}
    assert first.ties_with == (second.id,)


def test_what_cannot_have_acted_is_ruled_out_and_no_suspect() -> None:
    clock = {"during.gpu[0].sm_clock_median_mhz": 1980.0}
    a = side({**SERVER, **clock, "gpu[0].power_limit_watts": 700.0}, 3, "a", step_seconds=0.01)
    b = side({**SERVER, **clock, "gpu[0].power_limit_watts": 500.0}, 3, "b", step_seconds=0.02)
    found = explain(a, b)
    assert "power_limit" not in ids(found)
    [limit] = [r for r in found.ruled_out if r.title == "GPU power limit"]
    assert limit.reason.startswith("clocks under load are the same")


def test_next_steps_are_filled_in() -> None:
    found = explain(*pair())
    by_id = {s.id: s for s in found.suspects}
    assert by_id["env:NCCL_PROTO"].next == (
        ("envsnap", "prove", "fast", "slow", "--only", "env:NCCL_PROTO", "--", "bench"),
    )
    assert by_id[NOT_REPRODUCIBLE].next[0][:2] == ("envsnap", "prove")
    root = explain(side({"cpu.governor": "performance"}, 1, "a", x_seconds=1.0),
                   side({"cpu.governor": "powersave"}, 1, "b", x_seconds=2.0))  # fmt: skip
    assert next(s for s in root.suspects if s.changes).next == (("envsnap", "key", "cpu.governor"),)


# -- stories --------------------------------------------------------------------------------------------------------


def with_story(monkeypatch: pytest.MonkeyPatch, tell: Any, needs: tuple[str, ...] = ("kernel.release",)) -> None:
    story = SimpleNamespace(CODE="told", NEEDS=needs, tell=tell, __doc__="A story.")
    monkeypatch.setattr(telling, "every_story", lambda: (story,))


def test_a_clue_moves_the_suspect_that_holds_its_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(view: View) -> Iterable[Clue]:
        yield Clue("It has been seen.", 3.0, tuple(view.changed("package[].version")))

    before = {s.id: s.probability for s in explain(*pair()).suspects}
    with_story(monkeypatch, tell)
    after = {s.id: s for s in explain(*pair()).suspects}
    assert after["package:rich"].probability > before["package:rich"]
    assert after["package:rich"].story == "told"
    assert "It has been seen." in [e.text for e in after["package:rich"].evidence_for]
    left_out = {s.id: s.story for s in explain(*pair(), without=["told"]).suspects}
    assert left_out["package:rich"] is None


def test_changes_that_belong_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(view: View) -> Iterable[Together]:
        first = view.changed("worker[scheduler_TP0].env[NCCL_PROTO]", "worker[*TP0].env[NCCL_PROTO]")
        yield Together("a pair", "One does the other.", (*first, *view.changed("package[].version")),
                       (Effect.COMMUNICATION,), prior=0.9, largest_ratio=1.01)  # fmt: skip

    with_story(monkeypatch, tell)
    found = explain(*pair())
    [made] = [s for s in found.suspects if s.title == "a pair"]
    assert len(made.changes) == 9  # what always moves with a change comes along: the other ranks
    assert made.id == "story:told:env:NCCL_PROTO"
    assert made.largest_ratio == 1.01
    assert made.unexplained == pytest.approx(94 / 60 / 1.01, rel=0.01)


def test_innocent_changes_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(view: View) -> Iterable[Innocent | Mistake]:
        yield Innocent("the protocol", "it was never read", tuple(view.changed("worker[].env[]")))
        yield Mistake("Something is wrong", "Mend it.", ("kernel.release",))

    with_story(monkeypatch, tell)
    found = explain(*pair())
    assert "env:NCCL_PROTO" not in ids(found)
    assert ("the protocol", "it was never read") in [(r.title, r.reason) for r in found.ruled_out]
    assert [(m.title, m.story) for m in found.mistakes] == [("Something is wrong", "told")]


def test_a_story_that_fails_costs_its_own_findings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(view: View) -> Iterable[Clue]:
        raise KeyError("gpu")

    with_story(monkeypatch, tell)
    found = explain(*pair())
    assert found.suspects[0].id == "env:NCCL_PROTO"
    assert any("told could not be told" in note for note in found.notes)


def test_a_story_without_its_needs_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(view: View) -> Iterable[Clue]:
        raise AssertionError

    with_story(monkeypatch, tell, needs=("nvml.driver_version",))
    assert not any("could not be told" in note for note in explain(*pair()).notes)


# -- symptom --------------------------------------------------------------------------------------------------------


def test_a_slower_first_token_alone_is_a_symptom() -> None:
    def runs(group: str, arm: str, ttft: float) -> Side:
        return Side.of_runs([run(SLOW, "g", i, arm=arm, tpot_seconds=0.01 + i * 1e-5, ttft_seconds=ttft + i * 1e-4)
                             for i in range(4)], group)  # fmt: skip

    found = explain(runs("a", "a", 0.25), runs("b", "b", 0.1)).symptom
    assert found.metric == "ttft_seconds"
    assert found.gap == pytest.approx(math.log(2.5), rel=0.01)
    assert explain(runs("a", "a", 0.25), runs("b", "b", 0.1)).fast == "b"


def test_a_timed_verify_step_stands_for_the_step() -> None:
    a = [run({}, "a", stream_tokens_per_second=94.0, verify_seconds=0.019)]
    b = [run({}, "b", stream_tokens_per_second=60.0, verify_seconds=0.029)]
    found = symptom_of(compare(a, b), "b")
    assert found.moved("verify") is True
    assert found.moved("accept_length") is False
    assert "accept_length" in found.inferred


def test_law_no_suspect_at_all_still_adds_up() -> None:
    ranked = rank([], [], (0.1, []), WEIGHTS)
    assert [r.id for r in ranked] == [OUTSIDE, NOT_REPRODUCIBLE]
    assert sum(r.probability for r in ranked) == pytest.approx(1.0)


_PATTERNS = sorted(p for p in keys() if not p.startswith("during."))
_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5), st.lists(st.text(max_size=3), max_size=2)
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(_PATTERNS), st.tuples(_VALUES, _VALUES), max_size=12))
def test_law_whatever_two_snapshots_hold_it_is_explained(pairs: dict[str, tuple[Any, Any]]) -> None:
    """Readings of any key with values of any type, as a foreign or damaged file may have them."""
    sides = [
        Side(
            snapshot({path_of(p, *["x"] * p.count("[]")): pair[i] for p, pair in pairs.items() if pair[i] is not None})
        )
        for i in (0, 1)
    ]
    found = explain(sides[0], sides[1])
    assert math.fsum(s.probability for s in found.suspects) == pytest.approx(1.0)
