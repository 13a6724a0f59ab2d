"""Whether traffic between devices goes over PCIe here."""

from __future__ import annotations

from envsnap.check.facts import Facts, NotApplicable

USES = ("platform.virtualization", "gpu_pair[].p2p_nvlink", "pci[].rdma_devices")


def on_bare_metal_over_pcie(facts: Facts) -> None:
    """Raises: NotApplicable in a virtual machine, and where NVLink joins all GPUs and no RDMA adapter is near."""
    if facts.value("platform.virtualization") not in (None, "none"):
        raise NotApplicable("a virtual machine: its host rules the IOMMU and needs ACS")
    used = set(facts.gpus.indices)
    pairs = [value for (pair,), _, value in facts.each("gpu_pair[].p2p_nvlink") if set(pair.split("/")) <= used]
    over_pcie = len(used) > 1 and not (pairs and all(value == "ok" for value in pairs))
    rdma = facts.wanted.nodes > 1 and bool(facts.all("pci[].rdma_devices"))
    if not (over_pcie or rdma):
        raise NotApplicable("no traffic between GPUs, or with a network adapter, goes over PCIe here")
