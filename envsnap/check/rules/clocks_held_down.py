"""Heat or the power supply holds a GPU's clocks down right now.

Hardware halves the clocks for heat or when the power supply asks for it (power brake); the driver lowers them earlier
for heat. That a GPU is idle, or at its power cap under load, is no such reason. Fix: cooling, power cables, the rack's
power budget.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "clocks_held_down"
SEVERITY = ERROR
NEEDS = ("gpu[].clocks_event_reasons",)

_REASONS = {
    "hw_thermal_slowdown": ERROR, "hw_power_brake_slowdown": ERROR, "hw_slowdown": WARNING,
    "sw_thermal_slowdown": WARNING, "board_limit": WARNING, "reliability": WARNING,
}  # fmt: skip


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (reasons,), gpus in facts.gpus_by("clocks_event_reasons"):
        holding = [reason for reason in reasons if reason in _REASONS]
        if holding:
            severity = ERROR if any(_REASONS[reason] == ERROR for reason in holding) else WARNING
            yield Problem(
                f"{gpus}: clocks held down by {', '.join(holding)}",
                gpus.paths("clocks_event_reasons"),
                "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
                severity,
            )
