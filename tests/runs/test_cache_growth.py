"""Caches of compiled kernels that grew."""

from __future__ import annotations

from typing import Any

from envsnap.runs.cache_growth import grown, warnings
from envsnap.snapshot import Section, Snapshot


def _snapshot(**values: Any) -> Snapshot:
    held = {f"cache[triton].{name}": value for name, value in values.items()}
    return Snapshot("2026-01-01T00:00:00+00:00", {"caches": Section("ok", True, 0.0, "", values=held)}, "0")


def test_growth_is_counted_in_one_place_alone() -> None:
    before = _snapshot(path="/c", counted_whole=True, entries_count=10)
    after = _snapshot(path="/c", counted_whole=True, entries_count=13)
    assert grown(before, after) == {"during.cache[triton].grown_count": 3}
    assert warnings(grown(before, after)) == [
        "the cache triton grew by 3 files while the benchmark ran: its figures hold compiling"
    ]
    assert warnings(grown(after, before)) == []
    moved = _snapshot(path="/d", counted_whole=True, entries_count=13)
    assert grown(before, moved) == {}


def test_a_cache_that_was_not_there_yet_grew_by_all_that_it_holds() -> None:
    before = _snapshot(path="/c", entries_count=0)
    assert grown(before, _snapshot(path="/c", counted_whole=True, entries_count=7)) == {
        "during.cache[triton].grown_count": 7
    }


def test_what_was_not_counted_to_its_end_says_nothing() -> None:
    before = _snapshot(path="/c", counted_whole=False, entries_count=10)
    assert grown(before, _snapshot(path="/c", counted_whole=False, entries_count=13)) == {}
