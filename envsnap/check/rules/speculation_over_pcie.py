"""Speculative decoding with tensor parallelism over PCIe.

Each step adds all-reduces of a draft model that computes for microseconds; without NVLink they can cost more than
speculation gains. Fix: measure without speculation too; keep the draft on one rank where the engine can; fewer steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "speculation_over_pcie"
SEVERITY = WARNING
NEEDS = ("gpu_pair[].p2p_nvlink",)


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    if not facts.wanted.algorithm or (facts.wanted.tensor_parallel or 1) < 2:
        raise NotApplicable("no command asks for speculative decoding with tensor parallelism")
    used = set(facts.gpus.indices)
    without = [path for (pair,), path, value in facts.each("gpu_pair[].p2p_nvlink")
               if set(pair.split("/")) <= used and value != "ok"]  # fmt: skip
    if without:
        yield Problem(f"{facts.wanted.algorithm} over {facts.wanted.tensor_parallel} ranks, {len(without)} pairs of "
                      "GPUs without NVLink", tuple(without))  # fmt: skip
