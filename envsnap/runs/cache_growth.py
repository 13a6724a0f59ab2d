"""Caches of compiled kernels that grew while the benchmark ran: something was compiled within the measurement."""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.keys import Effect, Key, Kind, Lever, Type, instances_of, path_of, pattern_of
from envsnap.reading import Json
from envsnap.snapshot import Snapshot

KEYS = (
    Key("during.cache[].grown_count", Type.INTEGER, Kind.CONDITION,
        "Files that were added to a cache of compiled kernels while the benchmark ran.",
        (Effect.COMPUTE, Effect.HOST_LAUNCH, Effect.VALIDITY), 0.5, Lever.CACHE,
        "Something was compiled within the measurement: discard this run, the next finds the cache warm."),
)  # fmt: skip

_ENTRIES = "cache[].entries_count"


def grown(before: Snapshot, after: Snapshot) -> dict[str, Json]:
    """Readings of the section `during` on caches that are in the same place in both."""
    return dict(_differences(before.values, after.values))


def _differences(before: dict[str, Json], after: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    for path, entries in after.items():
        if pattern_of(path) != _ENTRIES or path not in before:
            continue
        (name,) = instances_of(path)
        place, whole = path_of("cache[].path", name), path_of("cache[].counted_whole", name)
        # NOTE: of a cache that was not there yet nothing was counted, and all of it is new.
        counted = before.get(whole) is not False and after.get(whole) is not False
        if before.get(place) == after.get(place) and counted and isinstance(before[path], int):
            yield path_of("during.cache[].grown_count", name), max(0, entries - before[path])


def warnings(grown: dict[str, Json]) -> list[str]:
    """A sentence for each cache that grew."""
    return [
        f"the cache {instances_of(path)[0]} grew by {count} files while the benchmark ran: its figures hold compiling"
        for path, count in grown.items()
        if count
    ]
