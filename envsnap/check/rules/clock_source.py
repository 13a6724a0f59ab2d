"""The kernel takes the time from a slow clock.

Every time stamp then costs a microsecond or more, and engines, NCCL and profilers take them all the time. The kernel
falls back to such a clock when it finds the CPU's own unstable. Fix: boot with tsc=reliable if the hardware is sound;
in a virtual machine use its paravirtual clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "clock_source"
SEVERITY = WARNING
NEEDS = ("kernel.clock_source",)

_SLOW = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    source = facts.value("kernel.clock_source")
    if source in _SLOW:
        yield Problem(f"the clock source is {source}", ("kernel.clock_source",), "Boot with clocksource=tsc.")
