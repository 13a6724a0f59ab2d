"""The server's own figures: from real pages, made-up counters of speculation, and servers that tell little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envsnap.collectors import key_for
from envsnap.host import LiveHost
from envsnap.reading import Why
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.prometheus import parse
from envsnap.runs.server_counters import KEYS, ROOT
from envsnap.runs.server_figures import Figures, Sight, between, disagreement, joined, look
from tests.http_server import as_json, closed_port, serving

DATA = Path(__file__).parents[1] / "data"
PAGE = (DATA / "sglang_0.5.16_metrics.txt").read_text()
INFO = json.loads((DATA / "sglang_0.5.16_server_info_tp1.json").read_text())


def page(**values: float) -> str:
    """SGLang's counters on rank 0; `name__label` gives the mode or category."""
    lines = []
    for name, value in values.items():
        stem, _, label = name.partition("__")
        kind = "category" if stem.startswith("forward") else "mode"
        labels = f'{{tp_rank="0",{kind}="{label}"}}' if label else '{model_name="m"}'
        lines.append(f"sglang:{stem}{labels} {value}")
    return "\n".join(lines) + "\n"


def window(before: str, after: str) -> Figures:
    return between(Sight(parse(before)), Sight(parse(after)))


def values(figures: Figures) -> dict[str, Any]:
    return {m.name: m.value for m in figures.metrics}


EAGLE = {
    "generation_tokens_total": 1010.0, "num_requests_total": 10.0, "prompt_tokens_total": 100.0,
    "spec_verify_calls_total": 400.0, "cuda_graph_passes_total__decode_cuda_graph": 400.0,
    "inter_token_latency_seconds_sum": 10.0, "inter_token_latency_seconds_count": 1000.0,
    "forward_execution_seconds_total__target_verify": 6.0, "forward_execution_seconds_total__eagle_draft": 1.6,
    "forward_execution_seconds_total__eagle_draft_extend": 0.8,
}  # fmt: skip


def test_plain_decoding_as_it_was_seen() -> None:
    figures = window("", PAGE)
    assert values(figures) == {"accept_length": 1.0, "tpot_seconds": pytest.approx(0.8098587740009862 / 105)}
    readings = {path.removeprefix(f"{ROOT}."): value for path, value in figures.values.items()}
    assert readings == {
        "decode_graph_percent": 0.0,
        "prefill_graph_percent": 0.0,
        "decode_batch_mean_count": round(137 / 89, 3),
        "request_count": 9,
        "generated_tokens_count": 136,
        "retraction_count": 0,
        "prompt_tokens_count": 598,
        "cached_prompt_percent": 31.77,
        "queue_mean_seconds": 0.000386,
    }
    assert figures.warnings == ("the prefix cache answered 32% of the prompt tokens (190 of 598)",)
    assert {key_for(path).pattern for path in figures.values} <= {key.pattern for key in KEYS}


def test_only_the_window_counts() -> None:
    later = PAGE.replace("} 136.0", "} 236.0").replace("} 9.0", "} 11.0")
    readings = window(PAGE, later).values
    assert readings[f"{ROOT}.generated_tokens_count"] == 100
    assert readings[f"{ROOT}.request_count"] == 2
    assert f"{ROOT}.cached_prompt_percent" not in readings
    idle = window(PAGE, PAGE)
    assert idle.unavailable[ROOT].why is Why.NOT_SUPPORTED
    assert "does that ask another one?" in idle.warnings[0]
    assert window("", "python_gc_total 5").warnings == ()


def test_speculation_by_its_counters_and_timers() -> None:
    found = values(window("", page(**EAGLE)))
    assert found["accept_length"] == pytest.approx((1010 - 10) / 400)
    assert found["tpot_seconds"] == pytest.approx(0.01)
    assert found["verify_seconds"] == pytest.approx(6.0 / 400)
    assert found["draft_seconds"] == pytest.approx(1.6 / 400)
    assert found["draft_extend_seconds"] == pytest.approx(0.8 / 400)
    assert "decode_seconds" not in found


def test_without_graphs_the_draft_is_timed_as_decode() -> None:
    eager = {**EAGLE, "cuda_graph_passes_total__decode_none": 400.0, "forward_execution_seconds_total__decode": 2.0}
    del eager["cuda_graph_passes_total__decode_cuda_graph"], eager["forward_execution_seconds_total__eagle_draft"]
    figures = window("", page(**eager))
    assert values(figures)["draft_seconds"] == pytest.approx(2.0 / 400)
    assert figures.values[f"{ROOT}.decode_graph_percent"] == 0.0


def test_a_batch_of_requests_shares_its_passes() -> None:
    four = {**EAGLE, "cuda_graph_passes_total__decode_cuda_graph": 100.0}
    figures = window("", page(**four))
    assert figures.values[f"{ROOT}.decode_batch_mean_count"] == 4.0
    assert values(figures)["verify_seconds"] == pytest.approx(6.0 / 100)


def test_ranks_that_all_tell_do_not_add_up() -> None:
    both = page(**EAGLE) + page(**{k: v for k, v in EAGLE.items() if "__" in k}).replace('rank="0"', 'rank="1"')
    assert values(window("", both))["verify_seconds"] == pytest.approx(6.0 / 400)


def test_an_unknown_accept_length_is_not_one() -> None:
    old = {"cuda_graph_passes_total__decode_cuda_graph": 100.0, "spec_num_draft_tokens": 4.0}
    assert "accept_length" not in values(window("", page(**old)))


def test_vllm_by_its_documentation() -> None:
    text = (
        'vllm:prompt_tokens_total{engine="0"} 100\nvllm:generation_tokens_total{engine="0"} 510\n'
        'vllm:request_success_total{engine="0",finished_reason="stop"} 4\n'
        'vllm:request_success_total{engine="0",finished_reason="length"} 6\n'
        'vllm:spec_decode_num_drafts_total{engine="0"} 200\n'
        'vllm:spec_decode_num_accepted_tokens_total{engine="0"} 300\n'
        'vllm:request_decode_time_seconds_sum{engine="0"} 5\n'
        'vllm:prefix_cache_hits_total{engine="0"} 10\nvllm:num_preemptions_total{engine="0"} 2\n'
    )
    figures = window("", text)
    assert values(figures) == {"accept_length": pytest.approx(2.5), "tpot_seconds": pytest.approx(0.01)}
    assert figures.values[f"{ROOT}.request_count"] == 10
    assert len(figures.warnings) == 2


def test_a_server_that_talks() -> None:
    with serving({"/metrics": (200, "text/plain", PAGE), "/server_info": as_json(INFO)}) as server:
        sight = look(LiveHost(), server.url)
    assert sight.page is not None
    assert sight.accept_lengths == (2.531,)


@pytest.mark.parametrize(
    ("answer", "why", "detail"),
    [
        ((404, "text/plain", ""), Why.NOT_SUPPORTED, "--enable-metrics"),
        ((503, "text/plain", ""), Why.NOT_SUPPORTED, "503"),
        ((200, "text/html", "<html>"), Why.NOT_SUPPORTED, "line 1 is no sample"),
    ],
)
def test_a_server_without_metrics_says_why(answer: tuple[int, str, str], why: Why, detail: str) -> None:
    with serving({"/metrics": answer}) as server:
        sight = look(LiveHost(), server.url)
    found = between(sight, sight).unavailable[ROOT]
    assert found.why is why
    assert detail in found.detail


def test_no_server_at_all() -> None:
    sight = look(LiveHost(), closed_port())
    assert between(sight, sight).unavailable[ROOT].why is Why.ABSENT


def _info(*lengths: float | None) -> Sight:
    states = [{} if length is None else {"avg_spec_accept_length": length} for length in lengths]
    with serving({"/server_info": as_json({**INFO, "internal_states": states})}) as server:
        return look(LiveHost(), server.url)


def test_the_average_of_server_info_is_taken_with_its_caveats() -> None:
    fresh = between(_info(None), _info(2.5))
    assert values(fresh) == {"accept_length": 2.5}
    assert fresh.warnings == ()
    held = between(_info(2.0), _info(2.5))
    assert "not of this run alone" in held.warnings[0]
    stale = between(_info(2.5), _info(2.5))
    assert stale.metrics == ()
    assert "did not move" in stale.warnings[0]
    assert values(between(_info(None, None), _info(2.0, 3.0))) == {"accept_length": 2.5}
    assert between(_info(None), _info(None)).metrics == ()


def test_step_times_that_came_since_are_taken() -> None:
    def sight(*times: float) -> Sight:
        states = [{"step_time_dict": {"1": list(times), "8": []}}]
        with serving({"/server_info": as_json({"internal_states": states})}) as server:
            return look(LiveHost(), server.url)

    figures = between(sight(9.0, 9.0), sight(9.0, 9.0, 5.0, 0.02, 0.021))
    assert values(figures) == {"step_seconds": 0.021}
    assert between(sight(9.0), sight(9.0)).metrics == ()


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        '{"internal_states": 5}',
        '{"internal_states": [5]}',
        "[" * 5000,
        '{"internal_states": [{"step_time_dict": 5}]}',
        '{"internal_states": [{"step_time_dict": {"1": 5}}]}',
    ],
)
def test_garbage_in_server_info_is_no_figure(body: str) -> None:
    with serving({"/server_info": (200, "application/json", body)}) as server:
        sight = look(LiveHost(), server.url)
    assert (sight.accept_lengths, sight.step_seconds) == ((), {})


def _metric(name: str, value: float, source: str) -> Metric:
    return Metric(name, value, "", Better.NEITHER, source)


def test_the_benchmark_s_own_figures_stand_first_and_once() -> None:
    own = (_metric("tpot_seconds", 0.01, "bench"), _metric("tpot_seconds", 0.02, "another file"))
    server = (_metric("accept_length", 2.5, "server"), _metric("tpot_seconds", 0.03, "server"))
    found = joined(own, server)
    assert [(m.name, m.value) for m in found] == [
        ("tpot_seconds", 0.01),
        ("accept_length", 2.5),
        ("step_seconds", 0.025),
    ]
    stream = joined((_metric("stream_tokens_per_second", 100.0, "bench"),), server)
    assert stream[2].value == pytest.approx(0.025)
    step = joined((), server)[1]
    assert step.name == "step_seconds"
    assert step.value == pytest.approx(0.075)
    assert [m.name for m in joined((_metric("step_seconds", 1.0, "bench"),), server)] == [
        "step_seconds", "accept_length", "tpot_seconds",
    ]  # fmt: skip


def test_an_accept_length_of_another_window_is_said() -> None:
    server = (_metric("accept_length", 2.5, "server"),)
    assert disagreement((_metric("accept_length", 2.51, "bench"),), server) == ""
    assert "2.900" in disagreement((_metric("accept_length", 2.9, "bench"),), server)
    assert disagreement((), server) == ""
