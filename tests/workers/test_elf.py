"""The direct reader of ELF files against pyelftools, over every file there is here, and against garbage."""

from __future__ import annotations

import glob
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envsnap.reading import Missing, Why
from envsnap.workers import elf
from envsnap.workers.environ_symbol import NAMES
from tests.workers.running import compiled

FOLDERS = (
    "/usr/bin/*",
    "/usr/sbin/*",
    "/usr/lib/*.so*",
    "/usr/lib/x86_64-linux-gnu/*.so*",
    "/usr/lib/aarch64-linux-gnu/*.so*",
    "/usr/aarch64-linux-gnu/lib/*.so*",
    "/lib/ld-musl-*.so.1",
)


def files() -> list[str]:
    found = {os.path.realpath(path) for pattern in FOLDERS for path in glob.glob(pattern)}
    return sorted(path for path in found if os.path.isfile(path) and _magic(path) == b"\x7fELF\x02\x01")


def _magic(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(6)


class OnDisk:
    """A file read as if it were loaded, by its segments."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.image = elf.parse(data[: elf.HEAD_BYTES], self.at_offset)

    def at_offset(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]

    def at_address(self, address: int, size: int) -> bytes:
        for start, offset in sorted(self.image.loads, reverse=True):
            if address >= start:
                found = self.data[offset + address - start : offset + address - start + size]
                if len(found) == size:
                    return found
        raise Missing(Why.NOT_SUPPORTED, "outside")


def test_the_same_as_pyelftools_over_the_files_here() -> None:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    checked = defined = 0
    for i, path in enumerate(files()):
        data = Path(path).read_bytes()
        loaded = OnDisk(data)
        found = elf.dynamic_symbol(loaded.image, loaded.at_address, NAMES)
        # The oracle takes half a minute for all: every eighth, and those that are said to define it.
        if found is None and i % 8:
            continue
        with open(path, "rb") as file:
            oracle: Any = ELFFile(file)
            symbols = oracle.get_section_by_name(".dynsym")
            expected = None
            if isinstance(symbols, SymbolTableSection):
                expected = next(
                    (
                        s["st_value"]
                        for name in NAMES
                        for s in symbols.get_symbol_by_name(name) or ()
                        if s["st_shndx"] != "SHN_UNDEF"
                    ),
                    None,
                )
            notes = [
                note
                for segment in oracle.iter_segments("PT_NOTE")
                if segment["p_offset"] + segment["p_filesz"] <= elf.HEAD_BYTES
                for note in segment.iter_notes()
                if note["n_type"] == "NT_GNU_BUILD_ID"
            ]
        assert found == expected, path
        assert loaded.image.build_id == (notes[0]["n_desc"] if notes else ""), path
        checked += 1
        defined += expected is not None
    assert checked > 20, "too few ELF files here to mean anything"
    assert defined >= 2, "at least libc and one executable define environ"


@pytest.mark.parametrize("options", [("-static",), ("-static-pie",)])
def test_a_static_programs_own_table(options: tuple[str, ...]) -> None:
    from elftools.elf.elffile import ELFFile

    path = compiled(*options)
    loaded = OnDisk(Path(path).read_bytes())
    with open(path, "rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".symtab")
        (symbol,) = table.get_symbol_by_name("environ")
    assert elf.file_symbol(loaded.image, loaded.at_offset, NAMES) == symbol["st_value"]


def test_a_stripped_one_has_none() -> None:
    loaded = OnDisk(Path(compiled("-static", "-s")).read_bytes())
    assert elf.file_symbol(loaded.image, loaded.at_offset, NAMES) is None


def test_aarch64() -> None:
    """Compiled for it, not run there: position-dependent, with a copy relocation."""
    loaded = OnDisk(Path(compiled("-fno-pie", "-no-pie", compiler="aarch64-linux-gnu-gcc")).read_bytes())
    found = elf.dynamic_symbol(loaded.image, loaded.at_address, NAMES)
    assert found
    assert found > 0x400000


@pytest.mark.parametrize("broken", [b"", b"\x7fELF", b"MZ" + bytes(100), b"\x7fELF\x01\x01" + bytes(100)])
def test_what_is_no_64_bit_elf_file_is_refused(broken: bytes) -> None:
    with pytest.raises(Missing):
        elf.parse(broken)


@pytest.mark.parametrize("left", [-1, 0, 10, 55])
def test_program_headers_that_the_end_of_the_file_cuts_short_are_refused(left: int) -> None:
    data = bytearray(Path(compiled("-no-pie")).read_bytes())
    struct.pack_into("<Q", data, 32, len(data) - left)
    with pytest.raises(Missing, match="cut short"):
        OnDisk(bytes(data))


def test_a_section_table_that_the_end_of_the_file_cuts_short_holds_what_is_whole() -> None:
    data = bytearray(Path(compiled("-static")).read_bytes())
    (offset,) = struct.unpack_from("<Q", data, 40)
    loaded = OnDisk(bytes(data[: offset + 100]))
    assert elf.file_symbol(loaded.image, loaded.at_offset, NAMES) is None


def test_a_cyclic_hash_chain_ends() -> None:
    """A symbol that is its own successor, and a chain that never says stop."""
    data = bytearray(Path(compiled("-Wl,--hash-style=sysv", "-no-pie")).read_bytes())
    loaded = OnDisk(bytes(data))
    raw = loaded.at_address(*loaded.image.dynamic)  # type: ignore[misc]
    table = {tag: value for tag, value in struct.iter_unpack("<QQ", raw) if tag}
    reads = 0

    def endless(address: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        if address == table[4]:
            return struct.pack("<2I", 1, 1 << 30)
        if size == 4 and address > table[4]:
            return struct.pack("<I", 5)
        return loaded.at_address(address, size)

    assert elf.dynamic_symbol(loaded.image, endless, ("absent",)) is None
    assert reads < 4 * elf.MAX_CHAIN


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_never_hangs_or_raises_anything_else(data: st.DataObject) -> None:
    whole = Path(compiled("-no-pie")).read_bytes()
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 20))):
        at = data.draw(st.integers(0, 4095))
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        loaded = OnDisk(bytes(damaged))
        elf.dynamic_symbol(loaded.image, loaded.at_address, NAMES)
        elf.file_symbol(loaded.image, _exact(loaded), NAMES)
    except Missing:
        pass


def _exact(loaded: OnDisk) -> elf.Read:
    def read(offset: int, size: int) -> bytes:
        found = loaded.at_offset(offset, size)
        if len(found) != size:
            raise Missing(Why.NOT_SUPPORTED, "outside")
        return found

    return read
