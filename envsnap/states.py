"""States of many runs, kept small: what each reading was, as far as two runs can be compared on it.

Reading two hundred whole runs takes seconds; what they have in common is kept once. The tables stand in the store's
index, so that they are made anew with it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from envsnap.collectors import key_for, section_of
from envsnap.keys import Kind, parents_of
from envsnap.reading import Json, Reading, Unset, Value
from envsnap.snapshot import Snapshot

if TYPE_CHECKING:
    import sqlite3

UNSET = "unset"
"""Signature of what was looked for and is not there; no value has it, since strings stand in quotes."""

_UNAVAILABLE = "unavailable"
_LONG = 200
_NEW_BASE = 0.3
"""Share of a state that may differ from the common one before the state becomes the next common one."""


def signature(reading: Reading) -> str | None:
    """A reading as a short text that is equal exactly for equal ones; None where there is nothing to compare."""
    if isinstance(reading, Value):
        text = json.dumps(reading.value, sort_keys=True)
        return text if len(text) <= _LONG else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return UNSET if isinstance(reading, Unset) else None


class State:
    """One run's readings by signature."""

    def __init__(self, common: Mapping[str, str], own: Mapping[str, str | None], complete: Iterable[str]) -> None:
        self._common, self._own, self._complete = common, own, frozenset(complete)

    @classmethod
    def of(cls, snapshot: Snapshot) -> State:
        """The state that a snapshot holds."""
        return cls(_signatures(snapshot), {}, _complete(snapshot))

    def signature(self, path: str) -> str | None:
        """The signature of the reading at a path, None where it is not known."""
        found = self._get(path)
        if found is not None:
            return None if found == _UNAVAILABLE else found
        if section_of(path) not in self._complete or any(self._get(p) == _UNAVAILABLE for p in parents_of(path)):
            return None
        return UNSET

    def paths(self) -> set[str]:
        """Every path that has a value."""
        held = {*self._common, *self._own}
        return {p for p in held if (s := self._get(p)) is not None and s != _UNAVAILABLE}

    def _get(self, path: str) -> str | None:
        return self._own[path] if path in self._own else self._common.get(path)


def _signatures(snapshot: Snapshot) -> dict[str, str]:
    found = {}
    for section in snapshot.sections.values():
        for path, value in section.values.items():
            kind = key_for(path).kind
            if kind in (Kind.IDENTITY, Kind.TUNABLE) or (
                kind in (Kind.CONDITION, Kind.COUNTER) and path.startswith("during.")
            ):
                found[path] = signature(Value(value)) or ""
        found |= dict.fromkeys((*section.unavailable, *section.errors), _UNAVAILABLE)
    return found


def _complete(snapshot: Snapshot) -> list[str]:
    return sorted(name for name, section in snapshot.sections.items() if section.complete)


# -- in the store's index -----------------------------------------------------------------------------------


def prepare(index: sqlite3.Connection) -> None:
    """Make the tables where they are missing."""
    index.execute("CREATE TABLE IF NOT EXISTS commons (number INTEGER PRIMARY KEY, data BLOB)")
    index.execute("CREATE TABLE IF NOT EXISTS states (id TEXT PRIMARY KEY, common INTEGER, data BLOB)")


def note(index: sqlite3.Connection, run_id: str, snapshot: Snapshot) -> None:
    """Keep a run's state."""
    whole = _signatures(snapshot)
    row = index.execute("SELECT number, data FROM commons ORDER BY number DESC LIMIT 1").fetchone()
    common = _unpacked(row[1]) if row else {}
    own = _difference(common, whole)
    if not row or len(own) > _NEW_BASE * len(whole):
        number = index.execute("INSERT INTO commons (data) VALUES (?)", (_packed(whole),)).lastrowid
        own = {}
    else:
        number = row[0]
    data = _packed({"own": own, "complete": _complete(snapshot)})
    index.execute("INSERT OR REPLACE INTO states (id, common, data) VALUES (?, ?, ?)", (run_id, number, data))


def load(index: sqlite3.Connection) -> dict[str, State]:
    """Every kept state by the run's id."""
    commons = {number: _unpacked(data) for number, data in index.execute("SELECT number, data FROM commons")}
    found = {}
    for run_id, number, data in index.execute("SELECT id, common, data FROM states"):
        kept = _unpacked(data)
        found[run_id] = State(commons.get(number, {}), kept["own"], kept["complete"])
    return found


def forget(index: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Drop the states of runs that are gone."""
    index.executemany("DELETE FROM states WHERE id = ?", [(run_id,) for run_id in run_ids])


def _difference(common: Mapping[str, str], whole: Mapping[str, str]) -> dict[str, str | None]:
    own: dict[str, str | None] = {path: sig for path, sig in whole.items() if common.get(path) != sig}
    return own | {path: None for path in common if path not in whole}


def _packed(data: Mapping[str, object]) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 6)


def _unpacked(data: bytes) -> dict[str, Json]:
    found: dict[str, Json] = json.loads(zlib.decompress(data))
    return found
