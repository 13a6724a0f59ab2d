"""Memory of the GPUs to be used is taken before anything was started.

What is used by an orphan is missing for weights and KV cache: the server starts with a smaller cache, or not at all.
Fix: end what holds it; where nothing is listed, a container or another user does, or the GPU needs a reset. What a
display takes counts as a warning.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "gpu_memory"
SEVERITY = ERROR
NEEDS = ("gpu[].memory_used_bytes", "gpu[].memory_total_bytes")
USES = ("gpu[].graphics_process_count", "gpu[].compute_process_count")
PASSES_BY_WAITING = True

_SHARE, _BYTES = 0.02, 1 << 30  # contexts of monitors and daemons stay below


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    names = ("memory_used_bytes", "memory_total_bytes", "graphics_process_count", "compute_process_count")
    for (used, total, graphics, compute), gpus in facts.gpus_by(*names):
        if used > max(_BYTES, _SHARE * total):
            yield Problem(
                f"{gpus}: {used / 2**30:.1f} of {total / 2**30:.0f} GiB are in use",
                gpus.paths("memory_used_bytes"),
                "End what holds it: nvidia-smi; fuser -v /dev/nvidia*",
                WARNING if graphics and not compute else "",
            )
