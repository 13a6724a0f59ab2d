"""Files in /dev/shm: which of them processes hold, and the removal of those that nobody holds any more.

An engine that is killed leaves its segments there, and they keep their memory until the next boot.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from envsnap.host import Host
from envsnap.reading import Unavailable, Value, Why

FOLDER = "/dev/shm"
_MAPS_LIMIT = 16 << 20


def listed() -> frozenset[str]:
    """The names there."""
    try:
        return frozenset(os.listdir(FOLDER))
    except OSError:
        return frozenset()


def held_by(host: Host, pids: Collection[int]) -> frozenset[str]:
    """The names that these processes have open or mapped, as far as this user may see."""
    found = set(_mapped(_maps(host, pids).values()))
    links = host.found([["links", f"/proc/{pid}/fd", f"^{FOLDER}/"] for pid in pids])
    targets = (target for answer in links if isinstance(answer, Value) for target in answer.value.values())
    return frozenset(found | {_name(target) for target in targets})


def remove_unheld(host: Host, names: Iterable[str]) -> list[str]:
    """Remove those of this user's files of these names that no process holds; what was removed.

    Nothing is where it cannot be told who holds what. Processes of other users may not be seen.
    """
    own = sorted(name for name in names if _owner(name) == os.geteuid())
    held = _held_by_any(host) if own else None
    gone = [name for name in own if held is not None and name not in held]
    for name in gone:
        Path(FOLDER, name).unlink(missing_ok=True)
    return gone


def _held_by_any(host: Host) -> frozenset[str] | None:
    """The names that some process holds; None where that cannot be told."""
    maps = _maps(host, [int(name) for name in os.listdir("/proc") if name.isdigit()])
    if any(not isinstance(m, (Value, Unavailable)) or getattr(m, "why", None) is Why.TOO_LARGE for m in maps.values()):
        return None
    open_ = host.one("holders", f"{FOLDER}/", 65_536, 10.0)
    files = {_name(str(path)) for holder in open_["holders"] for path in holder["files"]}
    return frozenset({*_mapped(maps.values()), *files}) if open_["complete"] else None


def _maps(host: Host, pids: Collection[int]) -> dict[str, object]:
    return dict(host.read_all([f"/proc/{pid}/maps" for pid in pids], _MAPS_LIMIT))


def _mapped(maps: Iterable[object]) -> Iterable[str]:
    for answer in maps:
        if isinstance(answer, Value) and FOLDER in str(answer.value):
            yield from (_name(line) for line in str(answer.value).split("\n") if f" {FOLDER}/" in line)


def _name(text: str) -> str:
    return text.partition(f"{FOLDER}/")[2].removesuffix(" (deleted)")


def _owner(name: str) -> int | None:
    try:
        return os.lstat(f"{FOLDER}/{name}").st_uid
    except OSError:
        return None
