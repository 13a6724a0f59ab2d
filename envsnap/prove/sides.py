"""What levers are made from: both sides of a comparison, and a folder to work in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envsnap.explain.explanation import Side
from envsnap.prove.switches import Setting

Ends = tuple[Setting, Setting]
"""How the fast and how the slow side had it."""


class NoLever(Exception):
    """A suspect that cannot be switched; one sentence without its full stop."""


@dataclass(frozen=True)
class Sides:
    """What both sides are known to have been, and the folders to work in.

    `folder` takes unpacked trees; `wheels` holds wheels for packages, empty where there are none. With `by_hand` a
    person is asked to set what takes root.
    """

    fast: Side
    slow: Side
    folder: Path
    wheels: str = ""
    by_hand: bool = False
