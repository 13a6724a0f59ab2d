"""Changes between two snapshots. (Being written.)"""

from __future__ import annotations

from dataclasses import dataclass

from envsnap.snapshot import Snapshot


@dataclass(frozen=True)
class Change:
    """One path whose reading differs."""


@dataclass(frozen=True)
class Diff:
    """All changes between two snapshots."""


def diff(a: Snapshot, b: Snapshot) -> Diff:
    """Compare two snapshots."""
    return Diff()
