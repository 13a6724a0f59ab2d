"""Source files that hold something else by now than what a worker has loaded: it runs what they no longer hold.

A file that was only touched, as by a checkout of another branch and back, is none: content decides, by the names that
Git gives it. The workers say what they loaded and when they were started.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from envsnap.host import Host
from envsnap.reading import Found, Value
from envsnap.workers.record_file import Record

MAX_FILES = 20_000
MAX_REREAD = 64
"""Files that are read again; what was changed in more files at once shows in some of them."""
MAX_BYTES = 4 << 20


def changed(host: Host, records: Sequence[Record]) -> list[list[str]]:
    """The files of each record that were changed, sorted."""
    loaded = [_loaded(record) for record in records]
    paths = list(dict.fromkeys(path for files in loaded for path in files))[:MAX_FILES]
    touched = dict(zip(paths, map(_changed_at, host.found([["stat", path] for path in paths]))))
    oldest = min((t for record in records if (t := _started(record)) is not None), default=0.0)
    suspicious = [path for path, at in touched.items() if at > oldest][:MAX_REREAD]
    now = dict(zip(suspicious, map(_blob, host.found([["read", path, MAX_BYTES] for path in suspicious]))))
    return [
        sorted(
            path.removeprefix(record.root)
            for path, blob in files.items()
            if now.get(path) and now[path] != blob and touched[path] > (_started(record) or touched[path])
        )
        for record, files in zip(records, loaded)
    ]


def _loaded(record: Record) -> dict[str, str]:
    """What it loaded: file, as it is found from here -> Git's name of its content."""
    files = record.part("code").get("files")
    held = list(files.items())[:MAX_FILES] if isinstance(files, dict) else []
    return {record.root + file: blob for file, blob in held if isinstance(blob, str) and blob}


def _started(record: Record) -> float | None:
    """Unix time from which on the worker watched itself."""
    since = record.content.get("watched_since")
    return float(since) if isinstance(since, (int, float)) else None


def _changed_at(found: Found) -> float:
    """When a regular file was changed last (Unix time); 0 for anything else."""
    return float(found.value["mtime_ns"]) / 1e9 if isinstance(found, Value) and found.value["type"] == "file" else 0.0


def _blob(answer: Found) -> str:
    """Git's name of a file's content; empty where it could not be read."""
    if not isinstance(answer, Value):
        return ""
    data = str(answer.value).encode("utf-8", "surrogateescape")
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
