"""The GPUs to be used are not alike.

Ranks wait for the slowest: another model or memory size among them decides the speed of all, and so do another power
limit, ECC mode or video BIOS to a lesser degree. Fix: choose equal GPUs with CUDA_VISIBLE_DEVICES; set limits alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "gpus_alike"
SEVERITY = WARNING
NEEDS = ("gpu[].name",)
USES = (
    "gpu[].memory_total_bytes", "gpu[].enforced_power_limit_watts", "gpu[].ecc_mode", "gpu[].vbios_version",
    "gpu[].mig_mode", "gpu[].max_sm_clock_mhz", "gpu[].max_pcie_width_lanes",
)  # fmt: skip

_TOGETHER = ("name", "memory_total_bytes")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    facts.some_gpus(at_least=2)
    for name in ("name", *(pattern.rpartition(".")[2] for pattern in USES)):
        groups = [(value, gpus) for (value,), gpus in facts.gpus_by(name) if value is not None]
        if len(groups) > 1:
            said = ", ".join(f"{gpus} {value}" for value, gpus in groups)
            severity = ERROR if name in _TOGETHER and facts.wanted.gpus > 1 else ""
            yield Problem(f"{name} differs: {said}", facts.gpus.paths(name), severity=severity or WARNING)
