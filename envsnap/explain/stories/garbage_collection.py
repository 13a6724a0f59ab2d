"""Python collects garbage in the middle of steps.

A server holds millions of objects; a full collection walks them all and stops the thread that launches kernels for
tens of milliseconds. Engines freeze what they hold after the start and raise the thresholds; without that, or with
lower ones, steps stall now and then.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import argument_changes, seen_as_change, variable_changes
from envsnap.explain.story import Clue, Finding, View, after, before
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import path_of

CODE = "garbage_collection"
NEEDS = ("record[].python.gc_thresholds", "record[].python.gc_frozen_count", "record[].python.gc_enabled")

_MANY = 10_000
"""Objects, from which freezing them counts."""


def tell(view: View) -> Iterator[Finding]:
    """Yield collections that got more frequent, or larger."""
    lower = [c for c in view.changed("record[].python.gc_thresholds") if _is_lower(c)]
    enabled = [c for c in view.changed("record[].python.gc_enabled") if after(c) is True and before(c) is False]
    frozen = [
        c
        for role in ranks(view.slow)
        if (c := seen_as_change(view, path_of("record[].python.gc_frozen_count", role))) and _is_thawed(c)
    ]
    how = (*argument_changes(view, "gc_threshold", "*freeze_gc*"), *variable_changes(view, "*_GC_*", "*FREEZE_GC*"))
    if lower or enabled:
        thawed = ", and holds what it held frozen before" if frozen else ""
        yield Clue(
            f"Python collects garbage oftener than before{thawed}.",
            STRONG if frozen else FAIR,
            (*lower, *enabled, *how),
        )
    elif frozen and how:
        yield Clue("Python's collector walks what was frozen before.", FAIR, how)


def _is_lower(change: Change) -> bool:
    """Whether a generation is collected after fewer allocations; 0 is never."""
    then, now = before(change), after(change)
    if not isinstance(then, list) or not isinstance(now, list):
        return False
    return any(isinstance(x, int) and isinstance(y, int) and (0 < y < x or (x == 0 < y)) for x, y in zip(then, now))


def _is_thawed(change: Change) -> bool:
    then, now = before(change), after(change)
    return isinstance(then, int) and isinstance(now, int) and then > _MANY and now < then / 4
