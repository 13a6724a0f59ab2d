"""Snapshot: all sections of one host at one moment, and its JSON form.

Loading checks types by hand, because importing jsonschema alone takes longer than a diff may.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from envsnap.jsonfile import SnapshotError, load_json, name_of, short, write_atomically
from envsnap.keys import is_path, parents_of
from envsnap.reading import Error, Json, Reading, Unavailable, Unknown, Unset, Value, Why

FORMAT = "envsnap.snapshot"

# Version history. New keys do not change it; renaming, retyping or removing one does, with a function in
# UPGRADES that turns the JSON of the version before into this one's.
#   1  first version
VERSION = 1
UPGRADES: dict[int, Any] = {}

MAX_DEPTH = 64
STATUSES = ("ok", "partial", "unavailable", "error", "timeout")


@dataclass(frozen=True)
class Section:
    """All readings of one collector.

    `status` is ok, partial (it stopped early; what it had is kept), unavailable, error or timeout, with a
    `reason` unless ok. `complete` says that a path which the section does not hold is *unset*.
    """

    status: str
    complete: bool
    seconds: float
    method: str
    reason: str = ""
    values: dict[str, Json] = field(default_factory=dict)
    unavailable: dict[str, Unavailable] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def reading(self, path: str) -> Reading:
        """The reading at a path of this section."""
        if path in self.values:
            return Value(self.values[path])
        for candidate in (path, *parents_of(path)):
            if candidate in self.unavailable:
                return self.unavailable[candidate]
            if candidate in self.errors:
                return Error(self.errors[candidate])
        return Unset() if self.complete else Unknown()

    def as_json(self) -> dict[str, Json]:
        """The section's JSON form."""
        return {
            "status": self.status,
            "reason": self.reason,
            "complete": self.complete,
            "seconds": round(self.seconds, 4),
            "method": self.method,
            "values": self.values,
            "unavailable": {p: {"why": u.why.value, "detail": u.detail} for p, u in self.unavailable.items()},
            "errors": self.errors,
        }


@dataclass(frozen=True)
class Snapshot:
    """One host at one moment. `captured_at` is ISO 8601 in UTC; `cost` holds seconds and bytes."""

    captured_at: str
    sections: dict[str, Section]
    envsnap: str
    moment: str = "standalone"
    scope: dict[str, Json] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    redaction: dict[str, Json] = field(default_factory=dict)
    note: str = ""
    via: dict[str, Json] = field(default_factory=dict)
    """How another machine was reached (`remote.RemoteHost.about`); empty for the one that envsnap ran on."""

    @cached_property
    def values(self) -> dict[str, Json]:
        """Every value, by path, over all sections."""
        return {path: value for s in self.sections.values() for path, value in s.values.items()}

    @cached_property
    def paths(self) -> set[str]:
        """Every path that some section says something about."""
        return {p for s in self.sections.values() for held in (s.values, s.unavailable, s.errors) for p in held}

    def reading(self, path: str) -> Reading:
        """The reading at a path: never raises, and never says equal for what nobody read."""
        from envsnap.collectors import section_of

        section = self.sections.get(section_of(path))
        if section is None:
            return Unknown()
        return section.reading(path)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of all readings in canonical form: equal exactly when the two snapshots read the same."""
        return _digest(
            {n: [s.values, {p: str(u) for p, u in s.unavailable.items()}, s.errors] for n, s in self.sections.items()}
        )

    @cached_property
    def configuration_hash(self) -> str:
        """SHA-256 of identities and tunables alone: equal for two snapshots of one configuration."""
        from envsnap.collectors import key_for
        from envsnap.keys import Kind

        return _digest({p: v for p, v in self.values.items() if key_for(p).kind in (Kind.IDENTITY, Kind.TUNABLE)})

    def as_json(self) -> dict[str, Json]:
        """The snapshot's JSON form, with its hashes."""
        reached = {"via": self.via} if self.via else {}
        return {
            "format": FORMAT,
            "version": VERSION,
            "envsnap": self.envsnap,
            "captured_at": self.captured_at,
            "moment": self.moment,
            "note": self.note,
            "scope": self.scope,
            **reached,
            "cost": self.cost,
            "redaction": self.redaction,
            "hash": {"content": self.content_hash, "configuration": self.configuration_hash},
            "sections": {name: s.as_json() for name, s in sorted(self.sections.items())},
        }


def _digest(data: Json) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def dumps(snapshot: Snapshot) -> str:
    """The snapshot as JSON text, one reading a line. Lone surrogates (bytes that were not UTF-8) stay escaped."""
    return json.dumps(snapshot.as_json(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def write(snapshot: Snapshot, target: str | Path) -> None:
    """Write to a file (mode 0600, gzip by suffix), atomically. Raises: OSError; the old file is then untouched.

    A symbolic link is followed, so that the file it names is replaced and the link stays.
    """
    data = dumps(snapshot).encode("ascii")
    path = Path(os.path.realpath(target))
    if path.suffix == ".gz":
        data = gzip.compress(data, compresslevel=5, mtime=0)
    write_atomically(path, data)


def load(source: str | Path) -> Snapshot:
    """Read a snapshot from a file, or from standard input for `-`.

    Raises: SnapshotError in one sentence for whatever is wrong with it.
    """
    return from_json(load_json(source), name_of(source))


def from_json(document: Json, name: str = "snapshot") -> Snapshot:
    """A snapshot from its JSON form, upgraded from older versions. Raises: SnapshotError."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SnapshotError(f"{name} is not an envsnap snapshot; `envsnap capture -o FILE` makes one.")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SnapshotError(f"{name} has no valid version number.")
    if version > VERSION:
        raise SnapshotError(
            f"{name} has snapshot version {version}, this envsnap reads up to {VERSION}; update envsnap."
        )
    for step in range(version, VERSION):
        document = UPGRADES[step](document)
    try:
        return Snapshot(
            captured_at=_typed(document["captured_at"], str),
            envsnap=_typed(document["envsnap"], str),
            moment=_typed(document.get("moment", "standalone"), str),
            note=_typed(document.get("note", ""), str),
            scope=_typed(document.get("scope", {}), dict),
            via=_typed(document.get("via", {}), dict),
            cost=_typed(document.get("cost", {}), dict),
            redaction=_typed(document.get("redaction", {}), dict),
            sections={n: section_from_json(s) for n, s in _typed(document["sections"], dict).items()},
        )
    except KeyError as error:
        raise SnapshotError(f"{name} lacks the field {error}.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(f"{name} is malformed: {short(error)}.") from error


def section_from_json(s: Json) -> Section:
    """A section from its JSON form. Raises: KeyError, TypeError, ValueError, AttributeError for a malformed one."""
    if s["status"] not in STATUSES:
        raise ValueError(f"a section has no status {s['status']!r}")
    values = _paths(s["values"])
    for value in values.values():
        if isinstance(value, (dict, list)):
            _check_depth(value)
    return Section(
        status=s["status"],
        reason=_typed(s.get("reason", ""), str),
        complete=_typed(s["complete"], bool),
        seconds=float(_typed(s.get("seconds", 0.0), (int, float))),
        method=_typed(s.get("method", ""), str),
        values=values,
        unavailable={
            p: Unavailable(Why(u["why"]), _typed(u["detail"], str)) for p, u in _paths(s.get("unavailable", {})).items()
        },
        errors={p: _typed(message, str) for p, message in _paths(s.get("errors", {})).items()},
    )


def _paths(value: Json) -> dict[str, Json]:
    for path in _typed(value, dict):
        if not is_path(path):
            raise ValueError(f"{path!r} is not a path")
    return value  # type: ignore[no-any-return]


def _check_depth(value: Json, left: int = MAX_DEPTH) -> None:
    if left == 0:
        raise ValueError("a value is nested too deeply")
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, (dict, list)):
            _check_depth(item, left - 1)


def _typed(value: Json, kind: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kind):
        names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise TypeError(f"expected {names}, found {type(value).__name__}")
    return value
