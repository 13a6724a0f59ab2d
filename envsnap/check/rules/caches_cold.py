"""Kernels would be compiled or tuned within the measurement: the engine's caches are empty.

The first requests then take tens of seconds, and what autotuning finds differs from start to start. Fix: one discarded
run with the same batch sizes and lengths before the measured one.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "caches_cold"
SEVERITY = WARNING
NEEDS = ("cache[].warm",)

_OF = {
    "sglang": ("triton", "inductor", "flashinfer", "sglang/"),
    "vllm": ("triton", "inductor", "flashinfer", "vllm"),
}


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    names = _OF.get(facts.wanted.engine)
    if names is None or not facts.wanted.gpus:
        raise NotApplicable("no command starts an engine on GPUs")
    warm = {path: value for (name,), path, value in facts.each("cache[].warm") if name.startswith(names)}
    if warm and not any(warm.values()):
        yield Problem(f"all {len(warm)} caches of {facts.wanted.engine} are empty", tuple(warm), "Warm up first.")
