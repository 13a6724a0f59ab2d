"""What a diff holds: changes, and what could not be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from envsnap.keys import Key, Kind
from envsnap.reading import Reading, Unavailable, Why

_SETTLED = (Why.ABSENT, Why.NOT_SUPPORTED, Why.OFF)


@dataclass(frozen=True)
class Change:
    """One path whose reading differs. `leaf` is the place below it where a structured value does."""

    path: str
    key: Key
    before: Reading
    after: Reading
    leaf: str = ""


class Because(str, Enum):
    """The stable reason why something was not compared."""

    UNREADABLE = "unreadable"
    """A side is unavailable or in error here."""
    INCOMPLETE = "incomplete"
    """A side's section stopped early, so that what it does not hold is unknown."""
    NO_SECTION = "no_section"
    """A side has no such section: it was not asked for, or its envsnap did not know it."""
    UNKNOWN_KEY = "unknown_key"
    """A side was written by another version of envsnap and holds no such key at all."""
    HASHES = "hashes"
    """Both sides hold secrets, hashed with different keys."""


@dataclass(frozen=True)
class NotCompared:
    """A path, a branch or a section that was not compared.

    `before` and `after` are None where a branch or section was read on that side. `only` is how many values the
    one and the other side hold here without a counterpart; `detail` says more for people.
    """

    path: str
    because: Because
    before: Reading | None
    after: Reading | None
    only: tuple[int, int] = (0, 0)
    detail: str = ""

    @property
    def settled(self) -> bool:
        """Whether nothing is missing that was asked for: it is not there on either side, or was off on both."""
        a, b = self.before, self.after
        return isinstance(a, Unavailable) and isinstance(b, Unavailable) and a.why is b.why and a.why in _SETTLED


@dataclass(frozen=True)
class Diff:
    """All changes between two snapshots, the likeliest causes of a slowdown first.

    `same` are the paths whose readings were compared and found the same; `left_out` counts those of kinds that were
    not asked for. `notes` are sentences on how far the two snapshots can be compared at all.
    """

    changes: tuple[Change, ...]
    not_compared: tuple[NotCompared, ...]
    same: tuple[str, ...]
    left_out: Mapping[Kind, int]
    notes: tuple[str, ...] = ()

    @property
    def equal(self) -> int:
        """How many readings were compared and found the same."""
        return len(self.same)

    @cached_property
    def unknown(self) -> int:
        """How many entries of `not_compared` may hide a change."""
        return sum(not entry.settled for entry in self.not_compared)
