"""A virtual machine shows a flat PCI bus, and NCCL takes wrong paths.

Guests see no switches, no NUMA nodes of devices and no distances, so that NCCL treats all paths alike and half of
the traffic takes the long one, unless a file (NCCL_TOPO_FILE) tells it the host's topology. Moving to a virtual
machine, losing that file, or bringing the file of another machine type are changes of this kind.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import variable, variable_changes
from envsnap.explain.story import Clue, Facts, Finding, View, after
from envsnap.explain.weights import FAIR, STRONG, WEAK

CODE = "virtual_topology"
NEEDS = ("platform.virtualization", "pci[].numa_node")


def tell(view: View) -> Iterator[Finding]:
    """Yield a topology that a guest hides."""
    if view.setting.ranks == 1:
        return
    slow, fast = (_is_guest(facts) for facts in (view.slow, view.fast))
    moved = view.changed("platform.virtualization", "gpu[].virtualization_mode")
    nodes = [c for c in view.changed("pci[].numa_node") if after(c) is None]
    file = variable_changes(view, "NCCL_TOPO_FILE", "NCCL_TOPO_DUMP_FILE")
    if slow and fast is False and moved:
        hint = "" if variable(view.slow, "NCCL_TOPO_FILE") else ", and NCCL_TOPO_FILE tells NCCL nothing of it"
        yield Clue(
            f"The slow side runs in a virtual machine, which hides PCIe switches and NUMA nodes{hint}.",
            STRONG,
            (*moved, *nodes),
        )
    elif slow and (lost := [c for c in file if after(c) is None]):
        yield Clue("In a virtual machine NCCL knows the host's topology from that file alone.", STRONG, tuple(lost))
    elif slow and file:
        yield Clue("Another topology file: one of another machine type misleads NCCL.", FAIR, tuple(file))
    elif nodes:
        yield Clue("Devices no longer say which NUMA node they belong to.", WEAK, tuple(nodes))


def _is_guest(facts: Facts) -> bool | None:
    value = facts.get("platform.virtualization")
    return None if value is None else value not in ("none", "")
