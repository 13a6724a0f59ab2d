"""The store: a folder of snapshots and runs, with an index, and the names by which they are found.

    .envsnap/20261129T184615Z.json    a snapshot that was given no name
    .envsnap/runs/ID.json.gz          a run, ID.samples.json.gz beside it; ID/ holds its logs and records
    .envsnap/texts/SHA256.gz          a long text (a patch) that runs share, once by content
    .envsnap/index.sqlite             what `envsnap log` lists, and each run's state in short; made anew from the runs
                                      where it is missing or behind
    .envsnap/redaction.key            the key of hashed secrets

Two processes may write at once: files are renamed into place, and the index is SQLite's business. A process that is
killed loses its own run at most.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from envsnap.jsonfile import SnapshotError, load_json, write_atomically
from envsnap.reading import Json

if TYPE_CHECKING:
    import sqlite3

    from envsnap.runs.columns import Columns
    from envsnap.runs.run import Run
    from envsnap.runs.verdict import History
    from envsnap.states import State

FOLDER = ".envsnap"
LONG_TEXT = 16 << 10
_TEXT = "envsnap.text"
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def new_file(root: Path | None = None, now: datetime | None = None) -> Path:
    """A name for a snapshot taken `now`, in the folder below `root` (default: the working directory), which is made.

    The folder ignores itself in git, so that a snapshot never makes the tree dirty that it describes.
    Raises: OSError.
    """
    folder = _made(root)
    stem = (now or datetime.now(timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    path = folder / f"{stem}.json"
    number = 2
    while path.exists():
        path = folder / f"{stem}-{number}.json"
        number += 1
    return path


def newest(count: int = 1, root: Path | None = None) -> list[Path]:
    """The newest snapshots in the folder, oldest of them first; fewer where there are fewer."""
    folder = (root or Path()) / FOLDER
    found = [p for pattern in ("*.json", "*.json.gz") for p in folder.glob(pattern)]
    return sorted(found, key=lambda p: (p.stat().st_mtime_ns, p.name))[-count:]


def _made(root: Path | None) -> Path:
    folder = (root or Path()) / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder


@dataclass(frozen=True)
class Entry:
    """One run as the index knows it. `metrics` are its figures as (name, value, unit), in the benchmark's order."""

    id: str
    group: str
    label: str
    arm: str
    index: int
    started_at: str
    seconds: float
    status: str
    command: str
    configuration: str
    metrics: tuple[tuple[str, float, str], ...]

    def value(self, name: str) -> float | None:
        """The figure of that name, if the run has one."""
        return next((value for metric, value, _ in self.metrics if metric == name), None)


_COLUMNS = "id, grp, label, arm, idx, started_at, seconds, status, command, configuration, metrics"


class Store:
    """The runs in a folder. `root` is where the folder `.envsnap` is or will be."""

    def __init__(self, root: Path | None = None) -> None:
        self.folder = (root or Path()) / FOLDER
        self._root = root
        self.runs = self.folder / "runs"

    def prepare(self) -> Path:
        """Make the folder for runs, and return it. Raises: OSError."""
        _made(self._root)
        self.runs.mkdir(mode=0o700, exist_ok=True)
        return self.runs

    def save(self, run: Run, samples: Columns | None = None) -> Path:
        """Write a run and note it in the index. Raises: OSError."""
        from envsnap.runs.run import packed, samples_path

        path = self.prepare() / f"{run.id}.json.gz"
        if samples is not None:
            write_atomically(samples_path(path), packed(samples.as_json()))
        write_atomically(path, packed(self._without_long_texts(run.as_json())))
        with self._index() as index:
            _note(index, run)
        return path

    def load(self, run_id: str) -> Run:
        """A run by its id. Raises: SnapshotError."""
        from envsnap.runs.run import parse

        path = self.runs / f"{run_id}.json.gz"
        return parse(self._with_long_texts(load_json(path)), str(path))

    def entries(self) -> list[Entry]:
        """All runs, newest first."""
        if not self.runs.is_dir():
            return []
        with self._index() as index:
            self._catch_up(index)
            rows = index.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY started_at DESC, id DESC").fetchall()
        return [Entry(*(*row[:10], tuple((m[0], m[1], m[2]) for m in json.loads(row[10])))) for row in rows]

    def history(self, runs: Sequence[Run]) -> dict[str, History]:
        """Other sessions of the same configuration and command as `runs`, by metric: how much they differ."""
        from envsnap.runs.verdict import History

        like = next((r for r in runs if r.status == "ok"), None)
        if like is None:
            return {}
        alike = [e for e in self.entries() if _same_work(e, like) and e.group != like.group]
        found = {}
        for name in (m.name for m in like.metrics):
            sessions: dict[tuple[str, str], list[float]] = {}
            for entry in alike:
                if (value := entry.value(name)) is not None:
                    sessions.setdefault((entry.group, entry.arm), []).append(value)
            found[name] = History(tuple(tuple(values) for values in sessions.values()))
        return found

    def states(self) -> dict[str, State]:
        """What each run's readings were, by the run's id."""
        from envsnap import states

        if not self.runs.is_dir():
            return {}
        with self._index() as index:
            self._catch_up(index)
            return states.load(index)

    def group(self, name: str) -> list[Run]:
        """The runs that a name stands for, in the order they ran.

        `LABEL` is the newest group of that label and `LABEL@2` the one before, `last` is the newest group and `last~1`
        the one before; the id of a group or a run stands for itself. Raises: SnapshotError.
        """
        entries = self.entries()
        chosen = _chosen(name, entries)
        if not chosen:
            known = sorted({e.label for e in entries if e.label})
            labels = f" (labels: {', '.join(known[:8])})" if known else ""
            raise SnapshotError(f"There is no file and no run named {name!r}{labels}; `envsnap log` lists them.")
        return [self.load(e.id) for e in sorted(chosen, key=lambda e: (e.started_at, e.id))]

    def remove(self, name: str) -> list[str]:
        """Remove the runs that a name stands for, with their samples, logs and records; returns their ids.

        Texts that no other run shares stay: they are small and may be shared by one that is being written.
        Raises: SnapshotError, OSError.
        """
        from envsnap.runs.run import samples_path

        removed = [e.id for e in _chosen(name, self.entries())]
        if not removed:
            raise SnapshotError(f"There is no run named {name!r}; `envsnap log` lists them.")
        for run_id in removed:
            path = self.runs / f"{run_id}.json.gz"
            path.unlink(missing_ok=True)
            samples_path(path).unlink(missing_ok=True)
            shutil.rmtree(self.runs / run_id, ignore_errors=True)
        with self._index() as index:
            _forget(index, removed)
        return removed

    # -- index ----------------------------------------------------------------------------------------------

    @contextmanager
    def _index(self) -> Iterator[sqlite3.Connection]:
        """The index, open for one piece of work. An index that is no database any more is made anew."""
        path = self.folder / "index.sqlite"
        connection = _connect(path)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def _catch_up(self, index: sqlite3.Connection) -> None:
        """Note runs whose writer was killed before it could, forget those whose file is gone."""
        from envsnap.runs.run import parse

        there = {p.name[: -len(".json.gz")] for p in self.runs.iterdir() if _is_run(p.name)}
        known = {row[0] for row in index.execute("SELECT id FROM runs")}
        _forget(index, known - there)
        for run_id in there - known:
            path = self.runs / f"{run_id}.json.gz"
            try:
                _note(index, parse(load_json(path), str(path)))
            except SnapshotError:
                continue  # a foreign or damaged file is none of the index's business; loading it says what is wrong

    # -- long texts -----------------------------------------------------------------------------------------

    def _without_long_texts(self, document: Json) -> Json:
        """The document with each long string replaced by its hash, the text kept once beside the runs."""
        if isinstance(document, dict):
            return {name: self._without_long_texts(value) for name, value in document.items()}
        if isinstance(document, list):
            return [self._without_long_texts(value) for value in document]
        if isinstance(document, str) and len(document) > LONG_TEXT:
            data = document.encode("utf-8", "surrogatepass")
            name = hashlib.sha256(data).hexdigest()
            path = self.folder / "texts" / f"{name}.gz"
            if not path.exists():
                path.parent.mkdir(mode=0o700, exist_ok=True)
                write_atomically(path, gzip.compress(data, 5, mtime=0))
            return {_TEXT: name}
        return document

    def _with_long_texts(self, document: Json) -> Json:
        if isinstance(document, list):
            return [self._with_long_texts(value) for value in document]
        if not isinstance(document, dict):
            return document
        name = document.get(_TEXT)
        if isinstance(name, str) and len(document) == 1 and _SHA256.match(name):
            try:
                data = gzip.decompress((self.folder / "texts" / f"{name}.gz").read_bytes())
            except (OSError, EOFError) as error:
                raise SnapshotError(
                    f"A text that the run refers to is missing from {self.folder / 'texts'}."
                ) from error
            return data.decode("utf-8", "surrogatepass")
        return {key: self._with_long_texts(value) for key, value in document.items()}


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
            states.prepare(connection)
            return connection
        except sqlite3.DatabaseError as error:
            connection.close()
            if attempt == 2 or isinstance(error, sqlite3.OperationalError):
                raise SnapshotError(f"The index {path} cannot be used ({error}).") from error
            path.unlink()
    raise AssertionError("unreachable")


def _note(index: sqlite3.Connection, run: Run) -> None:
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


def _forget(index: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    from envsnap import states

    gone = list(run_ids)
    index.executemany("DELETE FROM runs WHERE id = ?", [(i,) for i in gone])
    states.forget(index, gone)


def _same_work(entry: Entry, run: Run) -> bool:
    before = run.snapshots.get("before")
    return (
        entry.status == "ok"
        and before is not None
        and entry.configuration == before.configuration_hash
        and entry.command == command_text(run.command)
    )


def command_text(command: Sequence[str]) -> str:
    """A command as the index holds it: by this two runs' work is told to be the same."""
    return json.dumps(command)[:2000]


def _is_run(name: str) -> bool:
    return name.endswith(".json.gz") and not name.endswith(".samples.json.gz") and not name.startswith(".")


def _chosen(name: str, entries: Sequence[Entry]) -> list[Entry]:
    """The entries a name stands for; `entries` are newest first."""
    name = name.removeprefix("store:")
    for wanted in ("id", "group"):
        if found := [e for e in entries if getattr(e, wanted) == name]:
            return found
    group, slash, arm = name.rpartition("/")
    if slash and arm in ("a", "b"):
        return [e for e in _chosen(group, entries) if e.arm == arm]
    if match := re.fullmatch(r"last(?:~(\d{1,6}))?", name):
        groups, back = list(dict.fromkeys(e.group for e in entries)), int(match[1] or 0)
    else:
        label, at, number = name.rpartition("@") if "@" in name else (name, "", "1")
        if at and not number.isdigit():
            return []
        groups, back = list(dict.fromkeys(e.group for e in entries if e.label == label and label)), int(number) - 1
    if not 0 <= back < len(groups):
        return []
    return [e for e in entries if e.group == groups[back]]
