"""A GPU is not kept initialised while nobody uses it (persistence mode is off).

Then the first use takes seconds, and clock and power settings are lost whenever the last program ends. Fix:
`nvidia-smi -pm 1`, or run nvidia-persistenced.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "persistence_off"
SEVERITY = WARNING
NEEDS = ("gpu[].persistence_mode",)
USES = ("gpu[].virtualization_mode",)


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (on, virtual), gpus in facts.gpus_by("persistence_mode", "virtualization_mode"):
        if not on and virtual != "vgpu":
            yield Problem(f"{gpus}: persistence mode is off", gpus.paths("persistence_mode"), "nvidia-smi -pm 1")
