"""The kernel moves memory between NUMA nodes by itself.

It unmaps pages to see who touches them; each touch is a page fault, and some stall a launch by tens of milliseconds. On
one node it does nothing. Fix: `sysctl -w kernel.numa_balancing=0`.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem
from envsnap.check.rules._cpu_lists import cpus_in

CODE = "numa_balancing"
SEVERITY = WARNING
NEEDS = ("numa.balancing_mode", "numa.nodes")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    if len(cpus_in(facts.value("numa.nodes"))) < 2:
        raise NotApplicable("there is one NUMA node")
    if facts.value("numa.balancing_mode"):
        yield Problem("automatic NUMA balancing is on", ("numa.balancing_mode",), "sysctl -w kernel.numa_balancing=0")
