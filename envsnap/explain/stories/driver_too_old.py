"""The driver is older than what the CUDA runtime needs.

An engine that brings a newer CUDA with it falls back: to the CPU, to compatibility code, to kernels compiled at run
time. The log says that the driver is too old, and speed, clocks and utilization fall together.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from envsnap.explain.explanation import Mistake
from envsnap.explain.stories._look import package_changes, version
from envsnap.explain.story import Clue, Facts, Finding, View, after, before
from envsnap.explain.weights import FAIR, STRONG

CODE = "driver_too_old"
_BADLY = 2.0
NEEDS = ("nvml.cuda_driver_version", "record[].torch.cuda_version", "worker[].library[].version")


def tell(view: View) -> Iterator[Finding]:
    """Yield a runtime that the driver is too old for."""
    older = [
        c
        for c in view.changed("nvml.driver_version", "nvidia.module_version")
        if version(after(c))[:1] < version(before(c))[:1]
    ]
    if older:
        text = f"The driver is of an older branch ({after(older[0])}, not {before(older[0])}), which few go back to"
        # NOTE: where something is missing it fails, or another way is taken that is many times slower.
        badly = view.symptom.failure or (view.symptom.slowdown or 0.0) >= log(_BADLY)
        yield Clue(f"{text}: what newer libraries count on is missing.", FAIR if badly else 0.0, tuple(older))
    old = [_too_old(facts) for facts in view.sides]
    if not old[1]:
        return
    changes = [
        *view.changed(
            "nvml.cuda_driver_version",
            "nvml.driver_version",
            "nvidia.module_version",
            "nvidia.cuda_compat_versions",
            "record[].torch.cuda_version",
            "record[].engine_version",
            "server[].version",
        ),
        *[c for c in view.changed("worker[].library[].version") if "[cuda_" in c.path],
        *package_changes(view, "torch", "nvidia-cuda-runtime*", "sglang", "vllm"),
    ]
    if not old[0] and changes:
        yield Clue(f"{old[1]}.", STRONG, tuple(changes))
    elif old[0]:
        yield Mistake(
            f"{old[1]}, on both sides",
            "Update the driver, or install a build for its CUDA.",
            ("nvml.cuda_driver_version",),
        )


def _too_old(facts: Facts) -> str:
    """In words, where the runtime is of a newer major CUDA than the driver runs; empty where not, or not known."""
    driver = version(facts.get("nvml.cuda_driver_version"))
    runtimes = [version(v) for v in facts.values("record[].torch.cuda_version").values()]
    runtimes += [version(v) for p, v in facts.values("worker[].library[].version").items() if "[cuda_runtime/" in p]
    newest = max((r for r in runtimes if r), default=())
    # NOTE: within one major version a runtime works with an older driver.
    if not driver or not newest or newest[0] <= driver[0] or facts.get("nvidia.cuda_compat_versions"):
        return ""
    return f"The runtime is of CUDA {newest[0]}, and the driver runs CUDA {driver[0]} at most"
