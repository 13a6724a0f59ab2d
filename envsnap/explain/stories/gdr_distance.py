"""GPUDirect RDMA over a host bridge is slower than none.

Where GPU and adapter share a PCIe switch, RDMA into GPU memory saves a copy. Over a host bridge (PHB) or between
sockets it is bound by reads that the CPU passes on, and plain RDMA through host memory is faster: switching it on
is then a regression, however right it looks.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Evidence
from envsnap.explain.stories._look import variable_changes
from envsnap.explain.story import Facts, Finding, Together, View, after, before
from envsnap.explain.weights import STRONG
from envsnap.keys import Effect, instances_of

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
        yield Together(
            "direct RDMA over the host bridge",
            "Adapters read GPU memory through the CPU, which passes such reads on slowly.",
            tuple(found),
            (Effect.COMMUNICATION,),
            (
                Evidence(
                    "GPUs and RDMA adapters have no PCIe switch in common, where direct RDMA is often slower than "
                    "through host memory.",
                    STRONG,
                ),
            ),
        )


def _share_switch(facts: Facts) -> bool | None:
    """Whether some adapter hangs on the same switch as a GPU; None where bridges are not known."""
    levels: dict[str, set[str]] = {}
    for path in facts.snapshot.values:
        if path.startswith("pci["):
            owner, _, level = instances_of(path)[0].partition("/up")
            levels.setdefault(owner, set()).update({level} - {""})
    gpus = [found for owner, found in levels.items() if owner.startswith("gpu")]
    if not any(gpus) or not (facts.has("rdma.devices_count") or any(owner.startswith("nic") for owner in levels)):
        return None
    # NOTE: the last bridge is the root port; whoever has that one alone hangs on no switch.
    if all(len(found) <= 1 for found in gpus):
        return False
    above = {kind: _switches(facts, levels, kind) for kind in ("gpu", "nic")}
    return bool(above["gpu"] & above["nic"]) if above["gpu"] and above["nic"] else None


def _switches(facts: Facts, levels: dict[str, set[str]], kind: str) -> set[str]:
    """The addresses of the bridges above devices of a kind, without root ports."""
    places = [
        f"pci[{owner}/up{level}].address"
        for owner, found in levels.items()
        if owner.startswith(kind)
        for level in found
        if level.isdecimal() and str(int(level) + 1) in found
    ]
    return {str(address) for place in places if (address := facts.get(place)) is not None}
