"""Check a snapshot against what is required of it. (Being written.)"""

from __future__ import annotations

from envsnap.snapshot import Snapshot


def check(snapshot: Snapshot, baseline: Snapshot) -> list[object]:
    """Compare a snapshot with a baseline."""
    return []
