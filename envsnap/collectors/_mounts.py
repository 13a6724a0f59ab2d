"""The mount table of the capturing process, read once a capture."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envsnap.host import Host


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo. `device` is MAJOR:MINOR; `root` is what of the file system is mounted at `point`."""

    device: str
    root: str
    point: str
    options: tuple[str, ...]
    type: str
    source: str
    super_options: tuple[str, ...]


def mounts(host: Host) -> tuple[Mount, ...]:
    """All mounts, in the order they were made. Raises: Missing where /proc does not tell."""
    return host.memo("mounts", lambda: parse_mountinfo(host.read("/proc/self/mountinfo")))


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """The mounts of a mountinfo file; lines of another form are passed over."""
    found = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if dash and len(left) >= 6 and len(right) >= 3:
            device, root, point, options = left[2:6]
            found.append(
                Mount(
                    device,
                    _unescaped(root),
                    _unescaped(point),
                    tuple(options.split(",")),
                    right[0],
                    _unescaped(right[1]),
                    tuple(right[2].split(",")),
                )
            )
    return tuple(found)


def mount_at(path: str, table: Iterable[Mount]) -> Mount | None:
    """The mount that holds a path without symbolic links; of two at one point the later, which covers the other."""
    holding = [m for m in table if m.point == "/" or path == m.point or path.startswith(m.point + "/")]
    longest = max((len(m.point) for m in holding), default=0)
    return next((m for m in reversed(holding) if len(m.point) == longest), None)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text) if "\\" in text else text
