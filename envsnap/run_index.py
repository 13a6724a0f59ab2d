"""The index of the store's runs: an SQLite database that is made anew from the runs where it is missing or behind."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from envsnap.jsonfile import SnapshotError

if TYPE_CHECKING:
    import sqlite3

    from envsnap.runs.run import Run

SUFFIX = ".json.gz"
_LONGEST_COMMAND = 2000
_SETTLED_NS = 2_000_000_000
"""A directory's time of change is trusted once it is that old: within its grain more may have happened."""

_COLUMNS = "id, grp, label, arm, idx, started_at, seconds, status, command, configuration, metrics"


class Entry(NamedTuple):
    """One run as the index knows it."""

    id: str
    group: str
    label: str
    arm: str
    index: int  # type: ignore[assignment]  # a tuple's own method of that name is not needed
    started_at: str
    seconds: float
    status: str
    command: str
    """As JSON; see `command_text`."""
    configuration: str
    metrics_json: str

    @property
    def metrics(self) -> tuple[tuple[str, float, str], ...]:
        """Its figures as (name, value, unit), in the benchmark's order."""
        # NOTE: parsed when asked for: a list of ten thousand runs shows the figures of a few.
        return tuple((m[0], m[1], m[2]) for m in json.loads(self.metrics_json))

    def value(self, name: str) -> float | None:
        """The figure of that name, if the run has one."""
        return next((value for metric, value, _ in self.metrics if metric == name), None)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The index, open for one piece of work; what is no database any more is made anew.

    Raises: SnapshotError, sqlite3.Error.
    """
    connection = _connect(path)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    import sqlite3

    from envsnap import states

    for attempt in (1, 2):
        connection = sqlite3.connect(path, timeout=10)
        try:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, grp TEXT, label TEXT, arm TEXT, idx INTEGER,"
                " started_at TEXT, seconds REAL, status TEXT, command TEXT, configuration TEXT,"
                " metrics TEXT)"
            )
            connection.execute("CREATE TABLE IF NOT EXISTS listed (changed_ns INTEGER)")
            states.prepare(connection)
            return connection
        except sqlite3.DatabaseError as error:
            connection.close()
            if attempt == 2 or isinstance(error, sqlite3.OperationalError):
                raise SnapshotError(f"The index {path} cannot be used ({error}).") from error
            path.unlink()
    raise AssertionError("unreachable")


def entries(index: sqlite3.Connection) -> list[Entry]:
    """All runs, newest first."""
    rows = index.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY started_at DESC, id DESC")
    return list(map(Entry._make, rows))


def as_it_is(path: Path) -> list[Entry]:
    """All runs, newest first, read and nothing else done; none where there is no index yet. Raises: sqlite3.Error."""
    import sqlite3

    if not path.is_file():
        return []
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)) as index:
        return entries(index)


def note(index: sqlite3.Connection, run: Run) -> None:
    """Enter a run."""
    from envsnap import states

    before = run.snapshots.get("before")
    row = (
        run.id, run.group, run.label, run.arm, run.index, run.started_at, run.seconds, run.status,
        command_text(run.command), before.configuration_hash if before else "",
        json.dumps([[m.name, m.value, m.unit] for m in run.metrics]),
    )  # fmt: skip
    index.execute(f"INSERT OR REPLACE INTO runs ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
    if before:
        states.note(index, run.id, run.snapshot)


def forget(index: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Strike runs out."""
    from envsnap import states

    gone = list(run_ids)
    index.executemany("DELETE FROM runs WHERE id = ?", [(i,) for i in gone])
    states.forget(index, gone)


def catch_up(index: sqlite3.Connection, folder: Path) -> None:
    """Enter runs whose writer was killed before it could, strike out those whose file is gone from `folder`."""
    changed = folder.stat().st_mtime_ns
    if index.execute("SELECT 1 FROM listed WHERE changed_ns = ?", (changed,)).fetchone():
        return
    there = {name.removesuffix(SUFFIX) for name in os.listdir(folder) if _is_run(name)}
    known = {row[0] for row in index.execute("SELECT id FROM runs")}
    forget(index, known - there)
    for run_id in there - known:
        _enter(index, folder / f"{run_id}{SUFFIX}")
    index.execute("DELETE FROM listed")
    if time.time_ns() - changed > _SETTLED_NS:
        index.execute("INSERT INTO listed VALUES (?)", (changed,))


def _enter(index: sqlite3.Connection, path: Path) -> None:
    from envsnap.runs.run import parse
    from envsnap.texts import load_document

    try:
        note(index, parse(load_document(path), str(path)))
    except SnapshotError:
        pass  # a foreign or damaged file is none of the index's business; loading it says what is wrong


def command_text(command: Sequence[str]) -> str:
    """A command as the index holds it, in JSON: by this two runs' work is told to be the same."""
    text = json.dumps(command)
    if len(text) <= _LONGEST_COMMAND:
        return text
    return json.dumps([text[:_LONGEST_COMMAND], hashlib.sha256(text.encode()).hexdigest()[:16]])


def _is_run(name: str) -> bool:
    return name.endswith(SUFFIX) and not name.endswith(f".samples{SUFFIX}") and not name.startswith(".")
