"""PCIe links of GPUs or network adapters have lost or repeated packets.

Errors that lost a transaction end programs; a link that repeats packets by the thousand is slow without a word. Fix:
reseat board, riser or cable, update the firmware, try another slot. Virtual machines do not show these counters.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "pcie_errors"
SEVERITY = WARNING
_TOLERATED = {"pci[].aer_fatal_count": 0, "pci[].aer_nonfatal_count": 10, "pci[].aer_correctable_count": 1000,
              "gpu[].pcie_replay_count": 1000}  # fmt: skip
NEEDS = tuple(_TOLERATED)
ABSENCE_IS_JUDGED = True  # which of them exist depends on kernel and hypervisor


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    if not any(facts.all(pattern) for pattern in NEEDS):
        raise NotApplicable("no PCIe error counter is shown here")
    for pattern, tolerated in _TOLERATED.items():
        words = pattern.rpartition(".")[2].removesuffix("_count").replace("_", " ").replace("aer ", "")
        for (name,), path, count in facts.each(pattern):
            if count > tolerated:
                where = f"GPU {name}" if pattern.startswith("gpu[") else f"PCI device {name}"
                yield Problem(f"{where}: {count:,} {words} errors", (path,), "Reseat the board, riser or cable.")
