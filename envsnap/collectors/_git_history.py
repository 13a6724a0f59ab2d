"""Where HEAD is, how it came there, and what git's own files tell beside: stashes, an operation under way."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime, timezone

from envsnap.collectors._git_find import Place
from envsnap.host import Host, HostError, value_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt

HISTORY = ("rev-list", "--encoding=UTF-8", "--format=%H%x00%T%x00%ct%x00%s%x00", "HEAD", "--")
"""The git command that lists commits, newest first; `--max-count` bounds it."""
_COMMIT = re.compile(r"commit [0-9a-f]+\n([0-9a-f]+)\0([0-9a-f]+)\0(-?\d+)\0([^\0]*)\0\n")

LOG_BYTES = 64 << 10
"""How much of the end of a log is read: some 400 moves."""

TEXT_LIMIT = 300
"""Characters that are kept of a message."""

_MARKS = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry_pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}
_REFTABLE = Unavailable(Why.NOT_SUPPORTED, "the repository keeps its logs in a reftable")
_USER = re.compile(r"(\w[\w+.-]*://)[^/\s]*@")


@dataclass(frozen=True)
class Commit:
    """A commit: its hash, its tree's, when it was committed (ISO 8601, UTC), the first line of its message."""

    commit: str
    tree: str
    time: str
    subject: str


def history(output: str) -> list[Commit]:
    """The commits that `HISTORY` printed. Raises: HostError where there is none."""
    found = [
        Commit(commit, tree, iso_time(int(seconds)), subject[:TEXT_LIMIT])
        for commit, tree, seconds, subject in _COMMIT.findall(output)
    ]
    if not found:
        raise HostError("git's history has an unknown form")
    return found


@dataclass(frozen=True)
class Move:
    """An entry of a reflog: what was moved to, when (ISO 8601, UTC), and by which command."""

    commit: str
    time: str
    message: str


@dataclass(frozen=True)
class Logs:
    """The readings; values are a list of `Move`, oldest first, and so on."""

    head: Found
    stashes: Found
    in_progress: Found
    shallow: Found
    worktree_count: Found
    index_mtime_ns: int
    """0 where there is no index."""


def logs(host: Host, place: Place) -> Logs:
    """Read them in one batch."""
    git, common = place.git_dir, place.common_dir
    head, stashes, index, shallow, worktrees, *marks = host.found(
        [
            ["bytes", f"{git}/logs/HEAD", -LOG_BYTES, LOG_BYTES],
            ["bytes", f"{common}/logs/refs/stash", -LOG_BYTES, LOG_BYTES],
            ["stat", f"{git}/index"],
            ["stat", f"{common}/shallow"],
            ["list", f"{common}/worktrees"],
            *(["stat", f"{git}/{name}", False] for name in _MARKS),
        ]
    )
    return Logs(
        head=_REFTABLE if place.reftable else attempt(lambda: _moves(head)),
        stashes=_REFTABLE if place.reftable else attempt(lambda: _moves(stashes, all_of_it=True)),
        in_progress=attempt(lambda: sorted({_MARKS[name] for name, found in zip(_MARKS, marks) if _present(found)})),
        shallow=attempt(lambda: _present(shallow) and value_of(shallow)["size"] > 0),
        worktree_count=attempt(
            lambda: (0 if place.bare else 1) + (len(value_of(worktrees)) if _present(worktrees) else 0)
        ),
        index_mtime_ns=index.value["mtime_ns"] if isinstance(index, Value) else 0,
    )


def _present(found: Found) -> bool:
    """Whether it exists. Raises: Missing or HostError where that cannot be told."""
    try:
        value_of(found)
    except Missing as missing:
        if missing.why is Why.ABSENT:
            return False
        raise
    return True


def _moves(found: Found, all_of_it: bool = False) -> list[Move]:
    if not _present(found):
        return []
    data = base64.b64decode(value_of(found))
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    if all_of_it and len(data) >= LOG_BYTES:
        raise Missing(Why.TOO_LARGE, f"the log has more than {LOG_BYTES} bytes")
    return [move for line in lines if (move := _move(line))]


def _move(line: str) -> Move | None:
    match = re.match(r"[0-9a-f]+ ([0-9a-f]{40,64}) [^\t]*> (\d{1,12}) [+-]\d{4}(?:\t(.*))?\Z", line)
    if not match:
        return None
    return Move(match.group(1), iso_time(int(match.group(2))), without_user(match.group(3) or "")[:TEXT_LIMIT])


def iso_time(seconds: int) -> str:
    """A moment of Unix time as ISO 8601 in UTC; an empty string where no calendar has it."""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def without_user(text: str) -> str:
    """Text whose URLs have lost user name and password."""
    return _USER.sub(r"\1", text)
