from __future__ import annotations

import copy
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.collectors import key_for, server
from envsnap.collectors._server_arguments import named
from envsnap.host import LiveHost
from envsnap.keys import Effect, Kind
from envsnap.reading import Error, Found, Unavailable, Value, Why
from envsnap.redact import Redactor
from envsnap.scope import Scope
from envsnap.snapshot import Section
from tests.fakes import FakeHost
from tests.http_server import Answer, as_json, closed_port, raw, serving

DATA = Path(__file__).parents[1] / "data"


def real(ranks: int = 2) -> dict[str, Any]:
    """What SGLang 0.5.16 answered with EAGLE-3 on H200s."""
    body: dict[str, Any] = json.loads((DATA / f"sglang_0.5.16_server_info_tp{ranks}.json").read_text())
    return body


def read(*addresses: str, key_file: str = "") -> Section:
    """The section as a snapshot holds it, redacted."""
    scope = Scope(servers=addresses, api_key_file=key_file)
    return capture(scope, LiveHost(), only=["server"], redactor=Redactor()).sections["server"]


def of(answers: dict[str, Answer]) -> Section:
    with serving(answers) as running:
        return read(running.url)


def reasons(section: Section) -> dict[str, str]:
    return {path: str(why) for path, why in section.unavailable.items()}


# -- SGLang -------------------------------------------------------------------------------------------------------


def test_a_real_server_in_full() -> None:
    section = of({"/server_info": as_json(real())})
    assert section.errors == {}
    values = section.values
    assert values["server[0].engine"] == "sglang"
    assert values["server[0].version"] == "0.5.16"
    assert values["server[0].argument[tp_size]"] == 2
    assert values["server[0].argument[attention_backend]"] == "triton"
    assert values["server[0].argument[speculative_num_draft_tokens]"] == 4
    assert values["server[0].argument[disable_cuda_graph]"] is True
    assert values["server[0].argument[cuda_graph_config.decode.backend]"] == "disabled"
    assert values["server[0].argument[cuda_graph_config.decode.bs]"][:3] == [1, 2, 3]
    assert values["server[0].dp[0].accept_length"] == 2.5
    assert values["server[0].dp[0].kv_cache_memory_bytes"] == round(0.13 * 1024**3)
    assert values["server[0].dp[0].graph_memory_bytes"] == 0
    assert values["server[0].dp[0].token_capacity_count"] == 65536
    assert values["server[0].dp[0].max_running_requests_count"] == 48
    assert values["server[0].dp[0].last_gen_throughput"] == pytest.approx(91.28, abs=0.01)


def test_resolved_and_changed_since_are_told_apart_with_who_changed_it() -> None:
    values = of({"/server_info": as_json(real())}).values
    changed = {path: value for path, value in values.items() if "runtime_argument" in path}
    assert changed == {
        "server[0].dp[0].runtime_argument[context_length]": 2048,
        "server[0].dp[0].runtime_argument[disable_chunked_prefix_cache]": True,
        "server[0].dp[0].runtime_argument[pp_max_micro_batch_size]": 48,
    }
    assert values["server[0].argument[disable_chunked_prefix_cache]"] is False
    assert "server[0].argument[context_length]" not in values  # null: not set
    sources = {path.partition("source")[2]: value for path, value in values.items() if "argument_source" in path}
    assert sources["[context_length]"] == "spec_worker.match_target_context_length"
    assert sources["[page_size]"] == "_page_size_default"


def test_what_only_newer_versions_tell_is_unavailable_and_not_empty() -> None:
    section = of({"/server_info": as_json(real())})
    assert section.unavailable["server[0].launch_command"].why is Why.NOT_SUPPORTED
    assert section.unavailable["server[0].dp[0].graph_batch_sizes"].why is Why.NOT_SUPPORTED


def newer() -> dict[str, Any]:
    """The same in the shape of 0.5.23, which was read in its source."""
    body = real()
    body.update(
        version="0.5.23",
        launch_command="python -m sglang.launch_server --api-key 'sk-a b c d e f 0123456789' --tp 2",
        startup_time={"load_weight": 3.25, "cuda_graph": {"decode": 7.5, "note": "x"}},
        frontend="python",
    )
    state = body["internal_states"][0]
    state.update(
        decode_cuda_graph_bs=[4, 1, 2],
        memory_usage={"weight": 1.0, "kvcache": 2.0, "token_capacity": 10, "graph": {"decode": 0.5, "prefill": 0.25}},
        step_time_dict={"1": [0.010, 0.012, 0.5], "8": []},
        env_vars={"SGLANG_RECORD_STEP_TIME": "1"},
    )
    del state["avg_spec_accept_length"]
    other = copy.deepcopy(state)
    other.update(avg_spec_accept_length=3.5, chunked_prefill_size=4096)
    body["internal_states"].append(other)
    return body


def test_a_newer_version_with_two_data_parallel_ranks() -> None:
    section = of({"/server_info": as_json(newer())})
    values = section.values
    assert section.errors == {}
    assert values["server[0].launch_command"][:3] == ["python", "-m", "sglang.launch_server"]
    assert values["server[0].startup_seconds[cuda_graph.decode]"] == 7.5
    assert values["server[0].dp[0].graph_batch_sizes"] == [1, 2, 4]
    assert values["server[0].dp[0].graph_memory_bytes"] == round(0.75 * 1024**3)
    assert values["server[0].dp[0].step_seconds[1]"] == 0.012
    assert values["server[0].dp[0].env[SGLANG_RECORD_STEP_TIME]"] == "1"
    assert "server[0].dp[0].accept_length" not in values
    assert values["server[0].dp[1].accept_length"] == 3.5
    assert values["server[0].dp[1].runtime_argument[chunked_prefill_size]"] == 4096
    assert "server[0].dp[0].runtime_argument[chunked_prefill_size]" not in values


def test_no_secret_of_the_server_is_in_the_snapshot() -> None:
    body = newer()
    secrets = {
        "api_key": "sk-a b c d e f 0123456789", "admin_api_key": "admin-9876543210-abcdef",
        "ssl_keyfile_password": "hunter2hunter2", "kv_events_config": '{"password": "s3cr3t-s3cr3t"}',
    }  # fmt: skip
    for place in (body, *body["internal_states"]):
        place.update(secrets)
    with serving({"/server_info": as_json(body)}) as running:
        host = running.url.removeprefix("http://")
        snapshot = capture(Scope(servers=(f"http://user:pa55word@{host}",)), LiveHost(), only=["server"])
    text = json.dumps(snapshot.sections["server"].as_json())
    assert [secret for secret in ("0123456789", "9876543210", "hunter2", "s3cr3t", "pa55word") if secret in text] == []
    assert snapshot.values["server[0].argument[api_key]"].startswith("<redacted ")
    assert snapshot.values["server[0].url"] == f"http://{host}"


def test_older_versions_have_other_names_for_it() -> None:
    values = of({"/get_server_info": as_json(real(1))}).values
    assert values["server[0].argument[tp_size]"] == 1


def test_models_and_metrics() -> None:
    metrics = """\
# HELP sglang:gen_throughput x
sglang:gen_throughput{engine_type="unified",model_name="m",tp_rank="0"} 123.5
sglang:gen_throughput{engine_type="unified",model_name="m",tp_rank="1"} 99.0
sglang:cuda_graph_passes_total{mode="decode_cuda_graph",tp_rank="0"} 10.0
sglang:cuda_graph_passes_total{mode="decode_none",tp_rank="0"} 2.5e+06
sglang:num_running_reqs{dp_rank="1"} 3
sglang:spec_accept_length NaN
process_cpu_seconds_total 12
"""
    section = of(
        {
            "/server_info": as_json(real()),
            "/metrics": (200, "text/plain", metrics),
            "/v1/models": as_json({"data": [{"id": "b", "max_model_len": 2048}, {"id": "a"}, {"id": 3}, "x"]}),
            "/model_info": as_json({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "weight_version": 7}),
        }
    )
    assert {p: v for p, v in section.values.items() if ".metric" in p} == {
        "server[0].metric[sglang:gen_throughput]": 123.5,
        'server[0].metric["sglang:cuda_graph_passes_total{mode=decode_cuda_graph}"]': 10.0,
        'server[0].metric["sglang:cuda_graph_passes_total{mode=decode_none}"]': 2.5e6,
        'server[0].metric["sglang:num_running_reqs{dp_rank=1}"]': 3.0,
    }
    assert section.values["server[0].models"] == ["a", "b"]
    assert section.values["server[0].max_model_tokens_count"] == 2048
    assert section.values["server[0].model_type"] == "llama"
    assert "server[0].weight_version" not in section.values


def test_several_servers_and_one_of_them_down() -> None:
    with serving({"/server_info": as_json(real(1))}) as one:
        section = read(closed_port(), one.url)
    assert section.values["server[1].argument[tp_size]"] == 1
    assert section.unavailable["server[0]"].why is Why.ABSENT
    assert section.unavailable["server[0]"].detail.startswith("nothing listens at 127.0.0.1:")


# -- vLLM, by its documentation: no real server was at hand ---------------------------------------------------------


def test_vllm() -> None:
    answers: dict[str, Answer] = {"/version": as_json({"version": "0.11.0"}), "/v1/models": as_json({"data": []})}
    section = of(answers)
    assert section.values["server[0].engine"] == "vllm"
    assert section.values["server[0].version"] == "0.11.0"
    assert "VLLM_SERVER_DEV_MODE" in section.unavailable["server[0].argument"].detail
    config = {"parallel_config": {"tensor_parallel_size": 2}}
    section = of({**answers, "/server_info": as_json({"vllm_config": config})})
    assert section.values["server[0].argument[parallel_config.tensor_parallel_size]"] == 2


# -- servers that answer badly, or not ------------------------------------------------------------------------------


def test_a_key_is_wanted_given_and_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-right\n")
    (tmp_path / "wrong").write_text("sk-wrong\n")
    with serving({"/server_info": as_json(real())}, key="sk-right") as running:
        without, wrong, right = (
            read(running.url, key_file=k) for k in ("", str(tmp_path / "wrong"), str(tmp_path / "key"))
        )
        # One that refuses is not asked on and on.
        assert [path for path, key in running.asked if "right" not in key] == ["/server_info", "/server_info"]
    assert str(without.unavailable["server[0]"]) == "denied: the server wants a key (--api-key-file) for /server_info"
    assert str(wrong.unavailable["server[0]"]) == "denied: the server refuses the key for /server_info"
    assert right.values["server[0].engine"] == "sglang"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, "text/html", "<html>welcome</html>"), "no JSON object"),
        ((200, "application/json", "[1, 2]"), "no JSON object"),
        ((200, "application/json", "[" * 200_000), "no JSON object"),
        ((302, "text/plain", "http://127.0.0.1:1/elsewhere"), "redirects /server_info, which is not followed"),
        ((503, "text/plain", "warming up"), "status 503; it may still be starting"),
        ((500, "text/plain", ""), "status 500"),
    ],
)
def test_answers_that_are_none(answer: Answer, reason: str) -> None:
    section = of({"/server_info": answer})
    assert section.errors == {}
    assert set(section.values) == {"server[0].url"}
    assert reason in section.unavailable["server[0]"].detail


def test_a_front_page_for_every_path_is_no_engine() -> None:
    page: Answer = (200, "text/html", "<html>sglang:gen_throughput</html>")
    section = of(dict.fromkeys(("/server_info", "/version", "/v1/models", "/metrics", "/model_info"), page))
    assert section.errors == {}
    assert set(section.values) == {"server[0].url"}
    assert section.unavailable["server[0].engine"].why is Why.NOT_SUPPORTED


def test_one_that_drips_and_one_that_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envsnap.collectors._server_ask.SECONDS", 0.3)

    def drip(connection: socket.socket) -> None:
        for _ in range(1000):
            connection.sendall(b"HTTP/1.1 200 OK\r\n"[:1])
            connection.recv(1)

    with raw(drip) as url:
        section = read(url)
        assert section.unavailable["server[0]"].why in (Why.TIMEOUT, Why.NOT_SUPPORTED)
    with raw(lambda connection: connection.close()) as url:
        assert read(url).unavailable["server[0]"].why in (Why.ABSENT, Why.NOT_SUPPORTED)


def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envsnap.collectors._server_ask.LIMIT", 1000)
    assert of({"/server_info": as_json(real())}).unavailable["server[0]"].why is Why.TOO_LARGE


@pytest.mark.parametrize("address", ["", "ftp://x", "http://[::1", "http://h:99999", "http://h:port"])
def test_what_is_no_address(address: str) -> None:
    assert read(address).unavailable["server[0]"].why is Why.ABSENT


def test_short_and_long_forms_of_an_address() -> None:
    with serving({"/server_info": as_json(real())}) as running:
        bare = running.url.removeprefix("http://")
        urls = [read(form).values.get("server[0].url") for form in (bare, running.url + "/", running.url + "/v1/")]
    assert urls == [running.url] * 3


def test_garbage_in_every_place_costs_at_most_its_own_readings() -> None:
    garbage: Any
    for garbage in (None, 5, "x", [], [[]], {"": {"": []}}, {"a": None}, [None, 5], True, 1e400):
        body = dict.fromkeys([*real(), "startup_time", "launch_command"], garbage)
        body["internal_states"] = [dict.fromkeys(newer()["internal_states"][0], garbage), garbage]
        section = of({"/server_info": (200, "application/json", json.dumps(body)), "/v1/models": as_json(garbage),
                      "/model_info": as_json({"model_type": garbage, "architectures": garbage})})  # fmt: skip
        assert section.status == "ok"
        assert section.errors == {}


def test_asked_nothing_it_says_so_and_an_empty_machine_has_no_error() -> None:
    assert capture(Scope(), FakeHost(), only=["server"]).sections["server"].status == "unavailable"
    found: list[tuple[str, Found]] = list(server.collect(FakeHost(), Scope(servers=("http://h:1",))))
    assert not [f for _, f in found if isinstance(f, Error)]
    assert [type(f) for _, f in found] == [Value, Unavailable]


# -- what arguments mean --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "effect", "at_least"),
    [
        ("attention_backend", Kind.TUNABLE, Effect.VERIFY, 0.8),
        ("speculative_draft_attention_backend", Kind.TUNABLE, Effect.DRAFT, 0.8),
        ("speculative_num_steps", Kind.TUNABLE, Effect.ACCEPTANCE, 0.7),
        ("disable_cuda_graph", Kind.TUNABLE, Effect.HOST_LAUNCH, 0.7),
        ("cuda_graph_config.decode.max_bs", Kind.TUNABLE, Effect.HOST_LAUNCH, 0.7),
        ("cuda_graph_config.prefill.bs", Kind.TUNABLE, Effect.PREFILL, 0.5),
        ("tp_size", Kind.TUNABLE, Effect.COMMUNICATION, 0.7),
        ("disable_custom_all_reduce", Kind.TUNABLE, Effect.COMMUNICATION, 0.7),
        ("enable_flashinfer_allreduce_fusion", Kind.TUNABLE, Effect.COMMUNICATION, 0.7),
        ("moe_runner_backend", Kind.TUNABLE, Effect.COMPUTE, 0.6),
        ("kv_cache_dtype", Kind.TUNABLE, Effect.ACCEPTANCE, 0.6),
        ("chunked_prefill_size", Kind.TUNABLE, Effect.PREFILL, 0.4),
        ("max_running_requests", Kind.TUNABLE, Effect.MEMORY, 0.4),
        ("random_seed", Kind.VOLATILE, Effect.ACCEPTANCE, 0.0),
        ("nccl_port", Kind.LABEL, None, 0.0),
        ("port", Kind.LABEL, None, 0.0),
    ],
)
def test_an_arguments_meaning(name: str, kind: Kind, effect: Effect | None, at_least: float) -> None:
    key = key_for(f"server[0].argument[{name}]")
    assert key.kind is kind
    assert effect is None or effect in key.effects
    assert key.prior >= at_least
    assert key_for(f"server[0].dp[0].runtime_argument[{name}]").prior == key.prior


def test_the_same_server_twice_differs_in_noise_alone() -> None:
    one, two = real(1), real(2)
    two["tp_size"] = two["internal_states"][0]["tp_size"] = 1
    a, b = (of({"/server_info": as_json(body)}).values for body in (one, two))
    compared = {
        path
        for path in a.keys() | b.keys()
        if key_for(path).kind in (Kind.IDENTITY, Kind.TUNABLE) and not key_for(path).same(a.get(path), b.get(path))
    }
    # Two ranks share the cache, so each has half: the only other difference that is none of noise.
    assert compared == {"server[0].dp[0].kv_cache_memory_bytes"}


def test_leaves_of_structured_arguments() -> None:
    assert list(named({"a": {"b": {"c": 1}, "d": None}, "e": {}, "f": [1, {"g": 2}], "": 1, "n" * 200: 1})) == [
        ("a.b.c", 1),
        ("e", {}),
        ("f", [1, {"g": 2}]),
    ]
    assert len(list(named({str(number): number for number in range(10_000)}))) == 4096
