"""envsnap's own cache: answers of slow look-ups about files that hardly ever change.

The version inside a library of 400 MB, say. One small JSON file per subject in `$XDG_CACHE_HOME/envsnap`, owner-only.
It never matters for what a snapshot says, only for how long it takes: whatever is wrong with it (corrupt, foreign,
a link, a full or read-only disk), it counts as empty, and nothing is raised.

Only the live local machine may be looked up here (`Host.cacheable`): a recorded or a remote one has other files
under the same names.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envsnap.host import Host
from envsnap.jsonfile import open_beside
from envsnap.reading import Json
from envsnap.scope import Scope

FORMAT = "envsnap.cache.1"
MAX_FILE_BYTES = 1 << 20
MAX_ENTRY_BYTES = 1 << 14
SETTLED_SECONDS = 2.0


class Cache:
    """The answers held for one subject. Without a path it holds nothing, keeps nothing, and is as good as any."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._entries = _load(path) if path else {}
        self._changed = False

    def get(self, key: str) -> Json:
        """What is held under a key, None if nothing is."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._entries[key] = entry  # NOTE: to the end: what is used last is dropped last.
        return entry

    def put(self, key: str, value: Json) -> None:
        """Hold a JSON value under a key; written by `flush`."""
        if self._path and value is not None and self._entries.get(key) != value:
            self._entries.pop(key, None)
            self._entries[key] = value
            self._changed = True

    def flush(self) -> None:
        """Write what has changed, atomically; two writers at once leave one's file whole."""
        if self._path and self._changed:
            self._changed = False
            try:
                _write(self._path, _serialised(self._entries))
            except OSError:
                pass

    def recall(self, question: str, path: str, file: Mapping[str, Any]) -> tuple[Json] | None:
        """The answer kept for a question about a file's content, if the file is still the same; else None.

        `file` is the file's `Host.stat`.
        """
        held = self.get(f"{question} {path}")
        if isinstance(held, list) and len(held) == 2 and held[0] == _identity(file):
            return (held[1],)
        return None

    def remember(self, question: str, path: str, file: Mapping[str, Any], answer: Json) -> None:
        """Keep an answer for as long as the file stays the same.

        A file that changed within the last seconds could change again within one tick of its time stamp: not kept.
        """
        identity = _identity(file)
        if time.time() - max(identity[3] or 0, identity[4] or 0) / 1e9 > SETTLED_SECONDS:
            self.put(f"{question} {path}", [identity, answer])

    def remembered(self, question: str, path: str, file: Mapping[str, Any], look_up: Callable[[], Json]) -> Json:
        """The answer kept, or else looked up and kept. What `look_up` raises is raised, and not kept."""
        held = self.recall(question, path, file)
        if held:
            return held[0]
        answer = look_up()
        self.remember(question, path, file, answer)
        return answer


def _identity(file: Mapping[str, Any]) -> list[Any]:
    return [file.get(name) for name in ("device", "inode", "size", "mtime_ns", "ctime_ns")]


@contextmanager
def opened(host: Host, scope: Scope, subject: str) -> Iterator[Cache]:
    """The cache of a subject, flushed at the end. Empty where `scope` or the kind of host forbids one."""
    cache = Cache(_place(subject) if scope.cache and host.cacheable else None)
    try:
        yield cache
    finally:
        cache.flush()


def folder() -> Path | None:
    """Where the cache is or will be; None where there is no home to put it in."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: a relative one is to be ignored
        base = os.path.expanduser("~/.cache")
    return Path(base, "envsnap") if os.path.isabs(base) else None


def _place(subject: str) -> Path | None:
    """The file of a subject."""
    place = folder()
    return place / f"{subject}.json" if place else None


def _load(path: Path) -> dict[str, Json]:
    try:
        if not _is_own(os.lstat(path.parent), stat.S_ISDIR):
            return {}
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if not _is_own(os.fstat(fd), stat.S_ISREG):
                return {}
            data = file.read(MAX_FILE_BYTES + 1)
        document = json.loads(data) if len(data) <= MAX_FILE_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return {}
    entries = document.get("entries")
    return entries if isinstance(entries, dict) else {}


def _is_own(status: os.stat_result, of_kind: Callable[[int], bool]) -> bool:
    """Whether nobody else can have written it."""
    return of_kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _serialised(entries: dict[str, Json]) -> bytes:
    """As many of the entries as fit, those used last first in line, in their order."""
    kept: list[tuple[str, Json]] = []
    size = 64
    for key, value in reversed(entries.items()):
        length = len(json.dumps([key, value]))
        if length > MAX_ENTRY_BYTES:
            continue
        size += length
        if size > MAX_FILE_BYTES:
            break
        kept.append((key, value))
    return json.dumps({"format": FORMAT, "entries": dict(reversed(kept))}).encode("ascii")


def _write(path: Path, data: bytes) -> None:
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.parent.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_own(os.lstat(path.parent), stat.S_ISDIR):
            return
    handle, temporary = open_beside(path)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
