"""Memory of many processes, in batches. Nothing is stopped: no process is attached to."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Generator, Mapping, Sequence
from typing import TypeVar

from envsnap.host import Host
from envsnap.reading import Error, Found, Missing, Unavailable, Value, Why

T = TypeVar("T")

Ranges = Sequence[tuple[int, int]]
"""(address, bytes) of each part wanted."""

Reader = Generator[Ranges, list[bytes], T]
"""Reads one process: yields the ranges it wants next, is sent their bytes, returns what it found or raises Missing.

A range comes back short where it runs into unmapped memory, empty where it begins there.
"""


def read_all(host: Host, wanted: Sequence[tuple[int, Ranges]]) -> list[list[bytes] | Unavailable]:
    """For each (pid, ranges) the bytes of its ranges, in one batch."""
    found = host.found([["memory", pid, [list(r) for r in ranges]] for pid, ranges in wanted])
    return [_decoded(f, len(ranges)) for f, (_, ranges) in zip(found, wanted)]


def together(host: Host, readers: Mapping[int, Reader[T]]) -> dict[int, T | Unavailable]:
    """Run one reader for each process (by pid) side by side: a batch for every round, not for every process."""
    result: dict[int, T | Unavailable] = {}
    wanted: dict[int, Ranges] = {}
    for pid, reader in readers.items():
        _advance(pid, reader, None, wanted, result)
    while wanted:
        asked = list(wanted.items())
        wanted = {}
        for (pid, _), answer in zip(asked, read_all(host, asked)):
            if isinstance(answer, Unavailable):
                result[pid] = answer
            else:
                _advance(pid, readers[pid], answer, wanted, result)
    return result


def _advance(
    pid: int,
    reader: Reader[T],
    answer: list[bytes] | None,
    wanted: dict[int, Ranges],
    result: dict[int, T | Unavailable],
) -> None:
    try:
        wanted[pid] = next(reader) if answer is None else reader.send(answer)
    except StopIteration as stop:
        result[pid] = stop.value
    except Missing as missing:
        result[pid] = Unavailable(missing.why, missing.detail)


def _decoded(found: Found, count: int) -> list[bytes] | Unavailable:
    if isinstance(found, Unavailable):
        return Unavailable(Why.GONE, "the process has ended") if found.why is Why.ABSENT else found
    if isinstance(found, Error):
        return Unavailable(Why.NOT_SUPPORTED, f"its memory cannot be read here: {found.message}")
    try:
        if isinstance(found, Value) and isinstance(found.value, list) and len(found.value) == count:
            return [base64.b64decode(part or "") for part in found.value]
    except (TypeError, ValueError, binascii.Error):
        pass
    return Unavailable(Why.NOT_SUPPORTED, "the machine gave a malformed answer about the process's memory")
