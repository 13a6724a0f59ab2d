"""Git's index as `git ls-files` lists it, and git's names of what it stores."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from envsnap.host import HostError
from envsnap.reading import Missing, Why

LISTING = ("ls-files", "-z", "-v", "-s", "-c", "-o", "--exclude-standard", "--debug")
"""The git command whose output this module understands: all that the index holds, and untracked files."""

MAX_DEPTH = 200
FILE, EXECUTABLE, LINK, SUBMODULE = "100644", "100755", "120000", "160000"

_ENTRY = re.compile(
    r"([?A-Za-z]) (?:([0-7]{6}) ([0-9a-f]{40,64}) ([0-3])\t)?([^\0]+)\0"
    r"(?:  ctime: (\d+:\d+\n  mtime: \d+:\d+)\n  dev: \d+\tino: (\d+)\n  uid: \d+\tgid: \d+\n"
    r"  size: (\d+)\tflags: [0-9a-f]+\n)?"
)


class Entry(NamedTuple):
    """A line of the listing, all of it text; an untracked file has a tag and a path alone."""

    tag: str
    mode: str
    blob: str
    stage: str
    path: str
    times: str
    inode: str
    size: str


class Version(NamedTuple):
    """A file as git would store it: its mode (six octal digits) and the hash of its blob."""

    mode: str
    blob: str


Row = tuple[str, ...]
"""An `Entry` before it is made one, which takes its time for thousands of files."""


def rows(listing: str) -> Iterator[Row]:
    """The lines of a listing. Raises: HostError where the output is not what `LISTING` prints."""
    position = 0
    for match in _ENTRY.finditer(listing):
        if match.start() != position:
            break
        position = match.end()
        yield match.groups("")
    if position != len(listing):
        raise HostError("git's listing of the index has an unknown form")


def tracked(listing: str) -> Iterator[Entry]:
    """What the index holds, by its listing. Raises: as `rows` does."""
    return (Entry._make(row) for row in rows(listing) if row[0] != "?")


def blob_name(data: bytes, algorithm: str) -> str:
    """Git's name of a blob with this content."""
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data).hexdigest()


def tree_name(files: Mapping[str, Version], algorithm: str) -> str:
    """Git's name of a tree with these files. Raises: Missing where no such tree can be."""
    top: dict[str, Any] = {}
    for path, version in files.items():
        *directories, name = path.split("/")
        if len(directories) > MAX_DEPTH:
            raise Missing(Why.TOO_LARGE, f"{path[:100]}… lies in {len(directories)} directories")
        at = top
        for directory in directories:
            at = at.setdefault(directory, {})
            if not isinstance(at, dict):
                raise Missing(Why.TORN, f"{path} lies below a file")
        at[name] = version
    return _hash_directory(top, algorithm).hex()


def _hash_directory(directory: dict[str, Any], algorithm: str) -> bytes:
    rows = []
    for name, entry in directory.items():
        data = name.encode("utf-8", "surrogateescape")
        if isinstance(entry, dict):
            rows.append((data + b"/", b"40000 " + data + b"\0" + _hash_directory(entry, algorithm)))
        else:
            rows.append((data, entry.mode.encode("ascii") + b" " + data + b"\0" + bytes.fromhex(entry.blob)))
    rows.sort()
    body = b"".join(row for _, row in rows)
    return hashlib.new(algorithm, b"tree %d\0" % len(body) + body).digest()
