"""Servers: what a running engine says of itself; arguments as typed, as resolved and as changed since."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors._server_arguments import PRIOR, RULES, named
from envsnap.collectors._server_ask import base_of, objects, parsed, texts
from envsnap.collectors._server_sglang import readings as sglang
from envsnap.host import Host
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Error, Found, Json, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "HTTP: /server_info, /model_info, /v1/models, /version, /metrics"

_GRAPH = (Effect.HOST_LAUNCH, Effect.VERIFY, Effect.DRAFT)

KEYS = (
    Key("server[].url", Type.STRING, Kind.LABEL, "Address at which the server was asked."),
    Key("server[].engine", Type.STRING, Kind.IDENTITY, "Engine that serves: sglang or vllm.",
        (Effect.COMPUTE, Effect.WORKLOAD), 0.6),
    Key("server[].version", Type.STRING, Kind.IDENTITY, "Version that the engine says it is.",
        (Effect.COMPUTE, *_GRAPH), 0.6, Lever.PACKAGE),
    Key("server[].status", Type.STRING, Kind.VOLATILE, "State that the engine says it is in."),
    Key("server[].argument[]", Type.ANY, Kind.TUNABLE,
        "Argument as the engine resolved it at its start; one that is null is not set.", (), PRIOR, Lever.ARGUMENT,
        at=RULES),
    Key("server[].launch_command", Type.STRINGS, Kind.TUNABLE, "Command that the server was started with, as typed.",
        (Effect.WORKLOAD,), 0.5, Lever.ARGUMENT),
    Key("server[].models", Type.STRINGS, Kind.IDENTITY, "Names of the models that the server offers.",
        (Effect.WORKLOAD,), 0.3),
    Key("server[].max_model_tokens_count", Type.INTEGER, Kind.TUNABLE,
        "Tokens that a sequence of the first model may have.", (Effect.MEMORY, Effect.WORKLOAD), 0.3),
    Key("server[].model_type", Type.STRING, Kind.IDENTITY, "Type of the model, as its configuration names it.",
        (Effect.WORKLOAD,), 0.6),
    Key("server[].architectures", Type.STRINGS, Kind.IDENTITY, "Architectures that the model's configuration names.",
        (Effect.WORKLOAD,), 0.6),
    Key("server[].weight_version", Type.STRING, Kind.IDENTITY, "Version that was given to the loaded weights.",
        (Effect.ACCEPTANCE,), 0.3),
    Key("server[].startup_seconds[]", Type.NUMBER, Kind.VOLATILE, "Time that a phase of the server's start took.",
        rel_tol=0.3),
    Key("server[].metric[]", Type.NUMBER, Kind.VOLATILE, "Metric that the server exports at this moment.", rel_tol=0.1,
        at=(At("*_total*", Kind.COUNTER),)),
    Key("server[].dp[].runtime_argument[]", Type.ANY, Kind.TUNABLE,
        "Argument whose value in the running scheduler differs from the one resolved at its start.", (), PRIOR,
        at=RULES),
    Key("server[].dp[].argument_source[]", Type.STRING, Kind.IDENTITY,
        "Part of the engine that gave the argument its value, where nobody typed it.", (), 0.02),
    Key("server[].dp[].env[]", Type.STRING, Kind.TUNABLE,
        "Variable that SGLang knows, as set in the scheduler (needs SGLANG_EXPOSE_OWN_ENV_VARS=1).", (), 0.3,
        Lever.ENV),
    Key("server[].dp[].accept_length", Type.NUMBER, Kind.CONDITION,
        "Tokens accepted per verification since the counters were last zeroed by a flush of the idle cache.",
        (Effect.ACCEPTANCE,), 0.6, rel_tol=0.02),
    Key("server[].dp[].step_seconds[]", Type.NUMBER, Kind.CONDITION,
        "Median time of a decode step by batch size (needs SGLANG_RECORD_STEP_TIME=1).",
        (Effect.VERIFY, Effect.DRAFT), 0.5, rel_tol=0.05),
    Key("server[].dp[].last_gen_throughput", Type.NUMBER, Kind.VOLATILE,
        "Tokens per second in the decode steps that the scheduler logged last.", rel_tol=0.1),
    Key("server[].dp[].max_running_requests_count", Type.INTEGER, Kind.TUNABLE,
        "Requests that the scheduler runs at once at most.", (Effect.WORKLOAD, Effect.MEMORY), 0.5, Lever.ARGUMENT),
    Key("server[].dp[].token_capacity_count", Type.INTEGER, Kind.IDENTITY,
        "Tokens that fit into the KV cache, as measured at the start.", (Effect.MEMORY,), 0.3, rel_tol=0.02),
    Key("server[].dp[].weight_memory_bytes", Type.INTEGER, Kind.IDENTITY,
        "GPU memory that loading the weights took.", (Effect.MEMORY,), 0.3, rel_tol=0.05, abs_tol=64 << 20),
    Key("server[].dp[].kv_cache_memory_bytes", Type.INTEGER, Kind.IDENTITY, "GPU memory of the KV cache.",
        (Effect.MEMORY,), 0.3, rel_tol=0.02, abs_tol=64 << 20),
    Key("server[].dp[].graph_memory_bytes", Type.INTEGER, Kind.IDENTITY,
        "GPU memory that capturing CUDA graphs took; 0 where none were captured.", _GRAPH, 0.5, rel_tol=0.2,
        abs_tol=64 << 20),
    Key("server[].dp[].graph_batch_sizes", Type.INTEGERS, Kind.IDENTITY,
        "Batch sizes for which CUDA graphs of decoding were captured; any other decodes without, or padded.",
        _GRAPH, 0.75, Lever.ARGUMENT),
)  # fmt: skip

_METRICS = (
    r"(sglang:(?:gen_throughput|num_running_reqs|num_queue_reqs|token_usage|cache_hit_rate|is_cuda_graph|"
    r"spec_accept_length|spec_accept_rate|spec_num_steps|spec_num_draft_tokens|cuda_graph_passes_total)|"
    r"vllm:(?:num_requests_running|num_requests_waiting|kv_cache_usage_perc|spec_decode_num_drafts_total|"
    r"spec_decode_num_draft_tokens_total|spec_decode_num_accepted_tokens_total))"
    r"(?:\{([^}]*)\})? (-?[0-9.]+(?:e[-+]?[0-9]+)?)(?: \d+)?$"
)
_LABEL = r'(\w+)="([^"\\]{0,64})"'
_KEPT_LABELS = ("dp_rank", "engine", "mode")
"""Labels that tell series of one metric apart; all others are the same for each, or say which server it is."""


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings. Servers are counted in the order in which they were named."""
    if not scope.servers:
        raise Missing(Why.OFF, "name a server with --server URL")
    for number, address in enumerate(scope.servers):
        at = path_of("server[]", number)
        base = attempt(base_of, address)
        if not isinstance(base, Value):
            yield at, base
        else:
            yield f"{at}.url", base
            for name, found in _server(host, scope, base.value):
                yield f"{at}{name}", found


def _server(host: Host, scope: Scope, base: str) -> Iterator[tuple[str, Found]]:
    """Readings by what follows the server's own path."""
    info = objects(host, scope, base, ["/server_info"])["/server_info"]
    if isinstance(info, Error) or (isinstance(info, Unavailable) and info.why is not Why.NOT_SUPPORTED):
        yield "", info  # it does not talk, or not with us: it is asked nothing more
        return
    older = [] if isinstance(info, Value) else ["/get_server_info"]
    bodies = texts(host, scope, base, [*older, "/version", "/v1/models", "/model_info", "/metrics"])
    answers = {path: attempt(parsed, path, body) for path, body in bodies.items()}
    if not isinstance(info, Value):
        if not any(isinstance(body, Value) for body in bodies.values()):
            yield "", info
            return
        info = answers["/get_server_info"]
    said = info.value if isinstance(info, Value) else {}
    version = answers["/version"].value if isinstance(answers["/version"], Value) else {}
    if isinstance(said.get("internal_states"), list):
        yield ".engine", Value("sglang")
        yield from sglang(said)
    elif "vllm_config" in said or isinstance(version.get("version"), str):
        yield ".engine", Value("vllm")
        yield from _vllm(said, version)
    else:
        yield ".engine", Unavailable(Why.NOT_SUPPORTED, "it is neither SGLang nor vLLM by what it says")
    yield from _models(answers["/v1/models"])
    yield from _model(answers["/model_info"])
    yield from _metrics(bodies["/metrics"])


def _vllm(said: dict[str, Json], version: dict[str, Json]) -> Iterator[tuple[str, Found]]:
    if isinstance(version.get("version"), str):
        yield ".version", Value(version["version"])
    if isinstance(said.get("vllm_config"), dict):
        for name, value in named(said["vllm_config"]):
            yield path_of(".argument[]", name), Value(value)
    else:
        why = "vLLM tells its arguments only under VLLM_SERVER_DEV_MODE=1"
        yield ".argument", Unavailable(Why.NOT_SUPPORTED, why)


def _models(answer: Found) -> Iterator[tuple[str, Found]]:
    if not isinstance(answer, Value):
        yield ".models", answer
        return
    data = answer.value.get("data")
    models = [m for m in data if isinstance(m, dict) and isinstance(m.get("id"), str)] if isinstance(data, list) else []
    yield ".models", Value(sorted(m["id"] for m in models))
    length = models[0].get("max_model_len") if models else None
    if isinstance(length, int) and not isinstance(length, bool):
        yield ".max_model_tokens_count", Value(length)


def _model(answer: Found) -> Iterator[tuple[str, Found]]:
    if not isinstance(answer, Value):
        yield ".model_type", answer
        return
    for name in ("model_type", "weight_version"):
        if isinstance(answer.value.get(name), str):
            yield f".{name}", Value(answer.value[name])
    names = answer.value.get("architectures")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        yield ".architectures", Value(sorted(names))


def _metrics(body: Found) -> Iterator[tuple[str, Found]]:
    if not isinstance(body, Value):
        yield ".metric", body
        return
    seen = set()
    for name, labels, number in re.findall(_METRICS, body.value, re.M):
        kept = [f"{label}={value}" for label, value in sorted(re.findall(_LABEL, labels)) if label in _KEPT_LABELS]
        instance = f"{name}{{{','.join(kept)}}}" if kept else name
        if instance not in seen:  # of series that only other labels tell apart, the first rank's
            seen.add(instance)
            yield path_of(".metric[]", instance), attempt(float, number)
