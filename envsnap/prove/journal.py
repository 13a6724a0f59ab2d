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
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from envsnap.jsonfile import SnapshotError, load_json, write_atomically
from envsnap.prove.belief import Spread
from envsnap.prove.search import Problem, Trial
from envsnap.reading import Json

FORMAT, VERSION = "envsnap.search", 1
NOT_BUILT = "not_built"
"""Status of a trial whose code could not be put together."""


class Busy(Exception):
    """Another search runs: `in this store` or `on this machine`."""


@dataclass(frozen=True)
class Record:
    """One trial as it was run. `status` is that of the run, or without_effect, or not_built; `value` is as reported.

    `unseen` says that nobody could look whether the workers had what was set. `within` is what the level is about whose
    suspects `reverted` names. What was not built was no run, and costs nothing.
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
    within: str = ""

    @property
    def trial(self) -> Trial:
        """As the search sees it."""
        return Trial(frozenset(self.reverted), self.purpose, self.suspect, self.cost)


@dataclass
class Journal:
    """A search on disk. `dropped` are suspects whose switch did not take effect, with the reason.

    `problems` are those of deeper levels, by what they are about; `notes` what a reader of the report has to know.
    `at_work` holds what was in /dev/shm before the trial that is at work, or was when the search was killed.
    """

    path: Path
    problem: Problem
    metric: str = ""
    about: Mapping[str, Json] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    outcome: str = ""
    problems: dict[str, Problem] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    at_work: list[str] | None = None

    @property
    def id(self) -> str:
        """The name of the search."""
        return self.path.stem

    @property
    def folder(self) -> Path:
        """Where its trees are."""
        return self.path.with_suffix("")

    def counted(self, within: str = "") -> list[Trial]:
        """The trials of a level that say something."""
        return [r.trial for r in self.records if r.within == within and r.status != "without_effect"]

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return sum(r.status != NOT_BUILT for r in self.records)

    def note(self, text: str) -> None:
        """Keep a sentence for the report, once."""
        if text not in self.notes:
            self.notes.append(text)

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
            "problems": {owner: asdict(problem) for owner, problem in self.problems.items()},
            "notes": self.notes,
            "at_work": self.at_work,
        }
        write_atomically(self.path, json.dumps(document, indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> Journal:
        """Read it. Raises: SnapshotError."""
        data = load_json(path)
        try:
            if data["format"] != FORMAT or data["version"] != VERSION:
                raise SnapshotError(f"{path} is no search that this envsnap can continue.")
            records = [Record(**{**r, "reverted": tuple(r["reverted"])}) for r in data["records"]]
            return cls(
                path, _problem(data["problem"]), data["metric"], data["about"], records, data["dropped"],
                data["outcome"], {o: _problem(p) for o, p in data.get("problems", {}).items()}, data.get("notes", []),
                data.get("at_work"),
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(f"{path} is no search that this envsnap can continue.") from error


def _problem(told: dict[str, Any]) -> Problem:
    return Problem(**{**told, "spread": Spread(**told["spread"]), "order": tuple(told.get("order", ()))})


def id_of(parts: Json) -> str:
    """The name of the search that is about these."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the store's lock for searches. Raises: Busy, OSError."""
    handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with _held(handle, "in this store"):
        yield


@contextmanager
def machine_locked() -> Iterator[None]:
    """Hold the machine's lock for searches, a file in the folder for temporary ones. Raises: Busy, OSError."""
    path = Path(tempfile.gettempdir()) / "envsnap-prove.lock"
    try:
        # NOTE: another user's file in a sticky folder may be locked, and not be opened for writing.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    with _held(handle, "on this machine"):
        yield


@contextmanager
def _held(handle: int, where: str) -> Iterator[None]:
    """Hold the lock on an open file, which is closed in any case. Raises: Busy."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise Busy(where) from error
    try:
        yield
    finally:
        os.close(handle)
