"""How large an effect physics allows: a clock that is 3 % lower makes nothing 50 % slower.

A bound is a ratio of times, slow / fast: what the change would make of a step that depended on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from envsnap.explain.candidates import Candidate
from envsnap.explain.story import View, after, before
from envsnap.keys import Effect, pattern_of
from envsnap.reading import Json

NOTHING = 1.01
"""A bound up to which a change does nothing that anybody would see."""

_CLOCKS = ("during.gpu[].sm_clock_median_mhz", "during.gpu[].memory_clock_median_mhz")
_SET_CLOCKS = ("gpu[].application_graphics_clock_mhz", "gpu[].application_memory_clock_mhz")
_LINK = ("during.gpu[].pcie_speed_median_gts", "during.gpu[].pcie_width_median_lanes")
_LINK_AT_REST = ("pci[].link_width_lanes", "gpu[].pcie_width_lanes", "pci[].target_link_speed_gts")
_COUNTS = ("inherited.cpus_count", "worker[].cpus_count", "cgroup.cpu_quota_cpus", "cpu.threads_count")
_CPU_CLOCK = ("cpu.scaling_max_mhz", "cpu[].scaling_max_mhz", "during.host.cpu_clock_median_mhz")


@dataclass(frozen=True)
class Bound:
    """The most that a suspect can do. `measured`: from samples under load, so that it is what it did, not could do."""

    ratio: float
    says: str
    measured: bool = False


def bound_of(candidate: Candidate, view: View) -> Bound | None:
    """The bound of a suspect, None where physics gives none."""
    match candidate.id:
        case "load:clocks":
            return _of_changes(candidate, _CLOCKS, "clocks under load", measured=True)
        case "clocks_set" | "power_limit":
            return clocks_under_load(view) or _of_changes(candidate, _SET_CLOCKS, "clocks that were set")
        case "pcie":
            return _link(candidate, view)
        case "affinity" | "cgroup:cpu":
            return _of_changes(candidate, _COUNTS, "CPUs")
        case "cpu:clock" | "load:cpu_clock":
            return _of_changes(candidate, _CPU_CLOCK, "CPU clocks")
    if candidate.effects and set(candidate.effects) <= {Effect.ACCEPTANCE}:
        return _acceptance(view)
    return None


def _of_changes(candidate: Candidate, keys: Iterable[str], what: str, measured: bool = False) -> Bound | None:
    ratios = [r for c in candidate.changes if pattern_of(c.path) in keys and (r := _ratio(before(c), after(c)))]
    if not ratios:
        return None
    largest = max(ratios)
    if largest <= 1:
        return Bound(1.0, f"The {what} are higher on the slow side.", measured)
    return Bound(largest, f"The {what} differ by ×{largest:.2f}.", measured)


def _ratio(fast: Json, slow: Json) -> float | None:
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) or v <= 0 for v in (fast, slow)):
        return None
    return float(fast / slow)


def clocks_under_load(view: View) -> Bound | None:
    """What clocks did under load, where that was sampled on both sides: a limit that acts shows in them."""
    found = [r for key in _CLOCKS for r in _ratios(view, key)]
    if not found:
        return None
    largest = max(found)
    if largest <= NOTHING + 0.005:
        return Bound(1.0, "Clocks under load are the same, so that no limit acted.", True)
    return Bound(largest, f"Clocks under load differ by ×{largest:.2f}.", True)


def _ratios(view: View, key: str) -> list[float]:
    slow = view.slow.values(key)
    return [r for path, value in view.fast.values(key).items() if (r := _ratio(value, slow.get(path)))]


def _link(candidate: Candidate, view: View) -> Bound | None:
    sampled = [_ratios(view, key) for key in _LINK]
    if all(sampled):
        largest = math.prod(max(ratios) for ratios in sampled)
        if largest <= NOTHING:
            return Bound(1.0, "The links carry the same under load.", True)
        return Bound(largest, f"The links are ×{largest:.2f} slower under load.", True)
    return _of_changes(candidate, _LINK_AT_REST, "link rates")


def _acceptance(view: View) -> Bound | None:
    lost = view.symptom.terms.get("accept_length")
    if lost is None or "accept_length" not in view.symptom.figures:
        return None
    fast, slow = view.symptom.figures["accept_length"]
    return Bound(max(1.0, math.exp(lost)), f"Acceptance went from {fast:.3g} to {slow:.3g} tokens a step.", True)
