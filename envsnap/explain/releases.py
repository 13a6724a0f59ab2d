"""How far a version moved: a new branch of a driver changes much, a bug-fix release little."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum

from envsnap.change import Change
from envsnap.keys import pattern_of
from envsnap.reading import Value

_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")
_VERSIONS = ("version", "driver_version", "module_version", "engine_version", "copy_versions", "release")


class Step(IntEnum):
    """The most significant part of a version that differs."""

    BUILD = 0
    """Only what stands behind the numbers."""
    FIX = 1
    EARLY = 2
    """A release of what has none above 0 yet (0.5.4, then 0.5.5): each may bring whatever its authors have."""
    MINOR = 3
    MAJOR = 4


def step_of(changes: Iterable[Change], driver: bool = False) -> Step | None:
    """The largest step among changed versions; None where no version is among them.

    Of a driver the first number is the branch and the second the release in it, so that only another branch is more
    than a fix.
    """
    steps = [step for change in changes if (step := _step(change, driver)) is not None]
    return max(steps, default=None)


def _step(change: Change, driver: bool) -> Step | None:
    name = pattern_of(change.path).rsplit(".", 1)[-1].replace("[]", "")
    if name not in _VERSIONS or not (isinstance(change.before, Value) and isinstance(change.after, Value)):
        return None
    one, two = (_NUMBERS.match(str(reading.value)) for reading in (change.before, change.after))
    if one is None or two is None:
        return None
    a, b = ([int(part) for part in match[1].split(".")] for match in (one, two))
    differing = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    if a == b:
        return Step.BUILD
    if differing == 0:
        return Step.MAJOR
    if differing == 1 and not driver:
        return Step.MINOR
    return Step.EARLY if a[0] == 0 else Step.FIX
