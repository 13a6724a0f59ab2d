"""The kernel lowers CPU clocks between kernel launches (frequency governor).

Decoding launches thousands of kernels a second from threads that sleep in between: a governor that saves power answers
late each time. `powersave` of intel_pstate or amd_pstate is no such thing while its preference leans to performance.
Virtual machines mostly have no governor. Fix: `cpupower frequency-set -g performance`.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "cpu_governor"
SEVERITY = WARNING
NEEDS = ("cpu.governor",)
USES = ("cpu.energy_preference", "cpu.scaling_driver", "cpu[].governor")

_FAST_ENOUGH = ("performance", "balance_performance")
_FIX = "cpupower frequency-set -g performance"


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    governor, preference = facts.value("cpu.governor"), facts.value("cpu.energy_preference")
    if governor != "performance" and not (governor == "powersave" and preference in _FAST_ENOUGH):
        told = f", preference {preference}" if preference else ""
        yield Problem(f"governor {governor}{told}", ("cpu.governor",), _FIX)
    others = {path: value for path, value in facts.all("cpu[].governor").items() if value != "performance"}
    if governor == "performance" and others:
        yield Problem(f"{len(others)} CPUs have governor {', '.join(sorted(map(str, set(others.values()))))}",
                      tuple(others), _FIX)  # fmt: skip
