"""SGLang's scheduler: when it is ready, its resolved arguments and who resolved them, its ranks, its CUDA graphs.

Its names here are private to it, and differ between versions (0.5.12 to 0.5.23 were read): each is looked for, and
left out where it is not.
"""

from __future__ import annotations

import sys
from typing import Any

from envsnap.integrations import process, recorder
from envsnap.integrations.plain import plain

READY = (
    "sglang.srt.managers.scheduler.Scheduler.run_event_loop",
    "sglang.srt.managers.detokenizer_manager.DetokenizerManager.event_loop",
    "sglang.srt.managers.data_parallel_controller.DataParallelController.event_loop",
)
"""Methods that run once, when all is loaded, connected and captured, and that return only at the end."""

RANKS = ("tp_rank", "pp_rank", "dp_rank", "attn_tp_rank", "attn_dp_rank", "attn_cp_rank", "moe_ep_rank", "gpu_id")

RUNNERS = {
    "decode": ("tp_worker.model_runner.decode_cuda_graph_runner", "tp_worker.model_runner.graph_runner"),
    "draft": ("draft_worker.draft_worker.cuda_graph_runner", "draft_worker.cuda_graph_runner"),
    "draft_extend": (
        "draft_worker.draft_worker.cuda_graph_runner_for_draft_extend",
        "draft_worker.cuda_graph_runner_for_draft_extend",
    ),
}
"""Where the runners of captured CUDA graphs have been seen, from the scheduler on."""


def hook() -> None:
    """Ask SGLang to say when it is ready. Called while it loads plug-ins, in each of its processes that does so."""
    try:
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType

        for target in READY:
            module, kind, method = target.rsplit(".", 2)
            # NOTE: a hook makes SGLang import what it is on; only what is loaded anyway may have one.
            if hasattr(getattr(sys.modules.get(module), kind, None), method):
                HookRegistry.register(target, _before, HookType.BEFORE)
                if process.is_spawned():
                    recorder.expect_ready()
    except Exception as error:
        recorder.failed("hook", error)  # the settle time stands in for it


def _before(*arguments: Any, **named: Any) -> None:
    try:
        worker = arguments[0] if arguments else None
        recorder.ready("sglang", lambda: facts(worker))
    except Exception as error:
        recorder.failed("ready", error)


def facts(worker: Any) -> dict[str, Any]:
    """What the scheduler knows of itself."""
    found: dict[str, Any] = {"name": "sglang", "version": _at(sys.modules.get("sglang"), "__version__")}
    arguments = getattr(worker, "server_args", None)
    if arguments is not None:
        found["server_args"] = plain(_resolved(arguments))
        found["typed_args"] = plain(getattr(arguments, "_raw_input", None))
        found["launch_command"] = plain(getattr(arguments, "_launch_command", None))
        found["resolved_by"] = _sources(arguments)
    found["ranks"] = _ranks(worker)
    found["graph_batch_sizes"] = _graphs(worker)
    return found


def _context() -> Any:
    get = _at(sys.modules.get("sglang.srt.runtime_context"), "get_context")
    return get() if callable(get) else None


def _resolved(arguments: Any) -> dict[str, Any]:
    """Every argument's value as it holds in this process now."""
    resolved = getattr(_context(), "resolved_server_args_dict", None)
    if callable(resolved):
        try:
            return dict(resolved())
        except Exception:
            pass
    # Beside its fields it keeps notes of its own, and the model's whole configuration.
    fields = getattr(type(arguments), "__dataclass_fields__", vars(arguments))
    return {name: value for name, value in vars(arguments).items() if name in fields and not name.startswith("_")}


def _sources(arguments: Any) -> dict[str, str]:
    """Argument -> who gave it its value last, other than the one who typed it."""
    log: list[tuple[str, dict[str, Any]]] = []
    for name in ("_resolved_overrides", "_runtime_mutations"):
        log += getattr(arguments, name, None) or ()
    changes = getattr(_context(), "overrides_log", None)
    if callable(changes):
        log += changes()
    return {str(name): str(source) for source, fields in log for name in fields}


def _ranks(worker: Any) -> dict[str, int]:
    """Which part of the model this process holds, and on which GPU."""
    parallel = _at(sys.modules.get("sglang.srt.runtime_context"), "get_parallel")
    places = (worker, _at(worker, "ps"), parallel() if callable(parallel) else None)
    found = {}
    for name in RANKS:
        values = (_at(place, name) for place in places)
        found.update(next(({name: value} for value in values if type(value) is int), {}))
    return found


def _graphs(worker: Any) -> dict[str, list[int]]:
    """The batch sizes that CUDA graphs were captured for, by phase; a phase without graphs is not in it."""
    found = {}
    for phase, places in RUNNERS.items():
        for place in places:
            sizes = _at(worker, place + ".capture_bs")
            if isinstance(sizes, (list, tuple)) and all(type(size) is int for size in sizes):
                found[phase] = sorted(sizes)
                break
    return found


def _at(value: Any, path: str) -> Any:
    """What is found on that path of attributes, or None: also where one of them refuses to answer."""
    try:
        for name in path.split("."):
            value = getattr(value, name, None)
    except Exception:
        return None
    return value
