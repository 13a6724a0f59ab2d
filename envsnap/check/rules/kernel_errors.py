"""The kernel reported errors of PCIe, memory or CPU, or killed or lost processes, since boot.

Uncorrected PCIe errors lose transactions; corrected ones cost time when they come by the hundred; a killed process may
be a worker that was thought to run. Fix: the lines are in `dmesg`. The log needs root on many systems, and containers
do not show it.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "kernel_errors"
SEVERITY = WARNING
_TOLERATED = {
    "kernel_log.pcie_uncorrected_count": (0, "PCIe errors that were not corrected"),
    "kernel_log.pcie_corrected_count": (100, "corrected PCIe errors"),
    "kernel_log.nvidia_window_count": (0, "GPU memory windows (BARs) that the firmware did not map"),
    "kernel_log.machine_check_count": (0, "lines on hardware errors of CPU or memory"),
    "kernel_log.out_of_memory_count": (0, "processes killed for lack of memory"),
    "kernel_log.hung_task_count": (0, "reports of threads stuck in the kernel"),
}
NEEDS = tuple(_TOLERATED)


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for path, (tolerated, words) in _TOLERATED.items():
        count = facts.value(path)
        if count is not None and count > tolerated:
            yield Problem(f"{count} {words} since boot", (path,), "dmesg --level=err,warn")
