"""A direct reader of the few things wanted from an ELF file: one symbol's address and the build id.

`elftools` does the same at 34 ms for its import alone, and needs the file; this reads what a process has mapped,
which is right even where the file was replaced or lies in another mount namespace. What it reads is not trusted:
every count is bounded and no chain is followed without end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from envsnap.reading import Missing, Why

HEAD_BYTES = 4096
"""How much of a file's beginning `parse` wants: header, program headers and usually the notes."""
MAX_SEGMENTS = 64
MAX_DYNAMIC_BYTES = 1 << 16
MAX_CHAIN = 4096
MAX_TABLE_BYTES = 64 << 20

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5
_SHT_SYMTAB = 2
_SYMBOL = struct.Struct("<IBBHQQ")

Read = Callable[[int, int], bytes]
"""Reads exactly so many bytes at an address. Raises: Missing."""


@dataclass(frozen=True)
class Image:
    """What the head of a 64-bit little-endian ELF file says; addresses are the file's own, before loading."""

    loads: tuple[tuple[int, int], ...]
    """(address, file offset) of every loaded segment."""
    dynamic: tuple[int, int] | None
    """(address, bytes) of the dynamic section; None for a static program."""
    interpreter: bool
    """Whether a dynamic loader starts it."""
    build_id: str
    sections: tuple[int, int]
    """(file offset, count) of the section headers."""

    def bias(self, start: int) -> int:
        """What loading has added to the file's addresses, given where the mapping of file offset 0 begins."""
        for address, offset in self.loads:
            if offset < HEAD_BYTES:
                return start - (address - offset)
        raise _malformed("no segment holds its header")


def parse(head: bytes, read: Read | None = None) -> Image:
    """Read a file's head. Raises: Missing where it is no ELF file of this kind.

    `read` takes file offsets; without it, program headers that patching has moved out of the head are not found.
    """
    if len(head) < 64 or head[:4] != b"\x7fELF":
        raise _malformed("no ELF header")
    if head[4:6] != b"\x02\x01":
        raise Missing(Why.NOT_SUPPORTED, "only 64-bit little-endian programs are understood")
    phoff, shoff = struct.unpack_from("<QQ", head, 32)
    entry, count, section_entry, sections = struct.unpack_from("<HHHH", head, 54)
    if entry != 56 or count > MAX_SEGMENTS:
        raise _malformed("its program headers")
    if phoff + count * 56 <= len(head):
        headers = head[phoff : phoff + count * 56]
    elif read:
        headers = read(phoff, count * 56)
    else:
        raise _malformed("its program headers are elsewhere")
    if len(headers) != count * 56:
        raise _malformed("its program headers are cut short")
    loads, dynamic, interpreter, build_id = [], None, False, ""
    for kind, _, offset, address, _, file_bytes, memory_bytes, _ in struct.iter_unpack("<IIQQQQQQ", headers):
        if kind == _PT_LOAD:
            loads.append((address, offset))
        elif kind == _PT_DYNAMIC:
            dynamic = (address, min(memory_bytes, MAX_DYNAMIC_BYTES))
        elif kind == _PT_INTERP:
            interpreter = True
        elif kind == _PT_NOTE:
            build_id = build_id or _build_id(head[offset : offset + file_bytes])
    return Image(tuple(loads), dynamic, interpreter, build_id, (shoff, sections if section_entry == 64 else 0))


def _build_id(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_bytes, size, kind = struct.unpack_from("<III", notes, at)
        content = at + 12 + (name_bytes + 3 & ~3)
        if kind == 3 and notes[at + 12 : at + 16] == b"GNU\0" and content + size <= len(notes) and size <= 64:
            return notes[content : content + size].hex()
        at = content + (size + 3 & ~3)
    return ""


def dynamic_symbol(image: Image, read: Read, names: Iterable[str], bias: int = 0) -> int | None:
    """The address (before loading) of the first of `names` that the file defines for others, or None.

    `read` takes addresses before loading. `bias` is needed where memory is read, since the loader has then
    added it to the pointers in the dynamic section (musl's does not). Raises: Missing.
    """
    if image.dynamic is None:
        return None
    raw = read(*image.dynamic)
    table: dict[int, int] = {}
    for tag, value in struct.iter_unpack("<QQ", raw[: len(raw) & ~15]):
        if tag == 0:
            break
        table.setdefault(tag, value - bias if tag in _POINTERS and value >= bias else value)
    if _DT_SYMTAB not in table or _DT_STRTAB not in table:
        return None
    if _DT_GNU_HASH in table:
        candidates = _gnu_candidates(read, table[_DT_GNU_HASH])
    elif _DT_HASH in table:
        candidates = _sysv_candidates(read, table[_DT_HASH])
    else:
        return None
    for name in names:
        encoded = name.encode() + b"\0"
        for index in candidates(name):
            offset, _, _, section, value, _ = _SYMBOL.unpack(read(table[_DT_SYMTAB] + 24 * index, 24))
            if section and value and read(table[_DT_STRTAB] + offset, len(encoded)) == encoded:
                return int(value)
    return None


_POINTERS = (_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH)


def _gnu_candidates(read: Read, at: int) -> Callable[[str], Iterable[int]]:
    bucket_count, first, bloom_words, _ = struct.unpack("<4I", read(at, 16))
    if not bucket_count:
        raise _malformed("its hash table")
    buckets = at + 16 + 8 * bloom_words
    chains = buckets + 4 * bucket_count

    def candidates(name: str) -> Iterable[int]:
        wanted = 5381
        for char in name.encode():
            wanted = wanted * 33 + char & 0xFFFFFFFF
        index = _word(read, buckets + 4 * (wanted % bucket_count))
        for _ in range(MAX_CHAIN if index >= first else 0):
            value = _word(read, chains + 4 * (index - first))
            if value | 1 == wanted | 1:
                yield index
            if value & 1:
                return
            index += 1

    return candidates


def _sysv_candidates(read: Read, at: int) -> Callable[[str], Iterable[int]]:
    bucket_count, chain_count = struct.unpack("<2I", read(at, 8))
    if not bucket_count:
        raise _malformed("its hash table")

    def candidates(name: str) -> Iterable[int]:
        wanted = 0
        for char in name.encode():
            wanted = (wanted << 4) + char
            high = wanted & 0xF0000000
            wanted = (wanted ^ high >> 24) & ~high
        index = _word(read, at + 8 + 4 * (wanted % bucket_count))
        for _ in range(min(MAX_CHAIN, chain_count)):
            if not 0 < index < chain_count:
                return
            yield index
            index = _word(read, at + 8 + 4 * (bucket_count + index))

    return candidates


def _word(read: Read, address: int) -> int:
    return int.from_bytes(read(address, 4), "little")


def file_symbol(image: Image, read: Read, names: Iterable[str]) -> int | None:
    """The address of a symbol in a static program's own table, which is not loaded: `read` takes file offsets.

    None where the program is stripped. Raises: Missing.
    """
    offset, count = image.sections
    if not offset or not count:
        return None
    raw = read(offset, 64 * min(count, 4096))
    headers = list(struct.iter_unpack("<IIQQQQIIQQ", raw[: len(raw) & ~63]))
    symbols = next((h for h in headers if h[1] == _SHT_SYMTAB), None)
    if symbols is None or symbols[6] >= len(headers):
        return None
    strings = headers[symbols[6]]
    if symbols[5] + strings[5] > MAX_TABLE_BYTES:
        raise Missing(Why.TOO_LARGE, "its symbol table has more than 64 MB")
    texts, table = read(strings[4], strings[5]), read(symbols[4], symbols[5])
    for name in names:
        wanted = _places(texts, name.encode() + b"\0")
        for offset, _, _, section, value, _ in _SYMBOL.iter_unpack(table[: len(table) // 24 * 24]):
            if offset in wanted and section and value:
                return int(value)
    return None


def _places(texts: bytes, wanted: bytes) -> set[int]:
    """Every offset at which a name begins; one can be the end of a longer one that linkers share."""
    found: set[int] = set()
    at = texts.find(wanted)
    while at >= 0 and len(found) < MAX_CHAIN:
        found.add(at)
        at = texts.find(wanted, at + 1)
    return found


def _malformed(what: str) -> Missing:
    return Missing(Why.NOT_SUPPORTED, f"not a well-formed ELF file: {what}")
