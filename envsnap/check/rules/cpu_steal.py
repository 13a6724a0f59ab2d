"""The hypervisor keeps this machine's virtual CPUs waiting.

Since boot, more than one percent of their time went to others. Decoding stalls each time a scheduler thread waits. Fix:
a machine type whose CPUs are not shared.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "cpu_steal"
SEVERITY = WARNING
NEEDS = ("load.cpu_steal_seconds", "kernel.uptime_seconds", "cpu.threads_count")

_SHARE = 0.01


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    steal, uptime, threads = (facts.value(path) for path in NEEDS)
    if None not in (steal, uptime, threads) and steal > _SHARE * uptime * threads:
        share = 100 * steal / (uptime * threads)
        yield Problem(f"{share:.1f} % of the CPU time since boot was taken", ("load.cpu_steal_seconds",))
