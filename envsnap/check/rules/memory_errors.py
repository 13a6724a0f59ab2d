"""The machine's memory had errors that could not be corrected, or many that were.

Each corrected one interrupts a CPU, some by milliseconds. Machines whose kernel counts none are not judged. Fix:
`ras-mc-ctl --errors` names the module to replace.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "memory_errors"
SEVERITY = WARNING
NEEDS = ("memory.uncorrected_errors_count", "memory.corrected_errors_count")

_MANY = 100


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    lost, mended = (facts.value(path) for path in NEEDS)
    if lost:
        yield Problem(f"{lost:,} uncorrected memory errors", (NEEDS[0],), "ras-mc-ctl --errors", ERROR)
    if mended is not None and mended > _MANY:
        yield Problem(f"{mended:,} corrected memory errors", (NEEDS[1],), "ras-mc-ctl --errors")
