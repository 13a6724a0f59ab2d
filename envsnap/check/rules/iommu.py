"""An IOMMU translates the addresses of GPUs that talk to each other over PCIe.

On bare metal that sends peer-to-peer traffic through the root complex, slow or, with some kernels, wrong or hanging. In
a virtual machine it is needed. Fix: boot with iommu=pt (or intel_iommu=off, amd_iommu=off).
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem
from envsnap.check.rules import _peer_traffic

CODE = "iommu"
SEVERITY = WARNING
NEEDS = ("pci[].iommu_type",)
USES = _peer_traffic.USES


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    _peer_traffic.on_bare_metal_over_pcie(facts)
    found = {path: value for (name,), path, value in facts.each("pci[].iommu_type")
             if name.startswith("gpu") and "/" not in name and str(value).startswith("DMA")}  # fmt: skip
    if found:
        yield Problem(f"the IOMMU translates for {len(found)} GPUs ({', '.join(sorted(set(found.values())))})",
                      tuple(found), "Boot with iommu=pt")  # fmt: skip
