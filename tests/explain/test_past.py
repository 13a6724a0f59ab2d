"""The past: association, what moves by itself, rarity; and the two hypotheses without changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envsnap.explain import Side, explain
from envsnap.explain.nulls import not_reproducible, outside, unread
from envsnap.explain.past import memory_of
from envsnap.explain.story import Facts
from envsnap.explain.symptom import Symptom
from envsnap.explain.weights import WEIGHTS
from envsnap.runs.compare import compare
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.verdict import Design, Outcome
from tests.explain.pairs import run, snapshot
from tests.explain.test_candidates import change

PATH = "kernel.clock_source"
METRIC = Metric("stream_tokens_per_second", 1.0, "tok/s", Better.HIGHER, "test")


def session(group: str, value: str, speed: float, count: int = 2) -> Side:
    runs = [run({PATH: value}, group, i, stream_tokens_per_second=speed) for i in range(count)]
    return Side.of_runs(runs, group)


FAST, SLOW = session("fast", "tsc", 94.0), session("slow", "hpet", 60.0)


def weights_of(*others: Side) -> list[float]:
    memory = replace(memory_of(FAST, SLOW, others), metric=METRIC)
    return [e.weight for e in memory.about(change(PATH, "tsc", "hpet"))]


def test_the_pair_alone_says_nothing_of_a_change() -> None:
    assert weights_of() == []


def test_a_speed_that_goes_with_the_value_speaks_for_it() -> None:
    [few] = weights_of(session("h1", "tsc", 93.0))
    [more] = weights_of(
        *(session(f"h{i}", v, s) for i, (v, s) in enumerate([("tsc", 93.0), ("hpet", 61.0), ("tsc", 95.0)]))
    )
    assert 0 < few < more <= WEIGHTS.history.most


def test_a_session_that_was_fast_with_the_slow_value_speaks_against_it() -> None:
    [weight] = weights_of(session("h1", "hpet", 93.0))
    assert weight < -1


def test_runs_of_one_session_are_one_observation() -> None:
    assert weights_of(session("h1", "tsc", 93.0, count=1)) == weights_of(session("h1", "tsc", 93.0, count=9))


def test_other_work_is_left_out() -> None:
    other = Side.of_runs([run({PATH: "hpet"}, "h1", command=("other",), stream_tokens_per_second=94.0)])
    assert weights_of(other) == []


def test_a_third_value_is_left_out() -> None:
    assert weights_of(session("h1", "acpi_pm", 94.0)) == []


def test_what_differs_between_repeats_moves_by_itself() -> None:
    runs = [run({PATH: v}, "h1", i) for i, v in enumerate(["tsc", "hpet"] * 4)]
    memory = memory_of(FAST, SLOW, [Side.of_runs(runs)])
    [evidence] = memory.about(change(PATH, "tsc", "hpet"))
    assert "7 of" in evidence.text
    assert evidence.weight == pytest.approx(-WEIGHTS.churn.most, abs=0.1)


def test_a_value_that_was_common_before_is_a_weak_suspect() -> None:
    seen = [Side(snapshot({PATH: "hpet"}, at=f"2025-01-0{i}T00:00:00+00:00")) for i in range(1, 6)]
    rare = [Side(snapshot({PATH: "tsc"}, at=f"2025-01-0{i}T00:00:00+00:00")) for i in range(1, 6)]
    memory = [memory_of(FAST, SLOW, others) for others in (seen, rare)]
    weights = [m.about(change(PATH, "tsc", "hpet"))[0].weight for m in memory]
    assert weights[0] < 0 < weights[1]


def test_a_run_in_a_side_and_in_history_counts_once() -> None:
    assert weights_of(FAST, SLOW) == []


def test_history_tells_how_much_sessions_differ() -> None:
    memory = memory_of(
        FAST, SLOW, [session("h1", "tsc", 90.0), session("h2", "hpet", 61.0), session("h3", "other", 9.0)]
    )
    assert memory.spreads()["stream_tokens_per_second"].sessions == ((90.0, 90.0), (61.0, 61.0))


# -- the two hypotheses ---------------------------------------------------------------------------------------------


def symptom(gap: float, outcome: Outcome, design: Design = Design.BLOCKS) -> Symptom:
    return Symptom(gap, outcome=outcome, design=design, gap=gap)


def null(a: Side, b: Side, shown: Symptom) -> float:
    return sum(e.weight for e in not_reproducible(shown, compare(a.runs, b.runs), False, WEIGHTS.nulls))


def test_a_verdict_speaks_for_or_against_a_lasting_difference() -> None:
    same = null(FAST, FAST, symptom(0.0, Outcome.SAME))
    near = null(FAST, session("b", "tsc", 90.0), symptom(0.04, Outcome.UNKNOWN))
    far = null(FAST, session("b", "tsc", 60.0), symptom(0.45, Outcome.DIFFERENT))
    assert far <= WEIGHTS.nulls.decided < 0 < near < same


def test_decoding_that_is_the_same_speaks_against_a_gap_in_the_first_token_alone() -> None:
    """The time to the first token scatters widely, and alone tells of little."""

    def arm(name: str, first: tuple[float, ...], token: float) -> Side:
        return Side.of_runs([
            run({}, "s", i, arm=name, ttft_seconds=t, tpot_seconds=token * (1 + i / 2000)) for i, t in enumerate(first)
        ])  # fmt: skip

    fast, slow = arm("a", (0.051, 0.060, 0.047, 0.055), 0.003), (0.050, 0.070, 0.060, 0.081)
    found = explain(fast, arm("b", slow, 0.003))
    assert found.symptom.metric == "ttft_seconds"
    [null] = [s for s in found.suspects if s.id == "not_reproducible"]
    assert [e.weight for e in null.evidence_for if "tpot_seconds ×1.000" in e.text] == [WEIGHTS.nulls.steady]
    [null] = [s for s in explain(fast, arm("b", slow, 0.0036)).suspects if s.id == "not_reproducible"]
    assert not any("as fast on both sides" in e.text for e in null.evidence_for)


def test_single_runs_leave_it_open() -> None:
    one, two = session("a", "tsc", 94.0, 1), session("b", "tsc", 60.0, 1)
    assert null(one, two, symptom(0.45, Outcome.UNKNOWN, Design.SINGLE)) == -0.5


def test_runs_that_failed_are_no_noise() -> None:
    failed = Symptom(failure="it crashed")
    assert sum(e.weight for e in not_reproducible(failed, None, False, WEIGHTS.nulls)) == WEIGHTS.nulls.failed


def test_what_was_not_recorded_may_hold_the_cause() -> None:
    bare, full = Facts(Side(snapshot({}))), Facts(Side(snapshot({"nvml.driver_version": "1", "env[PATH]": "/bin"})))
    everything, some = unread(bare, full), unread(full, full)
    assert "the driver" in everything
    assert "the driver" not in some
    priors = [outside(missing, WEIGHTS.nulls)[0] for missing in ([], some, everything)]
    assert priors[0] == WEIGHTS.nulls.outside < priors[1] < priors[2] <= 1


def test_a_server_on_cpus_has_no_gpus_to_be_missing() -> None:
    on = {device: Facts(Side(snapshot({"server[0].argument[device]": device}))) for device in ("cpu", "cuda")}
    of_gpus = {"what NCCL chose", "the GPUs under load", "the driver"}
    assert not of_gpus & {*unread(on["cpu"], on["cpu"])}
    assert of_gpus <= {*unread(on["cpu"], on["cuda"])}
    assert "packages" in unread(on["cpu"], on["cpu"])


def test_two_sides_alike_have_no_suspect() -> None:
    found = explain(FAST, session("again", "tsc", 94.1))
    assert [s.id for s in found.suspects if s.changes] == []
    assert found.suspects[0].id == "not_reproducible"
