"""A worker runs, or takes its memory, on another NUMA node than its GPU's.

Launches, pinned buffers and offloaded layers then cross the link between sockets. Engines bind by themselves where
they may (numactl present, the capability sys_nice, no seccomp filter in the way) and skip it with a line in the log
where they may not: the same configuration decoded in 14 ms bound and 70 ms unbound.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import argument_changes, cpus, variable, variable_changes
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of, path_of

CODE = "numa_far"
NEEDS = ("gpu[].cpu_affinity", "worker[].cpus")

_BINDING = ("worker[].cpus", "worker[].cpus_count", "worker[].numa_policy", "worker[].memory_nodes", "cgroup.cpus",
            "cgroup.memory_nodes", "inherited.cpus", "inherited.memory_nodes")  # fmt: skip
_LAYOUT = ("numa.nodes", "numa[].cpus", "gpu[].cpu_affinity")
_RIGHTS = ("worker[].capabilities", "worker[].seccomp", "inherited.capabilities", "inherited.seccomp")
_VARIABLES = ("SGLANG_*NUMA*", "SGLANG_SET_CPU_AFFINITY", "VLLM_*NUMA*", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


def tell(view: View) -> Iterator[Finding]:
    """Yield ranks that are no longer near their GPUs."""
    if _nodes(view.slow) < 2:
        return
    far, then = _far(view.slow), _far(view.fast)
    unbound = _unbound(view.slow) and not _unbound(view.fast)
    binding = [*view.changed(*_BINDING), *variable_changes(view, *_VARIABLES), *argument_changes(view, "numa_node*")]
    if (set(far) - set(then)) or unbound:
        rights = view.changed(*_RIGHTS)
        # NOTE: what is bound as before may be far since the nodes are cut otherwise.
        changes = (*(binding or view.changed(*_LAYOUT)), *rights)
        what = (
            f"{', '.join(far[:4])} run on another node than their GPU"
            if far
            else "The ranks are no longer bound to nodes"
        )
        yield Clue(
            f"{what}{', and what binding needs changed too' if rights else ''}.", STRONG if far else FAIR, changes
        )
    elif far and then:
        yield Mistake(
            f"{', '.join(far[:4])} run on another NUMA node than their GPU on both sides",
            "Start them with numactl, or let the engine bind (numactl, sys_nice).",
            tuple(path_of("worker[].cpus", role) for role in far),
        )


def _nodes(facts: Facts) -> int:
    return len(facts.values("numa[].cpus"))


def _far(facts: Facts) -> list[str]:
    """Ranks whose CPUs are none of those near their GPU."""
    found = []
    for number, role in enumerate(ranks(facts)):
        gpu = _gpu_of(facts, role, number)
        near = cpus(facts.get(path_of("gpu[].cpu_affinity", gpu)))
        own = cpus(facts.get(path_of("worker[].cpus", role)))
        if near and own and not near & own:
            found.append(role)
    return found


def _gpu_of(facts: Facts, role: str, number: int) -> str:
    """The GPU of a rank: by its record, else by its number among those that are visible."""
    told = facts.get(path_of("record[].rank[]", role, "gpu_id"))
    visible = variable(facts, "CUDA_VISIBLE_DEVICES") or ""
    index = told if isinstance(told, int) else number
    names = [part.strip() for part in visible.split(",") if part.strip().isdecimal()]
    return names[index] if index < len(names) else str(index)


def _unbound(facts: Facts) -> bool:
    """Whether each rank may run on the CPUs of all nodes."""
    nodes = [cpus(v) for v in facts.values("numa[].cpus").values()]
    everywhere = [cpus(v) for p, v in facts.values("worker[].cpus").items() if instances_of(p)[0] in ranks(facts)]
    return len(nodes) > 1 and bool(everywhere) and all(all(own & node for node in nodes if node) for own in everywhere)
