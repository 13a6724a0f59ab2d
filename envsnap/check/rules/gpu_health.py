"""A GPU has uncorrected memory errors, or waits for a repair.

Since the driver was loaded; errors of earlier times are not counted. A GPU in this state can be slower, ends programs,
or computes wrong. Fix: reset it (`nvidia-smi -r -i GPU` with nothing running) or reboot; if it comes back, replace it.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, Problem

CODE = "gpu_health"
SEVERITY = ERROR
_WORDS = {
    "recovery_action": "the driver asks for",
    "ecc_uncorrected_volatile_count": "uncorrected memory errors:",
    "sram_threshold_exceeded": "on-chip memory has failed too often",
    "remapped_rows_pending": "rows of memory wait for a reset to be replaced",
    "remapped_rows_failure": "a row of memory could not be replaced",
    "channel_repair_pending": "a memory channel waits for a reset to be repaired",
    "tpc_repair_pending": "a processing cluster waits for a reset to be repaired",
    "unrepairable_memory": "memory is broken beyond repair",
    "retired_pages_pending": "pages of memory wait for a reset to be retired",
}
NEEDS = tuple(f"gpu[].{name}" for name in _WORDS)
ABSENCE_IS_JUDGED = True  # no board has all of them


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    facts.some_gpus()
    for name, words in _WORDS.items():
        for index in facts.gpus.indices:
            value = facts.gpu(index, name)
            if value not in (None, False, 0, "none"):
                told = words if value is True else f"{words} {value}"
                yield Problem(f"GPU {index}: {told}", (f"gpu[{index}].{name}",), "Reset the GPU or reboot.")
