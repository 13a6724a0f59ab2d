"""Another process uses the GPU.

A server that was killed and lives on, a colleague's notebook, a monitoring tool that profiles: each takes time and
memory, and a benchmark beside it measures both. It is the neighbour that makes a false regression of 40 %.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.stories._look import numbers
from envsnap.explain.story import Clue, Facts, Finding, Together, View, after
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import Effect

CODE = "foreign_process"
NEEDS = ("during.gpu[].foreign_processes", "gpu[].process_names", "gpu_device[].holders", "gpu[].memory_used_bytes")

_ENGINES = ("EngineCore", "sglang::", "scheduler", "vllm", "VLLM::", "ray::", "trtllm")
_TAKEN = 1 << 30
"""GPU memory in use before a start, from which something else has it."""


def tell(view: View) -> Iterator[Finding]:
    """Yield neighbours on the slow side's GPUs."""
    foreign = [_names(facts, "during.gpu[].foreign_processes") for facts in view.sides]
    new = sorted(foreign[1] - foreign[0])
    changed = view.changed("during.gpu[].foreign_processes")
    beside = view.changed(
        "gpu[].process_names",
        "gpu_device[].holders",
        "gpu[].compute_process_count",
        "gpu[].mps_compute_process_count",
        "gpu[].memory_used_bytes",
    )
    if new and changed:
        orphan = " It looks like a server that was not ended." if any(map(_is_engine, new)) else ""
        yield Together(
            f"{', '.join(new[:3])} on the benchmark's GPUs",
            "Kernels of another process run in between, and take caches and memory.",
            (*changed, *beside),
            (Effect.COMPUTE, Effect.MEMORY, Effect.VALIDITY),
            (Evidence(f"Seen on the GPUs while the slow side ran, and not while the fast one did.{orphan}", STRONG),),
        )
        return
    memory = [
        c for c in beside if c.path.endswith("memory_used_bytes") and isinstance(after(c), int) and after(c) > _TAKEN
    ]
    if memory and _before_start(view.slow) and not new:
        yield Clue("GPU memory was taken before the server was started.", FAIR, tuple(memory))
    if both := foreign[0] & foreign[1]:
        # NOTE: from another container or name space the measured server's own ranks look foreign too.
        own = "Unless it is a rank of the measured server: end" if any(map(_is_engine, both)) else "End"
        yield Mistake(
            f"{', '.join(sorted(both)[:3])} used the GPUs on both sides",
            f"{own} it, or measure on other GPUs.",
            tuple(view.slow.values("during.gpu[].foreign_processes")),
        )


def _is_engine(name: str) -> bool:
    """Whether a process is called as engines call theirs."""
    return any(word in name for word in _ENGINES)


def _names(facts: Facts, key: str) -> set[str]:
    return {str(name) for value in facts.values(key).values() if isinstance(value, list) for name in value}


def _before_start(facts: Facts) -> bool:
    """Whether the snapshot is from before the server was started: no worker is in it."""
    return not facts.has("worker[].argv") and any(
        v > _TAKEN for v in numbers(facts, "gpu[].memory_used_bytes").values()
    )
