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

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from envsnap import run_index, texts
from envsnap.jsonfile import SnapshotError, write_atomically
from envsnap.run_index import Entry, command_text

if TYPE_CHECKING:
    import sqlite3

    from envsnap.runs.columns import Columns
    from envsnap.runs.run import Run
    from envsnap.runs.verdict import History
    from envsnap.states import State

__all__ = ["FOLDER", "Entry", "Store", "command_text", "new_file", "newest"]

FOLDER = ".envsnap"


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


class Store:
    """The runs in a folder. `root` is where the folder `.envsnap` is or will be."""

    def __init__(self, root: Path | None = None) -> None:
        self.folder = (root or Path()) / FOLDER
        self._root = root
        self.runs = self.folder / "runs"
        self._index_file = self.folder / "index.sqlite"

    def prepare(self) -> Path:
        """Make the folder for runs, and return it. Raises: OSError."""
        _made(self._root)
        self.runs.mkdir(mode=0o700, exist_ok=True)
        return self.runs

    def save(self, run: Run, samples: Columns | None = None) -> Path:
        """Write a run and note it in the index. Raises: OSError."""
        import sqlite3

        from envsnap.runs.run import packed, samples_path

        path = self.prepare() / f"{run.id}.json.gz"
        if samples is not None:
            write_atomically(samples_path(path), packed(samples.as_json()))
        write_atomically(path, packed(texts.without_long_texts(run.as_json(), self.folder / texts.FOLDER)))
        try:
            with run_index.opened(self._index_file) as index:
                run_index.note(index, run)
        except (SnapshotError, sqlite3.Error, OSError):
            pass  # the run is kept, and an index that is behind catches up
        return path

    def load(self, run_id: str) -> Run:
        """A run by its id. Raises: SnapshotError."""
        from envsnap.runs.run import parse

        path = self.runs / f"{run_id}.json.gz"
        return parse(texts.load_document(path), str(path))

    def entries(self) -> list[Entry]:
        """All runs, newest first."""
        if not self.runs.is_dir():
            return []
        with self._index() as index:
            return run_index.entries(index)

    def known(self) -> list[Entry]:
        """The runs that the index has, newest first, at once: whether it is behind is not looked at."""
        import sqlite3

        try:
            return run_index.as_it_is(self._index_file)
        except sqlite3.Error:
            return []

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

    def remove(self, *names: str) -> list[str]:
        """Remove the runs that these names stand for, with their samples, logs and records; returns their ids.

        Where one of the names is not known, nothing is removed. Texts that no other run shares stay: they are small
        and may be shared by one that is being written. Raises: SnapshotError, OSError.
        """
        from envsnap.runs.run import samples_path

        entries = self.entries()
        chosen = {name: [e.id for e in _chosen(name, entries)] for name in names}
        if unknown := [name for name, ids in chosen.items() if not ids]:
            raise SnapshotError(f"There is no run named {unknown[0]!r}; `envsnap log` lists them.")
        removed = list(dict.fromkeys(run_id for ids in chosen.values() for run_id in ids))
        for run_id in removed:
            path = self.runs / f"{run_id}.json.gz"
            path.unlink(missing_ok=True)
            samples_path(path).unlink(missing_ok=True)
            shutil.rmtree(self.runs / run_id, ignore_errors=True)
        with run_index.opened(self._index_file) as index:
            run_index.forget(index, removed)
        return removed

    @contextmanager
    def _index(self) -> Iterator[sqlite3.Connection]:
        """The index, which knows all runs that are there, open for one piece of work."""
        with run_index.opened(self._index_file) as index:
            run_index.catch_up(index, self.runs)
            yield index


def _same_work(entry: Entry, run: Run) -> bool:
    before = run.snapshots.get("before")
    return (
        entry.status == "ok"
        and before is not None
        and entry.configuration == before.configuration_hash
        and entry.command == command_text(run.command)
    )


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
