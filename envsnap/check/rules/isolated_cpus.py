"""Programs would run on CPUs that the scheduler does not balance (isolcpus).

A thread on an isolated CPU stays where it was started: pools of threads pile up on one CPU while the others idle, and
throughput falls to a third. Fix: boot without isolcpus, or start the server on the other CPUs
(`taskset -c`); bind single threads, never a whole server, to isolated ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem
from envsnap.check.rules._cpu_lists import cpus_in

CODE = "isolated_cpus"
SEVERITY = WARNING
NEEDS = ("cpu.isolated", "inherited.cpus")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    isolated, allowed = cpus_in(facts.value("cpu.isolated")), cpus_in(facts.value("inherited.cpus"))
    if not isolated:
        raise NotApplicable("no CPU is isolated")
    paths = ("cpu.isolated", "inherited.cpus")
    if len(allowed) > 1 and allowed <= isolated:
        yield Problem("every CPU that programs may use is isolated: their threads will share one", paths,
                      severity=ERROR)  # fmt: skip
    elif allowed & isolated:
        yield Problem(f"{len(allowed & isolated)} of {len(allowed)} CPUs that programs may use are isolated", paths)
    if 0 in isolated:
        yield Problem("CPU 0 is isolated, and interrupts and timers of the kernel stay there", ("cpu.isolated",))
