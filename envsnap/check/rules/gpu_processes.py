"""Other programs have CUDA contexts on the GPUs to be used.

They take time, memory and power from the benchmark: often what is left of an earlier run, whose workers outlive their
launcher. Fix: end them (`nvidia-smi` lists their ids; `fuser -v /dev/nvidia*` those it does not know), or choose other
GPUs with CUDA_VISIBLE_DEVICES. An MPS server counts as none.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, Problem
from envsnap.check.rules._processes import foreign

CODE = "gpu_processes"
SEVERITY = ERROR
NEEDS = ("gpu[].compute_process_count", "gpu[].process_names")
PASSES_BY_WAITING = True


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (count, names), gpus in facts.gpus_by("compute_process_count", "process_names"):
        others = foreign(names)
        unnamed = max(0, count - len(names))  # in a container NVML may count what it cannot name
        if count and (others or unnamed):
            who = ", ".join(sorted(set(others))) or "processes that cannot be named from here"
            yield Problem(
                f"{gpus}: {who} ({count} with a CUDA context)",
                gpus.paths("compute_process_count", "process_names"),
                "End them, or use other GPUs: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
            )
