"""What a user names as one side: a snapshot's or a run's file, a folder of runs, a stored name, somebody's dump."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envsnap.explain.explanation import Side
    from envsnap.importers._assembly import Imported
    from envsnap.reading import Json
    from envsnap.redact import Redactor
    from envsnap.runs.run import Run
    from envsnap.snapshot import Snapshot

MUCH = 4 << 20
"""Bytes of dumps from which on reading takes so long that somebody who waits is told."""


def load_side(name: str, store: str = "") -> Side:
    """The side that `name` stands for: a file, a folder with the files of some runs, a name in the store, - for stdin.

    What exists as a file or folder wins; `store:NAME` never is one. A file that is none of envsnap's is imported.

    Raises: SnapshotError, in one sentence.
    """
    from envsnap.explain.explanation import Side
    from envsnap.store import Store

    if name and name != "-" and Path(name).is_dir():
        return Side.of_runs(_runs_in(Path(name)), name)
    if name and name != "-" and not Path(name).exists() and not _looks_like_a_file(name):
        return Side.of_runs(Store(Path(store) if store else None).group(name), name)
    return _load_file(name)


def load_snapshot(name: str) -> Snapshot:
    """The snapshot in a file, of a run its state; what is none of envsnap's is imported. Raises: SnapshotError."""
    return _load_file(name).snapshot


def live_sides(args: Any, like: Side | None = None) -> list[tuple[str, Side]]:
    """The machines behind `--via` by name, or this one, captured now.

    What the arguments leave open is taken as `like` had it.
    Raises: Trouble, where one of them could not be captured.
    """
    from envsnap.cli import Trouble, _live
    from envsnap.cli import _arguments as shared
    from envsnap.explain.explanation import Side

    scope = shared.scope_after(args, like.snapshot.scope if like else {})
    if not args.via:
        return [("now", Side(shared.take(args, scope, [], shared.redactor_of(args)), (), "now"))]
    taken = _live.take(args, scope, [])
    if taken.troubles:
        raise Trouble(" ".join(taken.troubles))
    return [(there.name, Side(there.snapshot, (), there.name)) for there in taken.machines]


def import_files(names: Sequence[str], redactor: Redactor) -> Imported:
    """What the dumps in some files say together. Raises: SnapshotError."""
    from envsnap.importers._assembly import imported
    from envsnap.importers._text import text_of
    from envsnap.jsonfile import SnapshotError, name_of

    read = [(_bytes_of(name), redactor.clean_text(name_of(name))) for name in names]
    for data, name in read:
        if _is_our_own(data):
            raise SnapshotError(f"{name} is envsnap's own: the verbs take it as it is.")
    _tell(sum(len(data) for data, _ in read))
    return imported([text_of(data, name) for data, name in read], redactor)


def _load_file(name: str) -> Side:
    from envsnap.explain.explanation import Side
    from envsnap.importers._assembly import imported
    from envsnap.importers._text import text_of
    from envsnap.jsonfile import SnapshotError, name_of
    from envsnap.runs.run import FORMAT as RUN
    from envsnap.runs.run import parse
    from envsnap.snapshot import from_json
    from envsnap.texts import FOLDER, with_long_texts

    data = _bytes_of(name)
    why, document = _document(data, name_of(name))
    if document is not None and document.get("format") == RUN:
        if name != "-":
            document = with_long_texts(document, Path(name).resolve().parent.parent / FOLDER)
        return Side.of_runs([parse(document, name)], name)
    if document is not None and "format" in document:
        return Side(from_json(document, name), (), name)
    if _is_our_own(data):  # and is damaged
        raise why or SnapshotError(f"{name} is malformed.")
    _tell(len(data))
    label = _redactor().clean_text(name)
    try:
        found = imported([text_of(data, name_of(label))], _redactor())
    except SnapshotError as nothing:
        raise (why if why and _is_like_json(data) else nothing) from nothing
    return Side.of_runs(found.runs, label) if found.runs else Side(found.snapshot, (), label)


def _bytes_of(name: str) -> bytes:
    """What a file holds. Raises: SnapshotError, also for no name: an unset variable of a script is no folder."""
    from envsnap.importers._text import read_bytes
    from envsnap.jsonfile import SnapshotError

    if not name:
        raise SnapshotError("The name of a side is empty; is a variable of the script unset?")
    return read_bytes(name)


def _document(data: bytes, name: str) -> tuple[Exception | None, dict[str, Json] | None]:
    """The JSON object in a file; None where it is none, and why where it is no JSON at all."""
    from envsnap.jsonfile import SnapshotError, parse_json

    try:
        document = parse_json(data, name)
    except SnapshotError as error:
        return error, None
    return None, document if isinstance(document, dict) else None


def _is_our_own(data: bytes) -> bool:
    """Whether a file begins as envsnap's do."""
    return b'"envsnap.' in data[:400]


def _is_like_json(data: bytes) -> bool:
    """Whether what a file wants to be is JSON, so that what is wrong with that is what helps."""
    return not data.strip() or data.lstrip()[:1] in (b"{", b"[")


@lru_cache(maxsize=1)
def _redactor() -> Redactor:
    """One for all sides, so that their secrets compare; with the stored key where there is one, and making none."""
    from envsnap.redact import Redactor
    from envsnap.store import FOLDER

    return Redactor(Path(FOLDER) if Path(FOLDER).is_dir() else None)


def _tell(size: int) -> None:
    import sys

    if size > MUCH and sys.stderr.isatty():
        print(f"envsnap: reading {size >> 20} MiB of dumps …", file=sys.stderr)


def _runs_in(folder: Path) -> list[Run]:
    from envsnap.jsonfile import SnapshotError
    from envsnap.runs.run import load

    files = sorted(p for p in folder.iterdir() if p.name.endswith((".json", ".json.gz")) and ".samples." not in p.name)
    if not files:
        raise SnapshotError(f"{folder} holds no runs.")
    return sorted((load(path) for path in files), key=lambda run: run.started_at)


def _looks_like_a_file(name: str) -> bool:
    """Whether a missing file is what should be complained of, rather than an unknown name."""
    ends = (".json", ".gz", ".txt", ".log", ".jsonl", ".xml", ".md")
    return "/" in name.removesuffix("/a").removesuffix("/b") or name.endswith(ends)
