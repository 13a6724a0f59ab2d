"""The GPUs to be used are computing already.

NVML's utilization is the share of the last moments in which some kernel ran. Fix: find the program (`gpu_processes`
names it where it can), or wait for it with --wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, Problem

CODE = "gpu_busy"
SEVERITY = ERROR
NEEDS = ("gpu[].utilization_gpu_percent",)
PASSES_BY_WAITING = True

_PERCENT = 10


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (percent,), gpus in facts.gpus_by("utilization_gpu_percent"):
        if percent >= _PERCENT:
            yield Problem(f"{gpus}: {percent} % busy", gpus.paths("utilization_gpu_percent"), "Wait for it: --wait 60")
