"""CPUs run slower under load, by a policy.

The host launches every kernel that no graph holds; at half the clock it takes twice the time. Governor, turbo,
energy preference, caps and deep idle states decide it, a virtual machine's host too. What counts is the clock while
it ran.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Evidence
from envsnap.explain.stories._look import middle
from envsnap.explain.story import Clue, Finding, Together, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import Effect

CODE = "cpu_clocks"
NEEDS = ("cpu.governor", "during.host.cpu_clock_median_mhz", "cpu.turbo", "cpu.scaling_max_mhz")

_POLICY = ("cpu.governor", "cpu[].governor", "cpu.turbo", "cpu.energy_preference", "cpu[].energy_preference",
           "cpu.scaling_max_mhz", "cpu[].scaling_max_mhz", "cpu.scaling_min_mhz", "cpu.max_performance_percent",
           "cpu.intel_pstate_mode", "cpu.amd_pstate_mode", "cpu.package[].power_limit_watts", "cpu.scaling_driver",
           "platform.power_profile", "cpu.idle_state[].enabled")  # fmt: skip
_CLOCKS = ("during.host.cpu_clock_median_mhz", "during.host.cpu_clock_p5_mhz", "during.host.cpu_clock_p95_mhz")


def tell(view: View) -> Iterator[Finding]:
    """Yield clocks that went down, with the policy that did it; or that did not move, whatever the policy."""
    policy = view.changed(*_POLICY)
    then, now = (middle(facts, _CLOCKS[0]) for facts in view.sides)
    if then is None or now is None:
        return
    if policy and now < 0.93 * then:
        yield Together(
            f"CPUs at {now:.0f} MHz, not {then:.0f}, by another policy",
            "The host takes longer to launch what no graph holds.",
            (*policy, *view.changed(*_CLOCKS)),
            (Effect.HOST_LAUNCH,),
            (Evidence(f"Under load CPUs ran at {now:.0f} MHz, and at {then:.0f} before.", STRONG),),
        )
    elif now > 0.98 * then:
        # NOTE: a CPU that sleeps deeper takes longer to wake, at whatever clock it then runs.
        clocks = tuple(c for c in policy if not c.path.startswith("cpu.idle_state["))
        if clocks:
            yield Clue("CPU clocks under load are the same, whatever the policy says.", -FAIR, clocks)
