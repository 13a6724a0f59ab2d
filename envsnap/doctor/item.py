"""One thing that envsnap reads or needs, and how that stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from envsnap.reading import Why


class State(str, Enum):
    """How an item stands."""

    WORKS = "works"
    PARTLY = "partly"
    FAILS = "fails"
    NOTHING = "nothing"
    """There is nothing here to read."""


HINDERED = (State.PARTLY, State.FAILS)

REFUSED = (Why.DENIED, Why.TIMEOUT, Why.TOO_LARGE, Why.CLOBBERED, Why.TORN)
"""Reasons by which something that is there was not read."""


@dataclass(frozen=True)
class Item:
    """`found` is one clause: what was read, or why not. `lost` and `change` are empty where nothing is lost."""

    code: str
    title: str
    state: State
    found: str
    lost: str = ""
    change: str = ""
