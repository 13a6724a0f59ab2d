"""Expandable memory segments are on with tensor parallelism.

Custom all-reduce kernels share memory with other ranks in a way that such segments do not support: engines then fall
back to NCCL, or fail when they capture graphs. Fix: take expandable_segments out of PYTORCH_CUDA_ALLOC_CONF.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "expandable_segments"
SEVERITY = WARNING
NEEDS = ("env[]",)


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    if (facts.wanted.tensor_parallel or 1) < 2:
        raise NotApplicable("no command asks for tensor parallelism")
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        value = facts.env(name) or ""
        if "expandable_segments:true" in value.lower().replace(" ", ""):
            yield Problem(f"{name}={value[:80]}", (f"env[{name}]",), f"unset {name}")
