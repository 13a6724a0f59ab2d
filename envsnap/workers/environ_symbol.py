"""Where each process keeps its environment: the address of libc's `environ`, by what the process has mapped.

The main executable comes first: where it was linked to libc's variable by a copy relocation (the usual python3
of Debian and Ubuntu), that copy is the one in use and libc's own stays NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from envsnap.host import Host, HostError
from envsnap.reading import Missing, Unavailable, Why
from envsnap.workers import elf
from envsnap.workers.maps import Mapped, Maps
from envsnap.workers.memory import read_all

NAMES = ("environ", "__environ", "_environ")
PREFETCH_BYTES = 512 << 10
"""How much of a file's first mapping is fetched at once: it usually holds the symbol and hash tables."""
FILE_CHUNK_BYTES = 4 << 20


def addresses(host: Host, maps: Mapping[int, Maps]) -> dict[int, int | Unavailable]:
    """The address of the `environ` in use, for each process.

    One batch for the heads of all executables and C libraries; then a few reads for each distinct file.
    """
    wanted = [(pid, mapped) for pid, m in maps.items() for mapped in (m.program, m.libc) if mapped]
    heads = read_all(host, [(pid, [(mapped.start, elf.HEAD_BYTES)]) for pid, mapped in wanted])
    known = dict(zip(((pid, mapped.start) for pid, mapped in wanted), heads))
    result: dict[int, int | Unavailable] = {}
    for pid, m in maps.items():
        try:
            result[pid] = _address(host, pid, m, {start: head for (p, start), head in known.items() if p == pid})
        except Missing as missing:
            result[pid] = Unavailable(missing.why, missing.detail)
        except HostError as error:
            result[pid] = Unavailable(Why.NOT_SUPPORTED, str(error))
    return result


def _address(host: Host, pid: int, maps: Maps, heads: Mapping[int, list[bytes] | Unavailable]) -> int:
    dynamic = False
    for mapped in (maps.program, maps.libc):
        if mapped is None:
            continue
        head = heads[mapped.start]
        if isinstance(head, Unavailable):
            raise Missing(head.why, head.detail)
        image = elf.parse(head[0], lambda offset, size: _file_bytes(host, pid, offset, size))
        dynamic = dynamic or image.interpreter
        # NOTE: the build id alone names a file's content; with the file's identity beside it, which the kernel says,
        # a process that lies about its build id misleads only readers of its own file.
        key = f"environ:{mapped.file_id}:{mapped.path}:{image.build_id}:{mapped.end - mapped.start}"
        symbol = host.memo(key, partial(_symbol, host, pid, mapped, image, mapped is maps.program))
        if symbol is not None:
            return image.bias(mapped.start) + symbol
    if dynamic and maps.libc is None:
        raise Missing(Why.NOT_SUPPORTED, "it has no C library mapped: it has only just started, or uses another one")
    raise Missing(
        Why.NOT_SUPPORTED,
        "its program and C library name no environ: a static program without symbols, or one that keeps its own",
    )


def _symbol(host: Host, pid: int, mapped: Mapped, image: elf.Image, program: bool) -> int | None:
    if image.dynamic:
        memory = _Memory(host, pid, mapped, image)
        found = elf.dynamic_symbol(image, memory.read, NAMES, memory.bias)
        if found is not None:
            return found
    if program and not image.interpreter:
        return elf.file_symbol(image, lambda offset, size: _file_bytes(host, pid, offset, size), NAMES)
    return None


class _Memory:
    """Reads one mapped file's content by the file's own addresses, the bulk of it fetched at once."""

    def __init__(self, host: Host, pid: int, mapped: Mapped, image: elf.Image) -> None:
        self.bias = image.bias(mapped.start)
        self._host, self._pid = host, pid
        ranges = [(mapped.start, min(mapped.end - mapped.start, PREFETCH_BYTES))]
        if image.dynamic:
            ranges.append((image.dynamic[0] + self.bias, image.dynamic[1]))
        self._known = [(at, data) for (at, _), data in zip(ranges, self._fetch(ranges))]

    def read(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes. Raises: Missing."""
        at = address + self.bias
        for start, data in self._known:
            if start <= at and at + size <= start + len(data):
                return data[at - start : at - start + size]
        found = self._fetch([(at, size)])[0]
        if len(found) != size:
            raise Missing(Why.NOT_SUPPORTED, "not a well-formed ELF file: a pointer leads out of it")
        return found

    def _fetch(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        found = read_all(self._host, [(self._pid, ranges)])[0]
        if isinstance(found, Unavailable):
            raise Missing(found.why, found.detail)
        return found


def _file_bytes(host: Host, pid: int, offset: int, size: int) -> bytes:
    """Bytes of the executable's file, which this link reaches even where it was deleted or lies in a container."""
    parts = []
    while size > 0:
        part = host.read_bytes(f"/proc/{pid}/exe", offset, min(size, FILE_CHUNK_BYTES))
        if not part:
            raise Missing(Why.NOT_SUPPORTED, "not a well-formed ELF file: an offset leads out of it")
        parts.append(part)
        offset, size = offset + len(part), size - len(part)
    return b"".join(parts)
