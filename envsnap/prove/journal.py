"""The journal of a search: every trial as soon as it is over, so that a search goes on where it stopped.

.envsnap/prove/ID.json   the search: what it is about, its trials, its result once there is one
.envsnap/prove/ID/       trees and overlays that its trials run in
.envsnap/prove/lock      held while a search runs
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from envsnap.jsonfile import SnapshotError, load_json, write_atomically
from envsnap.prove.belief import Spread
from envsnap.prove.search import Problem, Trial
from envsnap.reading import Json

FORMAT, VERSION = "envsnap.search", 1
MARK = "ENVSNAP_PROVE"
"""Variable that marks every process of a search, so that what a killed one left behind is found."""


class Busy(Exception):
    """Another search runs in this store."""


@dataclass(frozen=True)
class Record:
    """One trial as it was run. `status` is that of the run, or without_effect; `value` is the metric as reported.

    `unseen` says that nobody could look whether the workers had what was set.
    """

    reverted: tuple[str, ...]
    purpose: str
    suspect: str
    run: str
    status: str
    reason: str
    value: float | None
    cost: float | None
    seconds: float
    unseen: bool = False

    @property
    def trial(self) -> Trial:
        """As the search sees it."""
        return Trial(frozenset(self.reverted), self.purpose, self.suspect, self.cost)


@dataclass
class Journal:
    """A search on disk. `dropped` are suspects whose switch did not take effect, with the reason."""

    path: Path
    problem: Problem
    metric: str = ""
    about: Mapping[str, Json] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    outcome: str = ""

    @property
    def id(self) -> str:
        """The name of the search."""
        return self.path.stem

    @property
    def folder(self) -> Path:
        """Where its trees are."""
        return self.path.with_suffix("")

    @property
    def counted(self) -> list[Trial]:
        """The trials that say something, in terms of the suspects that are left."""
        return [r.trial for r in self.records if r.status != "without_effect"]

    def save(self) -> None:
        """Write it. Raises: OSError."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "about": self.about,
            "metric": self.metric,
            "problem": asdict(self.problem),
            "records": [asdict(r) for r in self.records],
            "dropped": self.dropped,
            "outcome": self.outcome,
        }
        write_atomically(self.path, json.dumps(document, indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> Journal:
        """Read it. Raises: SnapshotError."""
        data = load_json(path)
        try:
            if data["format"] != FORMAT or data["version"] != VERSION:
                raise SnapshotError(f"{path} is no search that this envsnap can continue.")
            told = data["problem"]
            problem = Problem(**{**told, "spread": Spread(**told["spread"])})
            records = [Record(**{**r, "reverted": tuple(r["reverted"])}) for r in data["records"]]
            return cls(path, problem, data["metric"], data["about"], records, data["dropped"], data["outcome"])
        except (KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(f"{path} is no search that this envsnap can continue.") from error


def id_of(parts: Json) -> str:
    """The name of the search that is about these."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the store's lock for searches. Raises: Busy, OSError."""
    handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise Busy from error
    try:
        yield
    finally:
        os.close(handle)


def sweep(marks: Sequence[str]) -> int:
    """End what an earlier search that was killed left running, by process groups; how many processes there were.

    The caller holds the lock, so that no search of this store is running.
    """
    groups: set[int] = set()
    found = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            held = (entry / "environ").read_bytes().split(b"\0")
            if any(f"{MARK}={mark}".encode() in held for mark in marks):
                groups.add(os.getpgid(int(entry.name)))
                found += 1
        except OSError:
            continue
    for group in groups - {os.getpgrp()}:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return found
