"""What a process has mapped."""

from __future__ import annotations

import os
import sys

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from envsnap.workers import maps
from envsnap.workers.maps import Mapped, Maps
from tests.fakes import FakeHost
from tests.workers.running import python_program, reported, running

TEXT = """\
00400000-00420000 r--p 00000000 08:01 100                                /usr/bin/python3.12
00420000-00800000 r-xp 00020000 08:01 100                                /usr/bin/python3.12
01234000-01345000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7f0000100000-7f0000126000 r--p 00000000 08:01 200                        /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000126000-7f0000200000 r-xp 00026000 08:01 200                        /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000300000-7f0000400000 r--p 00000000 08:01 300                        /opt/a b/libnccl.so.2 (deleted)
7f0000500000-7f0000600000 r--p 00000000 08:01 300                        /opt/a b/libnccl.so.2 (deleted)
7f0000700000-7f0000800000 r--p 00000000 08:01 301                        /opt/a b/libnccl.so.2
7f0000900000-7f0000a00000 rw-s 00000000 00:05 9                          /dev/nvidia0
garbage 00000000 / x
zz-yy r--p 00000000 08:01 1 /not/hexadecimal
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""


def test_every_file_once_by_the_mapping_that_holds_its_header() -> None:
    assert maps.parse(TEXT) == (
        Mapped("/usr/bin/python3.12", False, "08:01:100", 0x400000, 0x420000),
        Mapped("/usr/lib/x86_64-linux-gnu/libc.so.6", False, "08:01:200", 0x7F0000100000, 0x7F0000126000),
        Mapped("/opt/a b/libnccl.so.2", True, "08:01:300", 0x7F0000300000, 0x7F0000400000),
        Mapped("/opt/a b/libnccl.so.2", False, "08:01:301", 0x7F0000700000, 0x7F0000800000),
        Mapped("/dev/nvidia0", False, "00:05:9", 0x7F0000900000, 0x7F0000A00000),
    )


def test_the_program_and_its_c_library() -> None:
    found = Maps(maps.parse(TEXT), "/usr/bin/python3.12")
    assert found.program
    assert found.program.start == 0x400000
    assert found.libc
    assert found.libc.name == "libc.so.6"
    assert Maps(maps.parse(TEXT), "/elsewhere").program is None


def test_names_of_c_libraries() -> None:
    for name in ("libc.so.6", "libc-2.31.so", "ld-musl-x86_64.so.1", "ld-musl-aarch64.so.1"):
        files = maps.parse(f"1000-2000 r--p 00000000 08:01 1 /lib/{name}\n")
        assert Maps(files, "").libc, name
    for name in ("libcap.so.2", "libc++.so.1", "libcudart.so.12", "ld-linux-x86-64.so.2"):
        files = maps.parse(f"1000-2000 r--p 00000000 08:01 1 /lib/{name}\n")
        assert Maps(files, "").libc is None, name


def test_a_deleted_executable_is_still_the_program() -> None:
    host = FakeHost(
        files={"/proc/7/maps": "1000-2000 r--p 00000000 08:01 1 /v/bin/python (deleted)\n"},
        links={"/proc/7/exe": "/v/bin/python (deleted)"},
    )
    found = maps.read_all(host, [7])[7]
    assert isinstance(found, Maps)
    assert found.program
    assert found.program.deleted


def test_empty_maps_are_those_of_a_process_that_has_ended() -> None:
    host = FakeHost(files={"/proc/7/maps": ""}, links={"/proc/7/exe": "/x"}, denied=["/proc/8"])
    found = maps.read_all(host, [7, 8, 9])
    assert found[7] == found[9] == Unavailable(Why.GONE, "the process has ended")
    denied = found[8]
    assert isinstance(denied, Unavailable)
    assert denied.why is Why.DENIED


def test_a_real_process() -> None:
    with running(python_program(sys.executable, "here")) as process:
        reported(process)
        found = maps.read_all(LiveHost(), [process.pid])[process.pid]
    assert isinstance(found, Maps)
    assert found.executable == os.path.realpath(sys.executable)
    assert found.program
    assert found.libc
