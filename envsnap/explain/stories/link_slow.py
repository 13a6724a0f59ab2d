"""A PCIe link is narrower or slower under load than both its ends can.

An idle link goes down to the slowest rate by itself; one that stays there under load was trained badly, reseated,
or told not to change its speed. It moves a tenth of what it should and reports no error. What matters is the
highest rate and width that the GPU and its slot have in common. A single GPU hardly feels its link while it
decodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.stories._look import argument, is_on, numbers
from envsnap.explain.story import Clue, Facts, Finding, View, after, before
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.keys import instances_of

CODE = "link_slow"
NEEDS = ("during.gpu[].pcie_speed_median_gts", "gpu[].pcie_width_lanes", "pci[].link_width_lanes",
         "pci[].target_link_speed_gts")  # fmt: skip

GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""PCIe generation -> transfer rate."""
_SPEEDS = ("during.gpu[].pcie_speed_median_gts", "during.gpu[].pcie_speed_p5_gts", "during.gpu[].pcie_speed_p95_gts",
           "pci[].target_link_speed_gts", "pci[].autonomous_speed_disabled")  # fmt: skip
_WIDTHS = ("during.gpu[].pcie_width_median_lanes", "during.gpu[].pcie_width_p5_lanes", "gpu[].pcie_width_lanes",
           "pci[].link_width_lanes")  # fmt: skip
_OFFLOAD = ("cpu_offload_gb", "enable_hierarchical_cache", "enable_lmcache", "offload_group_size")


def tell(view: View) -> Iterator[Finding]:
    """Yield links that lost what their ends have in common."""
    changed = view.changed(*_SPEEDS, *_WIDTHS)
    worse = [
        c
        for c in changed
        if isinstance(before(c), (int, float))
        and isinstance(after(c), (int, float))
        and not isinstance(after(c), bool)
        and after(c) < before(c)
    ]
    if worse and view.setting.ranks == 1 and not _offloads(view):
        yield Clue(
            "One GPU alone hardly uses its link while it decodes: 38.2 and 38.5 tokens a second were measured with "
            "16 and 4 lanes.",
            -FAIR,
            tuple(changed),
        )
        return
    slow, fast = _below(view.slow), _below(view.fast)
    if new := {gpu: text for gpu, text in slow.items() if gpu not in fast}:
        held = [c for c in changed if _gpu(c.path) in new] or changed
        beside = view.setting.nvlink is True and not _offloads(view)
        text = f"Under load GPU {', '.join(new)} {next(iter(new.values()))}"
        if held:
            yield Clue(f"{text}.", WEAK if beside else STRONG, tuple(held))
    elif slow and fast:
        yield Mistake(
            f"GPU {', '.join(slow)} {next(iter(slow.values()))}, on both sides",
            "Reseat board and riser, check bifurcation and the slot's setting; retrain the link.",
            tuple(f"gpu[{gpu}].pcie_width_lanes" for gpu in slow),
        )


def _offloads(view: View) -> bool:
    return any(is_on(argument(view.setting, name)) for name in _OFFLOAD)


def _gpu(path: str) -> str:
    return instances_of(path)[0].partition("/")[0].removeprefix("gpu")


def _below(facts: Facts) -> dict[str, str]:
    """GPUs whose link runs below what it can, with what it does in words. Speed counts under load alone."""
    found: dict[str, str] = {}
    speeds = numbers(facts, "during.gpu[].pcie_speed_median_gts")
    for path, generation in facts.values("gpu[].max_pcie_generation").items():
        gpu = instances_of(path)[0]
        speed = speeds.get(f"during.gpu[{gpu}].pcie_speed_median_gts")
        best = GTS.get(generation) if isinstance(generation, int) else None
        if speed is not None and best is not None and speed < best * 0.9:
            found[gpu] = f"has a link of {speed:g} GT/s where {best:g} are possible"
    for path, lanes in facts.values("gpu[].max_pcie_width_lanes").items():
        gpu = instances_of(path)[0]
        width = facts.get(
            f"during.gpu[{gpu}].pcie_width_median_lanes",
        ) or facts.get(f"gpu[{gpu}].pcie_width_lanes")
        if isinstance(width, (int, float)) and isinstance(lanes, (int, float)) and 0 < width < lanes:
            found[gpu] = f"uses {width:.0f} lanes where {lanes:.0f} are possible"
    return found
