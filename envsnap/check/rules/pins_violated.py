"""Installed packages contradict what an engine requires.

Engines pin the kernels that they were tested with, and check few of the pins at start, and only for a minimum: a
wheel that was swapped passes, and is slower or wrong. Only requirements of what computes are judged. Fix: install the
required version, or the engine again.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem
from envsnap.collectors import key_for

CODE = "pins_violated"
SEVERITY = WARNING
NEEDS = ("package[].violated_pins",)

_MATTERS, _SHOWN = 0.3, 4


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (name,), path, pins in facts.each("package[].violated_pins"):
        if pins and key_for(path).prior >= _MATTERS:
            more = f" and {len(pins) - _SHOWN} more" if len(pins) > _SHOWN else ""
            yield Problem(f"{name} requires {'; '.join(pins[:_SHOWN])}{more}", (path,), "pip check")
