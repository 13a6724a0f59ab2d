"""Each reader on output of its tool: recorded where the tool ran, described after its source elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.runs.metrics import Better, Measured, NoMetrics, without_warm_up
from envsnap.runs.readers import read_text, readers

DATA = Path(__file__).parents[1] / "data" / "benchmarks"


def _read(name: str) -> Measured:
    return read_text((DATA / name).read_text(), name)


def _values(measured: Measured) -> dict[str, float]:
    return {m.name: m.value for m in measured.metrics}


def test_sglang_serving_as_it_ran() -> None:
    measured = _read("sglang_serving.jsonl")
    values = _values(measured)
    assert values["output_tokens_per_second"] == pytest.approx(189.981, abs=0.001)
    assert values["tpot_seconds"] == pytest.approx(0.003822, abs=1e-6)
    assert "accept_length" not in values  # null in the file: no speculation
    assert measured.request["max_concurrency"] == 2
    assert measured.request["request_rate"] == "inf"
    ttft = next(m for m in measured.metrics if m.name == "ttft_seconds")
    assert len(ttft.samples) in (5, 6)
    assert ttft.better is Better.LOWER


def test_sglang_send_one_as_it_ran() -> None:
    values = _values(_read("sglang_send_one.txt"))
    assert values["stream_tokens_per_second"] == pytest.approx(82.27)
    assert values["accept_length"] == 1.0
    assert values["step_seconds"] == pytest.approx(0.194 / 16)


def test_pyperf_and_hyperfine_as_they_ran() -> None:
    pyperf = _read("pyperf.json").metrics[0]
    assert pyperf.unit == "s"
    assert 1e-7 < pyperf.value < 1e-5
    assert len(pyperf.samples) == 9
    hyperfine = _read("hyperfine.json").metrics[0]
    assert hyperfine.name == "wall_seconds"
    assert len(hyperfine.samples) == 5


SERVING: dict[str, Any] = {
    "duration": 10.0, "completed": 4, "failed": 1, "total_input_tokens": 40, "total_output_tokens": 400,
    "output_throughput": 40.0, "total_token_throughput": 44.0, "median_tpot_ms": 20.0, "median_ttft_ms": 50.0,
    "median_e2el_ms": 900.0, "output_lens": [100, 100, 100, 1], "ttfts": [0.05] * 4, "errors": ["", "", "", ""],
    "spec_decode_acceptance_length": 2.5, "request_rate": 4.0, "max_concurrency": 1,
}  # fmt: skip


def test_vllm_serving_with_speculation() -> None:
    measured = read_text(json.dumps(SERVING), "result.json")
    values = _values(measured)
    assert values["accept_length"] == 2.5
    assert values["step_seconds"] == pytest.approx(0.05)
    assert values["e2e_seconds"] == pytest.approx(0.9)
    assert measured.warnings == ("1 requests failed", "1 requests generated at most one token")


def test_one_batch_and_speculative() -> None:
    server = {"run_name": "x", "batch_size": 2, "input_len": 32, "output_len": 16, "latency": 1.0, "acc_length": 2.0,
              "output_throughput": 100.0, "last_ttft": 0.2, "cache_hit_rate": 0.5}  # fmt: skip
    measured = read_text(json.dumps(server), "x")
    assert _values(measured)["step_seconds"] == pytest.approx(0.04)
    assert measured.warnings == ("prefix cache hits: 50%",)
    offline = {"run_name": "x", "batch_size": 1, "input_len": 32, "output_len": 16, "prefill_latency": 0.1,
               "median_decode_latency": 0.02, "median_decode_throughput": 50.0}  # fmt: skip
    assert _values(read_text(json.dumps(offline), "x"))["step_seconds"] == 0.02
    speculative = {"batch_size": 1, "steps": 2, "acc_length": 1.8, "step_time": 0.019, "speed": 94.0}
    assert _values(read_text(json.dumps(speculative), "x"))["step_seconds"] == 0.019


def test_aiperf_and_its_window() -> None:
    export = {"request_latency": {"unit": "ms", "avg": 6550.3, "p50": 5799.9}, "was_cancelled": True,
              "output_token_throughput": {"unit": "tokens/sec", "avg": 1274.6},
              "error_summary": [{"error_details": {"code": 499}, "count": 81}],
              "start_time": "2025-10-17T20:22:08.939332", "end_time": "2025-10-17T20:22:24.967633"}  # fmt: skip
    measured = read_text(json.dumps(export), "x")
    assert _values(measured) == {"output_tokens_per_second": 1274.6, "e2e_seconds": pytest.approx(5.7999)}
    assert measured.window is not None
    assert measured.window[1] - measured.window[0] == pytest.approx(16.028, abs=0.001)
    assert measured.warnings == ("the benchmark was cancelled before its end", "81 requests failed")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"completed": 0}, "completed no request"),
        ({"total_output_tokens": 0}, "generated no token"),
        ({"output_throughput": float("nan")}, "no usable figure"),
        ({"output_throughput": 0}, "no usable figure"),
        ({"output_throughput": None}, "no usable figure"),
    ],
)
def test_a_success_that_measured_nothing_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(NoMetrics, match=says):
        read_text(json.dumps({**SERVING, **changed}), "result.json")


@pytest.mark.parametrize(
    "text", ["", "   \n", "{", "[]", "null", "hello", '{"output_throughput": 3}', '{"a": 1}\n{"b"']
)
def test_what_no_reader_knows_is_said(text: str) -> None:
    with pytest.raises(NoMetrics):
        read_text(text, "result")


def test_a_line_cut_short_does_not_bring_up_another_run() -> None:
    whole = json.dumps(SERVING)
    with pytest.raises(NoMetrics):
        read_text(whole + "\n" + whole[: len(whole) // 2], "result.jsonl")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_readers_never_raise_anything_else(document: Any) -> None:
    for text in (json.dumps(document), json.dumps({**SERVING, "median_tpot_ms": document, "errors": document})):
        try:
            read_text(text, "x")
        except NoMetrics:
            pass


def test_every_reader_says_what_was_seen() -> None:
    for reader in readers():
        text = __import__(reader.__name__, fromlist=["x"]).__doc__
        assert text, reader.__name__


def test_warm_up_is_left_out_and_noise_is_not() -> None:
    assert without_warm_up([3.0, 1.0, 1.1, 0.9, 1.0, 1.05, 1.0, 0.95, 1.0, 1.0])[0] == 1.0
    steady = (1.1, 1.0, 1.05, 0.95, 1.0, 1.02)
    assert without_warm_up(steady) == steady
    assert without_warm_up([5.0]) == (5.0,)
