"""The environment that a process has now, from outside: libc's `environ` array, read in its memory.

/proc/PID/environ is the environment at exec, without what was set since, and a process that retitles itself
overwrites it. The array is what `getenv` searches, so it also holds what C code set (NCCL, from nccl.conf), which
Python's `os.environ` never shows. The process goes on while it is read, and it is not trusted: every count and
size is bounded, and what was read counts only where a second reading finds the same.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from envsnap.host import Host
from envsnap.reading import Missing, Unavailable, Value, Why
from envsnap.workers import environ_symbol, maps
from envsnap.workers.memory import Ranges, Reader, together
from envsnap.workers.tree import TICKS_PER_SECOND, parse

MAX_VARIABLES = 4096
MAX_BYTES = 8 << 20
"""All that is read of one process in one round."""
READINGS = 4
"""How often a process is read at most until a reading is confirmed."""

_FIRST_POINTERS = 512
"""So many are read at first of the array, and more only where they do not suffice."""
_NEAR_BYTES = 4096
"""Strings closer than this are read together: a few unwanted bytes cost less than another call."""
_STRING_BYTES = (1 << 10, 64 << 10, 2 << 20)
"""How much is read of a string, step by step until it ends."""
_YOUNG_SECONDS = 1.0
"""Within this time from its exec, a process without any environment may not have set it up yet."""


@dataclass(frozen=True)
class Environment:
    """A process's live environment. Where `torn` is not empty it is incomplete: those changed while it was read."""

    variables: Mapping[str, str]
    torn: tuple[str, ...] = ()


def read_all(
    host: Host, pids: Sequence[int], mapped: Mapping[int, maps.Maps | Unavailable] | None = None
) -> dict[int, Environment | Unavailable]:
    """The live environment of each process; `mapped` saves reading again what each has mapped.

    Unavailable: denied, gone, not_supported (there is no environ to be found), clobbered (its array is broken),
    too_large, torn. Six round trips and a few for each distinct executable and libc, whatever the number of pids.
    """
    result = _read(host, mapped if mapped is not None else maps.read_all(host, pids))
    # A process may have replaced itself by exec meanwhile, so that its addresses no longer hold.
    again = [
        pid for pid, r in result.items() if isinstance(r, Unavailable) and r.why not in (Why.DENIED, Why.TOO_LARGE)
    ]
    if again:
        result.update(_read(host, maps.read_all(host, again)))
    return {
        **result,
        **_young(host, [pid for pid, r in result.items() if isinstance(r, Environment) and not r.variables]),
    }


def _read(host: Host, mapped: Mapping[int, maps.Maps | Unavailable]) -> dict[int, Environment | Unavailable]:
    result: dict[int, Environment | Unavailable] = {p: m for p, m in mapped.items() if isinstance(m, Unavailable)}
    places = environ_symbol.addresses(host, {p: m for p, m in mapped.items() if isinstance(m, maps.Maps)})
    result.update({pid: place for pid, place in places.items() if isinstance(place, Unavailable)})
    result.update(together(host, {pid: _confirmed(place) for pid, place in places.items() if isinstance(place, int)}))
    return result


@dataclass(frozen=True)
class _Reading:
    """One pass over the array at `pointer`: its raw entries, and the string at each of their addresses.

    `broken` says why it has no strings; that counts only if the array stays as it is.
    """

    pointer: int
    table: bytes
    strings: Mapping[int, bytes]
    broken: Missing | None = None

    @property
    def entries(self) -> tuple[int, ...]:
        return struct.unpack(f"<{len(self.table) // 8}Q", self.table)

    def variables(self, without: Collection[int] = ()) -> dict[str, str]:
        """Name -> value as getenv finds them: the first of a name counts, what has no `=` is no variable."""
        found: dict[str, str] = {}
        names = set()
        for entry in self.entries:
            name, separator, value = self.strings[entry].decode("utf-8", "surrogateescape").partition("=")
            if separator and name and name not in names:
                names.add(name)
                if entry not in without:
                    found[name] = value
        return found


def _confirmed(place: int) -> Reader[Environment]:
    """Read until a second look finds the same array and the same strings."""
    for _ in range(READINGS):
        reading = yield from _reading(place)
        spans = _spans([(at, len(text) + 1) for at, text in reading.strings.items()])
        pointer, table, *parts = yield [(place, 8), (reading.pointer, len(reading.table)), *spans]
        now = set(struct.unpack(f"<{len(table) // 8}Q", table[: len(table) & ~7]))
        changed = {
            at
            for at, text in reading.strings.items()
            if at not in now or _piece(at, len(text) + 1, spans, parts) != text + b"\0"
        }
        moved = int.from_bytes(pointer, "little") != reading.pointer
        if not moved and table == reading.table and not changed:
            if reading.broken:
                raise reading.broken
            return Environment(reading.variables())
    # NOTE: an array that moved may have been freed while it was read: nothing in it can be trusted.
    steady = {} if moved or reading.broken else reading.variables(without=changed)
    torn = reading.variables().keys() - steady.keys() if steady else ()
    if not torn:
        raise Missing(Why.TORN, f"it changed each of the {READINGS} times that it was read")
    return Environment(steady, tuple(sorted(torn)))


def _reading(place: int) -> Generator[Ranges, list[bytes], _Reading]:
    raw = (yield [(place, 8)])[0]
    if len(raw) < 8:
        raise Missing(Why.GONE, "the process has ended, or replaced itself while it was read")
    pointer = int.from_bytes(raw, "little")
    if pointer == 0:
        return _Reading(0, b"", {})
    for pointers in (_FIRST_POINTERS, MAX_VARIABLES + 1):
        raw = (yield [(pointer, 8 * pointers)])[0]
        raw = raw[: len(raw) & ~7]
        entries = struct.unpack(f"<{len(raw) // 8}Q", raw)
        if 0 in entries:
            break
    else:
        endless = Missing(Why.TOO_LARGE, f"its environment has more than {MAX_VARIABLES} variables, or no end")
        cut = Missing(Why.CLOBBERED, "its environ array runs into unmapped memory")
        return _Reading(pointer, raw, {}, endless if len(entries) > MAX_VARIABLES else cut)
    count = entries.index(0)
    try:
        strings = yield from _strings(sorted(set(entries[:count])))
    except Missing as missing:
        return _Reading(pointer, raw[: 8 * count], {}, missing)
    return _Reading(pointer, raw[: 8 * count], strings)


def _strings(addresses: Sequence[int]) -> Generator[Ranges, list[bytes], dict[int, bytes]]:
    """The bytes at each address up to their NUL."""
    found: dict[int, bytes] = {}
    wanted = addresses
    for size in _STRING_BYTES:
        spans = _spans([(at, size) for at in wanted])
        if sum(length for _, length in spans) > MAX_BYTES:
            break
        parts = (yield spans) if spans else []
        unended = []
        for at in wanted:
            piece = _piece(at, size, spans, parts)
            text, end, _ = piece.partition(b"\0")
            if end:
                found[at] = text
            elif len(piece) < size:
                raise Missing(Why.CLOBBERED, "its environ array points to unmapped memory")
            else:
                unended.append(at)
        wanted = unended
        if not wanted:
            return found
    raise Missing(Why.TOO_LARGE, f"{len(wanted)} variables of its environment are too long, or have no end")


def _spans(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that cover all (address, bytes) pieces, near ones in one range; sorted, without overlap."""
    spans: list[tuple[int, int]] = []
    for at, size in sorted(pieces):
        if spans and at <= spans[-1][0] + spans[-1][1] + _NEAR_BYTES:
            start, length = spans[-1]
            spans[-1] = (start, max(length, at + size - start))
        else:
            spans.append((at, size))
    return spans


def _piece(at: int, size: int, spans: Sequence[tuple[int, int]], parts: Sequence[bytes]) -> bytes:
    """What was read at (address, bytes), out of the span that covers it; shorter where memory ended."""
    i = bisect.bisect_right(spans, (at, 1 << 64)) - 1
    start = at - spans[i][0]
    return parts[i][start : start + size]


def _young(host: Host, pids: Sequence[int]) -> dict[int, Unavailable]:
    """Those of the processes without environment that have only just been started."""
    if not pids:
        return {}
    uptime, *stats = host.found([["read", "/proc/uptime"], *(["read", f"/proc/{pid}/stat"] for pid in pids)])
    young = {}
    for pid, stat in zip(pids, stats):
        if isinstance(stat, Value) and isinstance(uptime, Value):
            age = float(str(uptime.value).split()[0]) - parse(str(stat.value))[0].start_ticks / TICKS_PER_SECOND
            if age < _YOUNG_SECONDS:
                young[pid] = Unavailable(Why.TORN, "it has only just started")
    return young
