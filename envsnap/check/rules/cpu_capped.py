"""CPU clocks are capped: no turbo, or a highest frequency below the hardware's.

A scheduler thread is as fast as one core; without turbo that is a half to two thirds. Fix:
`echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo`, `echo 1 > /sys/devices/system/cpu/cpufreq/boost`,
`cpupower frequency-set -u MAX`.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "cpu_capped"
SEVERITY = WARNING
NEEDS = ("cpu.turbo", "cpu.max_performance_percent", "cpu.scaling_max_mhz", "cpu.hardware_max_mhz")
ABSENCE_IS_JUDGED = True  # which of them exist depends on the driver

_NEARLY = 0.95


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    turbo, percent, limit, most = (facts.value(path) for path in NEEDS)
    if turbo is None and percent is None and limit is None:
        raise NotApplicable("the kernel does not set CPU clocks here")
    if turbo is False:
        yield Problem("turbo is off", ("cpu.turbo",))
    if percent is not None and percent < 100:
        yield Problem(f"capped at {percent} % of the highest frequency", ("cpu.max_performance_percent",))
    if limit is not None and most is not None and limit < _NEARLY * most:
        yield Problem(f"at most {limit:g} MHz, the hardware goes to {most:g}", ("cpu.scaling_max_mhz",),
                      f"cpupower frequency-set -u {most:g}MHz")  # fmt: skip
