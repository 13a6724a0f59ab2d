"""The firmware cuts the sockets into other NUMA nodes.

NPS and sub-NUMA clustering divide a socket's cores and memory channels into nodes. With more nodes, who is bound to one
has a part of the channels and meets its GPU across another boundary; with fewer, memory is farther away on average. CPU
lists, the nodes of GPUs and adapters, and what launchers bind by node follow from it: one change of the firmware's
settings, which no version shows.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Evidence
from envsnap.explain.homes import home_of
from envsnap.explain.story import Facts, Finding, Together, View
from envsnap.explain.weights import FAIR
from envsnap.keys import Effect

CODE = "numa_layout"
NEEDS = ("numa.nodes", "numa[].cpus")

_BOUND = ("worker[].cpus", "worker[].cpus_count", "worker[].memory_nodes", "worker[].numa_policy", "inherited.cpus",
          "inherited.cpus_count", "inherited.memory_nodes", "cgroup.cpus", "cgroup.memory_nodes")  # fmt: skip
_ANOTHER_MACHINE = ("cpu.model", "cpu.sockets_count", "platform.product", "platform.virtualization")


def tell(view: View) -> Iterator[Finding]:
    """Yield another number of nodes on the same machine, with what is bound by node."""
    then, now = (_nodes(facts) for facts in view.sides)
    if not then or not now or then == now or view.changed(*_ANOTHER_MACHINE):
        return
    yield Together(
        f"NUMA layout: {now} nodes, not {then}, as the firmware cuts the sockets",
        "Memory, GPUs and adapters are nearer to or farther from the CPUs that use them, and a node has another share "
        "of the memory channels.",
        (*(c for c in view.changes if home_of(c) == "numa:layout"), *view.changed(*_BOUND)),
        (Effect.MEMORY, Effect.HOST_LAUNCH, Effect.COMMUNICATION),
        (Evidence("The same machine shows another number of NUMA nodes: a setting such as NPS or sub-NUMA clustering "
                  "was changed in its firmware.", FAIR),),
    )  # fmt: skip


def _nodes(facts: Facts) -> int:
    return len(facts.values("numa[].cpus"))
