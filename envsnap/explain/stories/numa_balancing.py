"""The kernel moves pages between NUMA nodes while the engine works.

It unmaps pages to see who touches them, so that a launching or polling thread faults in the middle of a step: some
140 faults a minute with a worst case of 16 to 31 ms were measured, and none with it off.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.story import Clue, Finding, View, after, before
from envsnap.explain.weights import FAIR

CODE = "numa_balancing"
NEEDS = ("numa.balancing_mode",)


def tell(view: View) -> Iterator[Finding]:
    """Yield balancing that is on where there are several nodes."""
    nodes = len(view.slow.values("numa[].cpus"))
    for change in view.changed("numa.balancing_mode"):
        if after(change) and not before(change) and nodes != 1:
            yield Clue(
                "The kernel unmaps pages to balance NUMA nodes, and a step's threads fault on them.", FAIR, (change,)
            )
    if nodes > 1 and view.setting.communicates and all(facts.get("numa.balancing_mode") for facts in view.sides):
        yield Mistake(
            "The kernel balances NUMA nodes on both sides", "sysctl kernel.numa_balancing=0", ("numa.balancing_mode",)
        )
