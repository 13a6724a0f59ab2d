"""The server decodes without CUDA graphs, wholly or at some batch sizes.

Each step then launches every kernel by itself, and the CPU decides the speed: small batches take two to four times as
long. Engines switch graphs off for some options with one line in the log, and capture fewer sizes than requests may
run at once. Off by the command itself is a warning. Fix: leave out --disable-cuda-graph and --enforce-eager; raise
--cuda-graph-max-bs to the number of running requests.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem
from envsnap.check.rules import AFTER, _running

CODE = "graphs_on"
SEVERITY = ERROR
NEEDS = ("server[].engine",)
USES = (
    "server[].argument[]", "server[].dp[].graph_batch_sizes", "server[].dp[].graph_memory_bytes",
    "server[].dp[].max_running_requests_count", *_running.COMMAND,
)  # fmt: skip
WHEN = AFTER

_OFF = {"disable_cuda_graph": (True,), "enforce_eager": (True,), "disable_decode_cuda_graph": (True,),
        "cuda_graph_config.decode.backend": ("disabled",)}  # fmt: skip
_SWITCHES = ("disable_cuda_graph", "enforce_eager", "disable_decode_cuda_graph", "cuda_graph_backend_decode")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    servers = facts.all("server[].engine")
    if not servers:
        raise NotApplicable("no server was asked (--server)")
    on_purpose = _running.asked(facts).option(*_SWITCHES) is not None
    bases = [path.removesuffix(".engine") for path in servers]
    bases = [base for base in bases if facts.value(f"{base}.argument[device]") != "cpu"]
    if not bases:
        raise NotApplicable("the server runs on the CPU")
    for base in bases:
        off = [f"{base}.argument[{name}]" for name, values in _OFF.items()
               if facts.value(f"{base}.argument[{name}]") in values]  # fmt: skip
        empty = [p for _, p, size in facts.each("server[].dp[].graph_memory_bytes") if p.startswith(base) and size == 0]
        if off:
            told = " (by the command)" if on_purpose else ""
            yield Problem(
                f"decoding runs without CUDA graphs{told}", tuple(off), severity=WARNING if on_purpose else ""
            )
        elif empty:
            yield Problem("no CUDA graph was captured", tuple(empty))
    for (server, rank), path, sizes in facts.each("server[].dp[].graph_batch_sizes"):
        running = facts.value(f"server[{server}].dp[{rank}].max_running_requests_count")
        if sizes and running is not None and running > max(sizes):
            yield Problem(f"up to {running} requests run at once, graphs go up to {max(sizes)}", (path,),
                          f"--cuda-graph-max-bs {running}", WARNING)  # fmt: skip
