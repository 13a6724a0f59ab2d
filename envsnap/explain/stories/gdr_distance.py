"""GPUDirect RDMA over a host bridge is slower than none.

Where GPU and adapter share a PCIe switch, RDMA into GPU memory saves a copy. Over a host bridge (PHB) or between
sockets it is bound by reads that the CPU passes on, and plain RDMA through host memory is faster: switching it on
is then a regression, however right it looks.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import variable_changes
from envsnap.explain.story import Clue, Facts, Finding, View, after, before
from envsnap.explain.weights import FAIR
from envsnap.keys import instances_of

CODE = "gdr_distance"
NEEDS = ("rdma.peer_memory_loaded", "nccl.rank[].gpu_direct_rdma", "pci[].rdma_devices")

_FAR = {"PHB", "NODE", "SYS", "3", "4", "5"}


def tell(view: View) -> Iterator[Finding]:
    """Yield direct RDMA that was switched on between devices without a switch in common."""
    if view.setting.hosts == 1 or _share_switch(view.slow) is not False:
        return
    found = [c for c in view.changed("rdma.peer_memory_loaded", "nccl.rank[].gpu_direct_rdma") if after(c) is True]
    found += [
        c
        for c in variable_changes(view, "NCCL_NET_GDR_LEVEL")
        if str(after(c)).upper() in _FAR and str(before(c)).upper() not in _FAR
    ]
    if found:
        yield Clue(
            "GPUs and RDMA adapters have no PCIe switch in common: direct RDMA goes over the host bridge, where it "
            "is often slower than through host memory.",
            FAIR,
            tuple(found),
        )


def _share_switch(facts: Facts) -> bool | None:
    """Whether some adapter hangs on the same bridge as a GPU; None where bridges are not known."""
    above: dict[str, set[str]] = {"gpu": set(), "nic": set()}
    for path, address in facts.values("pci[].address").items():
        name, _, place = instances_of(path)[0].partition("/")
        if place.startswith("up") and name[:3] in above:
            above[name[:3]].add(str(address))
    if not above["gpu"] or not above["nic"]:
        return None
    roots = {str(a) for p, a in facts.values("pci[].address").items() if _is_last(facts, instances_of(p)[0])}
    return bool((above["gpu"] & above["nic"]) - roots)


def _is_last(facts: Facts, name: str) -> bool:
    """Whether a bridge is the root port: no further one stands above it."""
    owner, _, place = name.partition("/up")
    return place.isdecimal() and f"pci[{owner}/up{int(place) + 1}].address" not in facts.snapshot.values
