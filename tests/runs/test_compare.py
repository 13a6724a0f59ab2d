"""Two sets of runs: whether they measured the same work, and what the split makes of the server's timers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from envsnap.runs.compare import Comparison, compare
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.run import Run
from envsnap.runs.verdict import Design, Outcome
from envsnap.snapshot import Section, Snapshot

SNAPSHOT = Snapshot("2026-01-01T00:00:00+00:00", {"kernel": Section("ok", True, 0.0, "")}, "0", moment="before")


def make(figures: dict[str, float], group: str = "g", index: int = 0, arm: str = "", **fields: Any) -> Run:
    served = fields.pop("served", {})
    values = {f"during.server.{name}": value for name, value in served.items()}
    metrics = tuple(Metric(name, value, "", Better.HIGHER, "test") for name, value in figures.items())
    run = Run(
        id=f"{group}-{index:03d}{arm}", group=group, started_at="2026-01-01T00:00:00+00:00", seconds=1.0, status="ok",
        command=("bench",), exit_code=0, snapshots={"before": SNAPSHOT}, index=index, arm=arm, metrics=metrics,
        sampled=Section("ok", True, 0.0, "", values=values),
    )  # fmt: skip
    return replace(run, **fields)


def sides(a: dict[str, float], b: dict[str, float], **fields: Any) -> Comparison:
    spread = (1.0, 1.001, 0.999)
    one, two = (
        [make({n: v * f for n, v in side.items()}, index=i, arm=arm, **fields) for i, f in enumerate(spread)]
        for arm, side in (("a", a), ("b", b))
    )
    return compare(one, two)


GRAPHS = {"stream_tokens_per_second": 450.0, "accept_length": 2.5, "step_seconds": 0.00555, "verify_seconds": 0.003}
EAGER = {"stream_tokens_per_second": 89.0, "accept_length": 2.5, "step_seconds": 0.0282, "verify_seconds": 0.024}
FEWER = {"stream_tokens_per_second": 270.0, "accept_length": 1.5, "step_seconds": 0.00556, "verify_seconds": 0.003}


def test_a_verify_step_without_graphs_is_told_from_acceptance() -> None:
    shares = {s.term: s.share for s in sides(GRAPHS, EAGER).shares}
    assert shares["verify"] is not None
    assert shares["verify"] > 0.85
    assert abs(shares["accept_length"] or 0.0) < 0.02
    shares = {s.term: s.share for s in sides(GRAPHS, FEWER).shares}
    assert shares["accept_length"] == pytest.approx(1.0, abs=0.02)
    assert abs(shares["verify"] or 0.0) < 0.02


def test_plain_decoding_is_split_into_its_pass_and_the_gap() -> None:
    plain = {"tpot_seconds": 0.012, "accept_length": 1.0, "step_seconds": 0.012, "decode_seconds": 0.010}
    slower = {**plain, "tpot_seconds": 0.016, "step_seconds": 0.016}
    comparison = sides(plain, slower)
    shares = {s.term: s.share for s in comparison.shares}
    assert shares["host_gap"] == pytest.approx(1.0, abs=0.01)
    assert shares["decode"] == pytest.approx(0.0, abs=0.01)
    assert comparison.design is Design.INTERLEAVED
    assert comparison.judged[0].verdict.outcome is Outcome.DIFFERENT


SPEED = {"speed": 1.0}


def notes(a: Run, b: Run) -> str:
    return " ".join(compare([a], [b]).notes)


def test_another_request_cannot_be_compared_another_script_may_be() -> None:
    a = make(SPEED, request={"max_concurrency": 1, "script_sha256": "1", "prompts_sha256": "x"})
    b = make(SPEED, request={"max_concurrency": 8, "script_sha256": "2", "prompts_sha256": "y"})
    obstacles = compare([a], [b]).obstacles
    assert len(obstacles) == 2
    assert "max_concurrency was 1 and 8" in obstacles[0]
    assert "script is another one" in notes(a, b)
    same = make(SPEED, request={"max_concurrency": 1, "prompts_sha256": "x"})
    assert compare([a], [same]).obstacles == ()
    assert notes(a, same) == ""


def test_another_command_is_said_unless_only_its_output_has_another_name() -> None:
    a = make(SPEED, command=("bench", "--n", "100", "--output-file", "a.jsonl"))
    assert notes(a, make(SPEED, command=("bench", "--n", "100", "--output-file", "b.jsonl"))) == ""
    assert "100 on side A, 200 on B" in notes(a, make(SPEED, command=("bench", "--n", "200", "--output-file", "b")))
    flag = make(SPEED, command=("bench", "--n", "100", "--output-file", "a", "--fast"))
    assert "as it is on side A, --fast on B" in notes(a, flag)


def test_what_the_arms_changed_is_said() -> None:
    a, b = (make(SPEED, arm_environment=e) for e in ({"X": "1 2"}, {"X": None}))
    assert "with X='1 2' in its environment, side B with -u:X." in notes(a, b)


def test_batches_and_cache_hits_of_another_size_are_said() -> None:
    a = make(SPEED, served={"decode_batch_mean_count": 1.0, "cached_prompt_percent": 0.0})
    assert "1.00 requests at once on side A and 7.50 on B" in notes(
        a, make(SPEED, served={"decode_batch_mean_count": 7.5})
    )
    assert "0 % of the prompt tokens on side A and 60 % on B" in notes(
        a, make(SPEED, served={"cached_prompt_percent": 60.0})
    )
    assert notes(a, make(SPEED, served={"decode_batch_mean_count": 1.05, "cached_prompt_percent": 2.0})) == ""


def test_fast_because_wrong() -> None:
    probes = [
        {"prompts_sha256": "p", "tokens": 48, "outputs": [text, "b"], "again": [text, "b"]} for text in ("a", "x")
    ]
    assert "1 of 2 fixed prompts differently" in notes(*(make(SPEED, output_probe=p) for p in probes))


def test_warnings_of_runs_are_notes_once_and_failures_are_left_out() -> None:
    good = [make(SPEED, index=i, warnings=("the prefix cache answered 40%",)) for i in range(2)]
    bad = make(SPEED, index=2, status="failed", reason="it broke")
    comparison = compare([*good, bad], good)
    assert comparison.notes == (
        "1 of 3 runs of A did not succeed and are left out: it broke.",
        "the prefix cache answered 40%",
    )


def test_the_split_adds_up_to_the_judged_ratio_whatever_the_spread() -> None:
    speeds = {"a": (130.6, 36.1), "b": (5.45, 7.45)}
    a, b = (
        [
            make({"stream_tokens_per_second": v, "accept_length": 1.0, "step_seconds": 1 / v}, index=i, arm=arm)
            for i, v in enumerate(values)
        ]
        for arm, values in speeds.items()
    )
    comparison = compare(a, b)
    assert sum(s.log_change for s in comparison.shares) == pytest.approx(math.log(comparison.judged[0].verdict.ratio))
    assert {s.term: s.share for s in comparison.shares}["residual"] == pytest.approx(0.0, abs=1e-9)
