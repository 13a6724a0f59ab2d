"""GPUDirect RDMA is forced between GPUs and network adapters that no PCIe switch joins.

By itself NCCL reads GPU memory directly only through switches; NCCL_NET_GDR_LEVEL can make it do so through the root
complex or the other socket, where such reads are often slower than a copy through host memory. Fix: unset it, and
measure before you set it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "gdr_distance"
SEVERITY = WARNING
NEEDS = ("pci[].address",)
USES = ("nccl.conf[].set[]",)

LEVEL = "NCCL_NET_GDR_LEVEL"
_BEYOND_SWITCHES = ("PHB", "SYS", "3", "4", "5")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    in_file = next((str(v) for (_, name), _, v in facts.each("nccl.conf[].set[]") if name == LEVEL), None)
    level = facts.env(LEVEL) or in_file
    above: dict[str, set[str]] = {}
    for (name,), _, address in facts.each("pci[].address"):
        device, _, step = name.partition("/")
        above.setdefault(device, set())
        if step:
            above[device].add(str(address))
    gpus = [device for device in above if device.startswith("gpu")]
    adapters = [device for device in above if device.startswith("nic")]
    if level is None or not gpus or not adapters:
        raise NotApplicable("no GPUs and RDMA adapters, or NCCL decides by itself")
    apart = [gpu for gpu in gpus if not any(_joined(above[gpu], above[adapter]) for adapter in adapters)]
    if level.upper() in _BEYOND_SWITCHES and apart:
        yield Problem(f"{LEVEL}={level}: {', '.join(apart)} share no PCIe switch with an adapter",
                      tuple(f"pci[{gpu}].address" for gpu in apart), f"unset {LEVEL}")  # fmt: skip


def _joined(one: set[str], other: set[str]) -> bool:
    """NOTE: one common bridge is the root port, which a switch below it has too: two mean a switch."""
    return len(one & other) >= 2
