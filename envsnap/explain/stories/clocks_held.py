"""GPU clocks are held down, with or without a reason that the driver gives.

Clocks that somebody locked or set (nvidia-smi -lgc, -lmc, -ac, tuning tools) hold a GPU below its highest without
any throttle reason: the power draw falls with them, and the default summary shows nothing. Otherwise the driver
says why: the power cap, heat, the power supply's brake. Compared are clocks under load, never idle ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.stories._look import middle, numbers, of_pattern
from envsnap.explain.story import Clue, Facts, Finding, Together, View, after, before
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import Effect, instances_of

CODE = "clocks_held"
NEEDS = ("during.gpu[].sm_clock_median_mhz", "gpu[].application_graphics_clock_mhz")

_SET = (
    "gpu[].application_graphics_clock_mhz",
    "gpu[].application_memory_clock_mhz",
    "gpu[].graphics_vf_offset_mhz",
    "gpu[].memory_vf_offset_mhz",
    "gpu[].auto_boost",
    "gpu[].max_customer_boost_graphics_clock_mhz",
)
_UNDER_LOAD = ("during.gpu[].sm_clock_median_mhz", "during.gpu[].sm_clock_p5_mhz", "during.gpu[].sm_clock_p95_mhz",
               "during.gpu[].memory_clock_median_mhz", "during.gpu[].memory_clock_p5_mhz",
               "during.gpu[].memory_clock_p95_mhz")  # fmt: skip
_REASONS = {
    "hw_thermal_slowdown": "heat",
    "sw_thermal_slowdown": "heat",
    "hw_power_brake_slowdown": "the power supply's brake",
    "hw_slowdown": "a hardware slowdown",
    "sw_power_cap": "the power cap",
    "board_limit": "the board's limits",
    "reliability": "the limits of voltage",
    "applications_clocks_setting": "a setting of clocks",
}
_WELL_BELOW = 0.85
_SOME = 5.0
"""Percent of samples from which a reason counts."""


def tell(view: View) -> Iterator[Finding]:
    """Yield clocks that went down under load."""
    lower = [c for c in of_pattern(view.changes, *_UNDER_LOAD) if _is_lower(before(c), after(c))]
    reasons = _reasons(view)
    settings = [c for c in view.changed(*_SET) if _is_set_lower(before(c), after(c))]
    shown = view.changed(
        "during.gpu[].throttle_percent[]", "during.gpu[].violation_seconds[]", "gpu[].clocks_event_reasons"
    )
    if lower and reasons:
        limits = (
            view.changed(
                "gpu[].power_limit_watts", "gpu[].enforced_power_limit_watts", "gpu[].target_temperature_celsius"
            )
            if "the power cap" in reasons
            else []
        )
        yield Together(
            f"GPU clocks are held down by {' and '.join(reasons)}",
            "Kernels take longer in proportion to the clock that bounds them.",
            (*lower, *shown, *limits),
            (Effect.COMPUTE, Effect.VERIFY, Effect.DRAFT, Effect.MEMORY),
            (Evidence(f"The driver gives {' and '.join(reasons)} as the reason, on the slow side.", FAIR),),
        )
    elif lower:
        text = "Clocks under load are lower, and the driver gives no reason: somebody set or locked them"
        yield Clue(
            f"{text}{', as the settings show' if settings else ''}.", STRONG if settings else FAIR, (*lower, *settings)
        )
    elif settings and (below := _below_default(view.slow)) and not _below_default(view.fast):
        yield Clue(f"Applications were given a lower clock than the board's default ({below}).", FAIR, tuple(settings))
    if not lower and all(_is_held(facts) for facts in view.sides):
        yield Mistake(
            "GPU clocks are well below their highest on both sides, and no reason is given",
            "Show what is set with nvidia-smi -q -d CLOCK; reset with nvidia-smi -rgc, -rmc, -rac.",
            tuple(view.slow.values("during.gpu[].sm_clock_median_mhz")),
        )


def _is_set_lower(then: object, now: object) -> bool:
    """Whether a setting went down by more than a clock's steps, or is no number."""
    return not isinstance(then, (int, float)) or _is_lower(then, now) or then <= 0


def _is_lower(then: object, now: object) -> bool:
    return isinstance(then, (int, float)) and isinstance(now, (int, float)) and now < then * 0.97


def _reasons(view: View) -> list[str]:
    """Reasons that held clocks down on the slow side and hardly did on the fast one."""
    found: list[str] = []
    for path, share in numbers(view.slow, "during.gpu[].throttle_percent[]").items():
        then = view.fast.get(path)
        if share >= _SOME and share > 2 * (then if isinstance(then, (int, float)) else 0.0):
            found.append(_REASONS.get(instances_of(path)[-1], ""))
    return sorted({reason for reason in found if reason})


def _below_default(facts: Facts) -> str:
    for path, default in numbers(facts, "gpu[].default_application_graphics_clock_mhz").items():
        own = facts.get(path.replace("default_application", "application"))
        if isinstance(own, (int, float)) and own < default * 0.97:
            return f"{own:.0f} of {default:.0f} MHz"
    return ""


def _is_held(facts: Facts) -> bool:
    """Whether the SM clock under load is well below the highest, with no reason in the samples."""
    clock, highest = middle(facts, "during.gpu[].sm_clock_median_mhz"), middle(facts, "gpu[].max_sm_clock_mhz")
    reasons = {instances_of(p)[-1] for p, v in numbers(facts, "during.gpu[].throttle_percent[]").items() if v >= _SOME}
    return clock is not None and highest is not None and clock < _WELL_BELOW * highest and not reasons - {"gpu_idle"}
