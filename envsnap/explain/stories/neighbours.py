"""Other programs take CPUs, memory or the disk while it is measured.

The thread that launches kernels waits for a CPU that something else has; a build, a data job or another container
is enough. Seen are the CPU time of others, the share of time in which the ranks waited though ready, and what the
kernel counts as pressure. Memory that runs short is swapped and reclaimed in the middle of a step.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.stories._look import middle, most, numbers
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of

CODE = "neighbours"
NEEDS = ("during.host.cpu_other_median_percent", "during.worker[].run_delay_median_percent",
         "load.process_cpu_percent[]", "load.pressure[].some_percent", "memory.swap_used_bytes")  # fmt: skip

_CPU = ("during.host.cpu_other_median_percent", "during.host.cpu_other_p95_percent",
        "during.worker[].run_delay_median_percent", "during.worker[].run_delay_p95_percent",
        "during.worker[].involuntary_switch_median_hz", "during.host.cpu_pressure_median_percent")  # fmt: skip
_MEMORY = ("during.host.memory_pressure_median_percent", "during.worker[].major_fault_median_hz",
           "during.host.io_pressure_median_percent")  # fmt: skip
_BUSY = 100.0
"""Percent of one CPU that others may take before it counts."""


def tell(view: View) -> Iterator[Finding]:
    """Yield neighbours that came with the slow side."""
    cpu = view.changed(*_CPU)
    others = [middle(facts, _CPU[0]) for facts in view.sides]
    waits = [middle(facts, "during.worker[].run_delay_median_percent") for facts in view.sides]
    more = others[1] is not None and others[1] > (others[0] or 0.0) + _BUSY
    waiting = waits[1] is not None and waits[1] > 2 and waits[1] > 3 * (waits[0] or 0.0)
    if cpu and waiting:
        who = f" {_who(view.slow)} ran." if _who(view.slow) else ""
        both = " and others take more of them" if more else ""
        yield Clue(
            f"The ranks wait {waits[1]:.0f} % of the time for a CPU{both}.{who}", STRONG if more else FAIR, tuple(cpu)
        )
    memory = view.changed(*_MEMORY)
    if memory and _is_short(view.slow) and not _is_short(view.fast):
        yield Clue(
            "Memory is short on the slow side: pages are read back in the middle of steps.", STRONG, tuple(memory)
        )
    swapped = [most(facts, "memory.swap_used_bytes") or 0 for facts in view.sides]
    if all(used > 8 << 30 for used in swapped):
        yield Mistake(
            "Much of the memory is swapped out on both sides",
            "Free memory, and turn swap off for the server.",
            ("memory.swap_used_bytes",),
        )


def _is_short(facts: Facts) -> bool:
    pressure = most(facts, "during.host.memory_pressure_median_percent") or most(facts, "load.pressure[].full_percent")
    faults = most(facts, "during.worker[].major_fault_median_hz")
    return (pressure or 0.0) > 2 or (faults or 0.0) > 20


def _who(facts: Facts) -> str:
    busiest = sorted(numbers(facts, "load.process_cpu_percent[]").items(), key=lambda item: -item[1])
    return ", ".join(instances_of(path)[0] for path, percent in busiest[:2] if percent > 50)
