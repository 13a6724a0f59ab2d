"""A GPU's PCIe link uses fewer lanes than GPU and slot have in common.

Half the lanes are half the bandwidth between host and GPU, and between GPUs without NVLink. Unlike the generation, the
width does not go down while a GPU is idle. It matters for tensor parallelism and offloading, hardly for a model that
one GPU holds: an error where the command takes several GPUs or offloads, else a warning. Fix: reseat the board or
riser; check bifurcation in the firmware.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "link_width"
SEVERITY = WARNING
NEEDS = ("gpu[].pcie_width_lanes", "gpu[].max_pcie_width_lanes")

_OFFLOADS = ("cpu_offload_gb", "enable_hierarchical_cache", "swap_space", "kv_offloading_size")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    matters = facts.wanted.gpus > 1 or facts.wanted.option(*_OFFLOADS) is not None
    for (width, most), gpus in facts.gpus_by("pcie_width_lanes", "max_pcie_width_lanes"):
        if 0 < width < most:
            yield Problem(
                f"{gpus}: {width} of {most} PCIe lanes",
                gpus.paths("pcie_width_lanes"),
                "Reseat the board or riser; check bifurcation in the firmware.",
                ERROR if matters else "",
            )
