"""What envsnap can and cannot read here, what is lost by that, and what would change it.

    capture ──> Snapshot ──> sections, workers ──┐
                             own (this envsnap) ─┴──> Item*

Nearly all of it is what a capture says anyway: readings that are unavailable, and why.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.doctor import own, sections, workers
from envsnap.doctor.item import HINDERED, Item, State
from envsnap.host import Host
from envsnap.snapshot import Snapshot
from envsnap.workers import roles

__all__ = ["ENGINES", "HINDERED", "Item", "State", "diagnose"]

ENGINES = roles.ANY
"""What finds a running engine where no process was named."""


def diagnose(snapshot: Snapshot, host: Host) -> tuple[Item, ...]:
    """All items, about the machine first. `host` is the machine that the snapshot was taken of."""
    return tuple(_items(snapshot, host))


def _items(snapshot: Snapshot, host: Host) -> Iterator[Item]:
    yield workers.memory(snapshot) or workers.memory_of_others(host)
    yield from workers.records(snapshot)
    yield from sections.items(snapshot)
    yield from own.items(snapshot)
