"""What SGLang's /server_info says, as readings by what follows the server's own path. 0.5.16 to 0.5.23 were read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envsnap.collectors._server_arguments import named
from envsnap.keys import path_of
from envsnap.reading import Found, Json, Unavailable, Value, Why

MAX_RANKS = 256
MAX_STEPS = 100_000

NOT_ARGUMENTS = (
    "status", "max_total_num_tokens", "max_req_input_len", "internal_states", "version", "kv_events",
    "kv_event_sources", "startup_time", "hicache_object_layout", "launch_command", "frontend", "env_vars",
    "world_size", "custom_sigquit_handler",
)  # fmt: skip
"""What /server_info holds beside the arguments."""

_GIB = 1 << 30


def readings(body: dict[str, Json]) -> Iterator[tuple[str, Found]]:
    """Of the server, and of each of its data-parallel ranks."""
    arguments = {n: v for n, v in body.items() if n not in NOT_ARGUMENTS and not n.startswith("_")}
    for name in ("version", "status"):
        if isinstance(body.get(name), str):
            yield f".{name}", Value(body[name])
    for name, value in named(arguments):
        yield path_of(".argument[]", name), Value(value)
    yield ".launch_command", _command(body.get("launch_command"))
    for phase, seconds in named(_object(body.get("startup_time"))):
        if _is_number(seconds):
            yield path_of(".startup_seconds[]", phase), Value(seconds)
    states = body["internal_states"]
    for rank, state in enumerate(states[:MAX_RANKS]):
        for name, found in _rank(arguments, _object(state)):
            yield path_of(".dp[]", rank) + name, found


def _command(command: Json) -> Found:
    import shlex

    if not isinstance(command, str):
        return Unavailable(Why.NOT_SUPPORTED, "SGLang tells it from 0.5.20 on")
    try:
        return Value(shlex.split(command))
    except ValueError:
        return Value(command.split())


def _rank(arguments: dict[str, Json], state: dict[str, Json]) -> Iterator[tuple[str, Found]]:
    at_start = dict(named(arguments))
    now = named({name: value for name, value in state.items() if name in arguments})
    for name, value in now:
        if at_start.get(name) != value:
            yield path_of(".runtime_argument[]", name), Value(value)
    for name, source in _sources(state).items():
        yield path_of(".argument_source[]", name), Value(source)
    for name, value in named(_object(state.get("env_vars"))):
        yield path_of(".env[]", name), Value(str(value))
    for name, field in (("accept_length", "avg_spec_accept_length"), ("last_gen_throughput", "last_gen_throughput")):
        if _is_number(state.get(field)):
            yield f".{name}", Value(state[field])
    for size, steps in _object(state.get("step_time_dict")).items():
        seconds = [step for step in steps[:MAX_STEPS] if _is_number(step)] if isinstance(steps, list) else []
        if seconds:
            yield path_of(".step_seconds[]", size), Value(sorted(seconds)[len(seconds) // 2])
    if _is_count(state.get("effective_max_running_requests_per_dp")):
        yield ".max_running_requests_count", Value(state["effective_max_running_requests_per_dp"])
    yield from _memory(_object(state.get("memory_usage")))
    sizes = state.get("decode_cuda_graph_bs")
    if isinstance(sizes, list) and all(map(_is_count, sizes)):
        yield ".graph_batch_sizes", Value(sorted(sizes))
    else:
        yield ".graph_batch_sizes", Unavailable(Why.NOT_SUPPORTED, "this version of SGLang does not tell it here")


def _memory(usage: dict[str, Json]) -> Iterator[tuple[str, Found]]:
    """NOTE: what SGLang calls GB is GiB, rounded to hundredths."""
    graph = usage.get("graph")
    phases: list[Any] = list(graph.values()) if isinstance(graph, dict) else [graph]
    total = sum(phases) if phases and all(map(_is_number, phases)) else None
    sizes = {"weight": usage.get("weight"), "kv_cache": usage.get("kvcache"), "graph": total}
    for name, gib in sizes.items():
        if gib is not None and _is_number(gib):
            yield f".{name}_memory_bytes", Value(round(gib * _GIB))
    if _is_count(usage.get("token_capacity")):
        yield ".token_capacity_count", Value(usage["token_capacity"])


def _sources(state: dict[str, Json]) -> dict[str, str]:
    """Argument -> who gave it its value last: [[source, {argument: value}], ...] in the order of the writes."""
    found: dict[str, str] = {}
    for log in (state.get("_resolved_overrides"), state.get("_runtime_mutations")):
        for entry in log if isinstance(log, list) else ():
            if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str):
                found.update({name: entry[0] for name in _object(entry[1]) if name})
    return found


def _object(value: Json) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
