"""Clocks of a GPU were set by hand, below what it would run at by itself.

Application clocks below their default, an offset below zero, or a lock (`nvidia-smi -lgc`, `-lmc`), which shows as the
event reason applications_clocks_setting. A memory clock that is locked low costs decoding the most. Fix:
`nvidia-smi -i GPU -rac; nvidia-smi -i GPU -rgc; nvidia-smi -i GPU -rmc`.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "clocks_set"
SEVERITY = WARNING
NEEDS = (
    "gpu[].clocks_event_reasons", "gpu[].application_graphics_clock_mhz", "gpu[].application_memory_clock_mhz",
    "gpu[].default_application_graphics_clock_mhz", "gpu[].default_application_memory_clock_mhz",
    "gpu[].graphics_vf_offset_mhz", "gpu[].memory_vf_offset_mhz",
)  # fmt: skip
ABSENCE_IS_JUDGED = True  # which of them exist depends on the board

_RESET = "nvidia-smi -i GPU -rac; nvidia-smi -i GPU -rgc; nvidia-smi -i GPU -rmc"


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for index in facts.some_gpus().indices:
        if "applications_clocks_setting" in (facts.gpu(index, "clocks_event_reasons") or ()):
            path = f"gpu[{index}].clocks_event_reasons"
            yield Problem(f"GPU {index}: clocks are held at a setting", (path,), _RESET)
        for what in ("graphics", "memory"):
            now, default = (facts.gpu(index, f"{d}application_{what}_clock_mhz") for d in ("", "default_"))
            if now is not None and default is not None and now < default:
                path = f"gpu[{index}].application_{what}_clock_mhz"
                yield Problem(f"GPU {index}: {what} clock set to {now} MHz, default {default} MHz", (path,), _RESET)
            offset = facts.gpu(index, f"{what}_vf_offset_mhz")
            if offset is not None and offset < 0:
                path = f"gpu[{index}].{what}_vf_offset_mhz"
                yield Problem(f"GPU {index}: {what} clock lowered by {-offset} MHz", (path,), _RESET)
