"""One worker's record as a file: what is read of it, and whether it is believed.

It is as little to be trusted as any file: it counts only where it is a regular file of the user whose process it
tells about, is not too large, and says what it is. Whoever can write such a file can also be such a process.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envsnap.host import Host
from envsnap.reading import Error, Found, Json, Unavailable, Value, Why

FORMAT, VERSION = "envsnap.worker_record", 1

MAX_BYTES = 8 << 20
MAX_TOTAL_BYTES = 64 << 20
_AT_ONCE = 8


@dataclass(frozen=True)
class Record:
    """One worker's record, or why there is none.

    `state`: arrived; pending (the process has only just started); missing; stale (no longer renewed); failed (there
    is one, and it cannot be used). `reason` is empty only for one that has arrived.
    """

    role: str
    state: str
    reason: str = ""
    content: Mapping[str, Json] = field(default_factory=dict)
    renewed_at: float | None = None
    """When it was last written, or found to hold still (Unix time); None for a process that has ended."""
    age_seconds: float | None = None
    seen_from_outside: bool = False
    """Whether the process's live environment could be read without it."""
    root: str = ""
    """Where its files are found from here: in front of their names, for a process in another mount namespace."""

    def part(self, name: str) -> dict[str, Any]:
        """A part of the content; empty where it is missing or no object."""
        value = self.content.get(name)
        return value if isinstance(value, dict) else {}


def contents(host: Host, paths: Sequence[str]) -> list[Found]:
    """What each file holds, a few at a time: their sizes are anybody's choice."""
    found: list[Found] = []
    left = MAX_TOTAL_BYTES
    for start in range(0, len(paths), _AT_ONCE):
        batch = paths[start : start + _AT_ONCE]
        if left <= 0:
            found += [Unavailable(Why.TOO_LARGE, f"the records have more than {MAX_TOTAL_BYTES} bytes")] * len(batch)
            continue
        answers = host.found([["read_own", path, MAX_BYTES] for path in batch])
        left -= sum(len(answer.value["text"]) for answer in answers if isinstance(answer, Value))
        found += answers
    return found


def parsed(role: str, answer: Found, owners: Collection[int], seen_from_outside: bool) -> Record:
    """The record in a file's content, if it may be believed."""
    reason, content = "", None
    if not isinstance(answer, Value):
        reason = answer.message if isinstance(answer, Error) else str(answer)
    elif answer.value["uid"] not in owners:
        reason = "its file belongs to another user than the process"
    else:
        try:
            content = json.loads(answer.value["text"])
        except (ValueError, RecursionError):
            reason = "its file is no JSON"
    if not reason and (not isinstance(content, dict) or content.get("format") != FORMAT):
        reason = f"its file is no {FORMAT}"
    elif isinstance(content, dict) and content.get("version") != VERSION:
        reason = f"it has version {content.get('version')!r:.20}, and this envsnap reads {VERSION}"
    elif isinstance(content, dict) and not isinstance(content.get("environment"), dict):
        failed = content.get("failed")
        said = failed.get("record") if isinstance(failed, dict) else None
        reason = f"the worker could not make it: {said!s:.300}"
    if reason:
        return Record(role, "failed", reason, seen_from_outside=seen_from_outside)
    return Record(role, "arrived", "", content or {}, seen_from_outside=seen_from_outside)
