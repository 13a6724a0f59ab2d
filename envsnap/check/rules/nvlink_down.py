"""NVLinks are down that the board should have, or limited in bandwidth.

Boards without NVLink are not judged, and a single GPU of a bridged or switched board may have none. Judged are boards
whose number of links is known, GPUs of one model that differ, and the driver's own limits. Fix: `nvidia-smi nvlink -s`,
the kernel log (Xid 74), the Fabric Manager's log; without a module option NvLinkDisable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, Problem

CODE = "nvlink_down"
SEVERITY = ERROR
NEEDS = ("gpu[].nvlink_active_count",)
USES = ("gpu[].name", "nvml.nvlink_bandwidth_mode", "nvidia.module[].parameter[]")

_LINKS = (
    (re.compile(r"V100-SXM"), 6),
    (re.compile(r"A100-SXM4"), 12),
    (re.compile(r"H100 80GB HBM3|H200\Z|H20\Z|GB?[23]00\b|B[23]00\b"), 18),
)


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    several = len(facts.gpus) > 1
    counts: dict[str, set[int]] = {}
    for (name, count), gpus in facts.gpus_by("name", "nvlink_active_count"):
        should = next((links for pattern, links in _LINKS if pattern.search(str(name))), None)
        if should and count < should and (count or several):
            yield Problem(f"{gpus}: {count} of {should} NVLinks are up", gpus.paths("nvlink_active_count"),
                          "nvidia-smi nvlink -s; dmesg | grep -i nvlink")  # fmt: skip
        if not should:
            counts.setdefault(str(name), set()).add(count)
    for name, found in counts.items():
        if len(found) > 1:
            told = " and ".join(map(str, sorted(found)))
            yield Problem(f"{name}: GPUs with {told} NVLinks up", facts.gpus.paths("nvlink_active_count"))
    if facts.value("nvml.nvlink_bandwidth_mode") not in (None, "full"):
        mode = facts.value("nvml.nvlink_bandwidth_mode")
        yield Problem(f"all NVLinks are limited to {mode} bandwidth", ("nvml.nvlink_bandwidth_mode",))
    for (_, option), path, value in facts.each("nvidia.module[].parameter[]"):
        if option == "NvLinkDisable" and value:
            yield Problem("the driver's module was told to leave NVLink off", (path,))
