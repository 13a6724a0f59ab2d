"""Source files that hold something else by now than what a worker has loaded: it runs what they no longer hold.

A file that was only touched, as by a checkout of another branch and back, is none: content decides, by the names that
Git gives it. One that is gone is none either: a script may remove itself. The workers say what they loaded and when
they were started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envsnap.host import Host
from envsnap.reading import Found, Unavailable, Value, Why
from envsnap.workers.record_file import Record

MAX_FILES = 20_000
MAX_REREAD = 64
"""Files that are read again; what was changed in more files at once shows in some of them."""
MAX_BYTES = 4 << 20


def changed(host: Host, records: Sequence[Record]) -> list[Found]:
    """The files of each record that were changed, sorted; unavailable where none is seen and not all can be read."""
    loaded = [_loaded(record) for record in records]
    paths = list(dict.fromkeys(path for files in loaded for path in files))[:MAX_FILES]
    stats = dict(zip(paths, host.found([["stat", path] for path in paths])))
    oldest = min((t for record in records if (t := _started(record)) is not None), default=0.0)
    suspicious = [path for path, stat in stats.items() if _touched(stat, oldest)][:MAX_REREAD]
    now = dict(zip(suspicious, host.found([["blob_hash", path, MAX_BYTES] for path in suspicious])))
    return [_of_record(record, files, stats, now) for record, files in zip(records, loaded)]


def _of_record(
    record: Record, loaded: Mapping[str, str], stats: Mapping[str, Found], now: Mapping[str, Found]
) -> Found:
    started = _started(record)
    told = {path: _is_changed(stats.get(path), now.get(path), blob, started) for path, blob in loaded.items()}
    found = [path.removeprefix(record.root) for path, is_changed in told.items() if is_changed]
    unseen = sum(is_changed is None for is_changed in told.values())
    if found or not loaded:
        return Value(sorted(found))
    if all(_is_gone(stats.get(path)) for path in loaded):
        return Unavailable(Why.ABSENT, "none of the files that the worker has loaded is there")
    if unseen:
        return Unavailable(Why.NOT_SUPPORTED, f"{unseen} of {len(loaded)} loaded files could not be looked at again")
    return Value([])


def _is_changed(stat: Found | None, again: Found | None, blob: str, started: float | None) -> bool | None:
    """Whether a file holds something else than was loaded; None where that cannot be told."""
    if _is_gone(stat):
        return False
    if started is None or not isinstance(stat, Value):
        return None
    if not _touched(stat, started):
        return False
    return bool(again.value["hash"] != blob) if isinstance(again, Value) else None


def _loaded(record: Record) -> dict[str, str]:
    """What it loaded: file, as it is found from here -> Git's name of its content."""
    files = record.part("code").get("files")
    held = list(files.items())[:MAX_FILES] if isinstance(files, dict) else []
    return {record.root + file: blob for file, blob in held if isinstance(blob, str) and blob}


def _started(record: Record) -> float | None:
    """Unix time from which on the worker watched itself."""
    since = record.content.get("watched_since")
    return float(since) if isinstance(since, (int, float)) else None


def _touched(stat: Found | None, since: float) -> bool:
    """Whether a regular file was changed, or written anew, after that."""
    is_file = isinstance(stat, Value) and stat.value["type"] == "file"
    return is_file and isinstance(stat, Value) and float(stat.value["mtime_ns"]) / 1e9 > since


def _is_gone(stat: Found | None) -> bool:
    return isinstance(stat, Unavailable) and stat.why is Why.ABSENT
