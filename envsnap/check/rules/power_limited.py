"""A GPU's power limit is below the one it starts with, or its supply is too weak.

A lower limit lowers clocks under load; decoding is hurt less than prefill. A limit that is in force and was not asked
for comes from the BMC or a rack controller. Fix: `nvidia-smi -i GPU -pl WATTS`, or whoever caps it.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "power_limited"
SEVERITY = WARNING
NEEDS = ("gpu[].enforced_power_limit_watts", "gpu[].default_power_limit_watts")
USES = ("gpu[].power_limit_watts", "gpu[].power_source")

_NEARLY = 0.98


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    names = ("enforced_power_limit_watts", "default_power_limit_watts", "power_limit_watts", "power_source")
    for (enforced, default, asked, source), gpus in facts.gpus_by(*names):
        if enforced < _NEARLY * default:
            by = "" if asked is None or asked <= enforced else f"; {asked:g} W were asked for, something else caps it"
            yield Problem(
                f"{gpus}: power limit {enforced:g} W, default {default:g} W{by}",
                gpus.paths("enforced_power_limit_watts"),
                f"nvidia-smi -i GPU -pl {default:g}",
            )
        if source == "undersized":
            yield Problem(f"{gpus}: the power supply is too weak", gpus.paths("power_source"), severity=ERROR)
