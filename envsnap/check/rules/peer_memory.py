"""Network adapters cannot reach GPU memory directly (GPUDirect RDMA).

Traffic between machines is then copied through host memory. NVIDIA's open kernel module offers DMA-BUF instead, which
needs nothing loaded; a command that stays on one machine does not need it. Fix: `modprobe nvidia_peermem`.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "peer_memory"
SEVERITY = WARNING
NEEDS = ("rdma.peer_memory_loaded", "rdma.devices_count")
USES = ("nvidia.module_flavour", "rdma.peer_memory[].version")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    facts.some_gpus()
    if not facts.value("rdma.devices_count"):
        raise NotApplicable("no RDMA device is here")
    if facts.wanted.engine and facts.wanted.nodes < 2:
        raise NotApplicable("the command stays on one machine")
    registered = facts.value("rdma.peer_memory_loaded") or facts.all("rdma.peer_memory[].version")
    if not registered and facts.value("nvidia.module_flavour") != "open":
        yield Problem("no module registers GPU memory for RDMA", ("rdma.peer_memory_loaded",),
                      "modprobe nvidia_peermem")  # fmt: skip
