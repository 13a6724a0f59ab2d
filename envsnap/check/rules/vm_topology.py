"""A virtual machine hides which GPU is near which network adapter, and NCCL was given no map.

Without the PCIe switches of the host NCCL takes all paths for equal, and half of them are slow. Judged where several
GPUs and several RDMA adapters are here, on several machines. Fix: NCCL_TOPO_FILE with the cloud's file for this
machine type.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem
from envsnap.keys import instances_of

CODE = "vm_topology"
SEVERITY = WARNING
NEEDS = ("pci[].id", "platform.virtualization")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    names = [instances_of(path)[0] for path in facts.all("pci[].id")]
    adapters = [n for n in names if n.startswith("nic") and "/" not in n]
    gpus = [n for n in names if n.startswith("gpu") and "/" not in n]
    if facts.value("platform.virtualization") == "none" or len(gpus) < 2 or len(adapters) < 2:
        raise NotApplicable("no virtual machine with several GPUs and RDMA adapters")
    if facts.wanted.engine and facts.wanted.nodes < 2:
        raise NotApplicable("the command stays on one machine")
    switched = any(name.endswith("/up2") for name in names)
    if not switched and not facts.env("NCCL_TOPO_FILE"):
        path = (f"pci[{adapters[0]}].id",)
        yield Problem("GPUs and adapters hang on one flat bus, and NCCL_TOPO_FILE is not set", path,
                      "Set NCCL_TOPO_FILE to the cloud's file for this machine type.")  # fmt: skip
