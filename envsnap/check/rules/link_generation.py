"""A busy GPU's PCIe link runs below the generation that GPU and slot have in common.

Many boards go down to generation 1 while idle, which is no fault: only a GPU that computes is judged. A link that stays
down under load carries a half, a quarter or less, with no error anywhere. Fix: reboot or reseat; in the firmware, set
the slot's generation by hand; look for `pcie_aspm`.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, NotApplicable, Problem

CODE = "link_generation"
SEVERITY = ERROR
NEEDS = ("gpu[].pcie_generation", "gpu[].max_pcie_generation", "gpu[].utilization_gpu_percent")

_BUSY_PERCENT = 50


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    names = ("pcie_generation", "max_pcie_generation", "utilization_gpu_percent")
    groups = [(values, gpus) for values, gpus in facts.gpus_by(*names) if values[2] >= _BUSY_PERCENT]
    if not groups:
        raise NotApplicable("the GPUs are idle, and the generation of an idle link means nothing")
    for (now, most, _), gpus in groups:
        if now < most:
            yield Problem(f"{gpus}: PCIe generation {now} of {most} under load", gpus.paths("pcie_generation"))
