"""Memory is short: programs wait for it, or what they need was swapped out.

A machine without swap, or with swap that nothing uses, is no trouble. Fix: end what holds memory (`ps --sort=-rss`),
`swapoff -a && swapon -a` brings swapped pages back, vm.swappiness=1.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "memory_pressure"
SEVERITY = WARNING
NEEDS = ("memory.available_bytes", "memory.total_bytes")
USES = ("memory.swap_used_bytes", "load.pressure[].some_percent")

_SHORT, _SWAPPED, _WAITING_PERCENT = 0.05, 0.05, 10.0


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    free, total = facts.value("memory.available_bytes"), facts.value("memory.total_bytes")
    if free < _SHORT * total:
        yield Problem(f"{free / 2**30:.1f} of {total / 2**30:.0f} GiB of memory are available",
                      ("memory.available_bytes",), "ps aux --sort=-rss | head", ERROR)  # fmt: skip
    swapped, waiting = facts.value("memory.swap_used_bytes"), facts.value("load.pressure[memory].some_percent")
    if waiting is not None and waiting >= _WAITING_PERCENT:
        yield Problem(f"threads waited for memory {waiting:g} % of the time", ("load.pressure[memory].some_percent",))
    if swapped is not None and swapped > _SWAPPED * total:
        yield Problem(f"{swapped / 2**30:.1f} GiB are swapped out", ("memory.swap_used_bytes",),
                      "swapoff -a && swapon -a")  # fmt: skip
