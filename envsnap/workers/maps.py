"""What a process has mapped: /proc/PID/maps, reduced to the first mapping of every file."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from envsnap.host import Host
from envsnap.reading import Error, Unavailable, Value, Why

MAPS_LIMIT = 16 << 20

_HEX = re.compile(r"[0-9a-f]{1,16}\Z")
_LIBC = re.compile(r"(?:libc\.so\.6|libc-2\.\d+\.so|libc\.so|ld-musl-.+\.so\.1|libc\.musl-.+\.so\.1)\Z")


class Mapped(NamedTuple):
    """One file that a process has mapped, by its first mapping (addresses in bytes)."""

    path: str
    """As the kernel names it; in another mount namespace it holds under /proc/PID/root."""
    deleted: bool
    """The file was replaced or removed since: what runs is not what a path now names."""
    file_id: str
    """Device and inode, equal for all mappings of one file."""
    start: int
    end: int

    @property
    def name(self) -> str:
        """The file's name without directories."""
        return posixpath.basename(self.path)


@dataclass(frozen=True)
class Maps:
    """All files that a process has mapped, in address order, and its executable."""

    files: tuple[Mapped, ...]
    executable: str
    """Path of the executable, as `files` spell it."""

    @property
    def program(self) -> Mapped | None:
        """The executable's mapping."""
        return next((m for m in self.files if m.path == self.executable), None)

    @property
    def libc(self) -> Mapped | None:
        """The C library's mapping; None for a static program, or one that has only just started."""
        return next((m for m in self.files if _LIBC.match(m.name)), None)


def read_all(host: Host, pids: Sequence[int]) -> dict[int, Maps | Unavailable]:
    """What each process has mapped, in one batch: unavailable as denied, or gone for one that has ended."""
    requests = [r for pid in pids for r in (["read", f"/proc/{pid}/maps", MAPS_LIMIT], ["link", f"/proc/{pid}/exe"])]
    found = host.found(requests)
    result: dict[int, Maps | Unavailable] = {}
    for pid, text, link in zip(pids, found[::2], found[1::2]):
        if isinstance(text, Value) and isinstance(link, Value) and text.value:
            result[pid] = Maps(parse(str(text.value)), str(link.value).removesuffix(" (deleted)"))
        else:
            result[pid] = ended(text if not isinstance(text, Value) else link)
    return result


def ended(found: object) -> Unavailable:
    """Why a file below /proc/PID could not be read: where it is absent or empty, the process has ended."""
    if isinstance(found, Unavailable) and found.why is not Why.ABSENT:
        return found
    if isinstance(found, Error):
        return Unavailable(Why.NOT_SUPPORTED, found.message)
    return Unavailable(Why.GONE, "the process has ended")


def parse(text: str) -> tuple[Mapped, ...]:
    """The first mapping of every file in the text of a maps file: the one at offset 0, which holds its header."""
    files: dict[tuple[str, str], Mapped] = {}
    for line in text.split("\n"):
        # NOTE: a CUDA process has thousands of lines that are not wanted, so each is looked at as little as possible.
        if "/" in line and " 00000000 " in line:
            fields = line.split(None, 5)
            start, _, end = fields[0].partition("-")
            if len(fields) < 6 or not _HEX.match(start) or not _HEX.match(end):
                continue
            file_id, path = f"{fields[3]}:{fields[4]}", fields[5]
            if (file_id, path) not in files:
                name = path.removesuffix(" (deleted)")
                files[file_id, path] = Mapped(name, name != path, file_id, int(start, 16), int(end, 16))
    return tuple(files.values())
