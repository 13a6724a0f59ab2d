"""What the host does: one CPU, its memory, a disk."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import platform
import tempfile
import time
from collections.abc import Iterator

from envsnap.collectors._mounts import mount_at, parse_mountinfo
from envsnap.probe.repeat import repeated
from envsnap.probe.result import Figure
from envsnap.reading import Missing, Why

_LOOPS = 400_000
_HASHED_BYTES = 1 << 20
_HASHES = 40
_COPY_BYTES = 128 << 20
_FILE_BYTES = 128 << 20
_BLOCK_BYTES = 1 << 20
_IN_MEMORY = ("tmpfs", "ramfs", "rootfs")


def cpu() -> Iterator[Figure]:
    """The time of a fixed loop: half the interpreter's own work, half native code."""
    data = bytes(_HASHED_BYTES)

    def once() -> float:
        start = time.perf_counter()
        total = 0
        for number in range(_LOOPS):
            total = (total * 31 + number) & 0xFFFF_FFFF
        for _ in range(_HASHES):
            hashlib.sha256(data).digest()
        return 1000 * (time.perf_counter() - start)

    once()
    # NOTE: another Python runs the loop at another speed on the same CPU.
    version = ".".join(platform.python_version_tuple()[:2])
    method = f"{platform.python_implementation()} {version}"
    yield Figure("cpu.single_thread_milliseconds", repeated(once), method)


def memory() -> Iterator[Figure]:
    """A copy far larger than the caches, by libc's memmove."""
    # NOTE: zero pages that were never written all are one page of the kernel's, which stays in the cache.
    source, target = bytearray(b"\1") * _COPY_BYTES, bytearray(b"\2") * _COPY_BYTES
    into, of = memoryview(target), memoryview(source)

    def once() -> float:
        start = time.perf_counter()
        into[:] = of
        return 2 * _COPY_BYTES / (time.perf_counter() - start) / 1e9

    once()
    yield Figure("memory.copy_gb_per_second", repeated(once), "memmove of 128 MiB")


def disk(folder: str) -> Iterator[Figure]:
    """Sequential read of an unlinked file of 128 MiB in `folder`. Raises: Missing, OSError."""
    place = _place(folder)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        # What is written anew each time can be neither compressed nor shared by the file system.
        for _ in range(_FILE_BYTES // _BLOCK_BYTES):
            file.write(os.urandom(_BLOCK_BYTES))
        os.fsync(file.fileno())
        handle, method = _uncached(file.fileno())
        try:
            values = repeated(lambda: _FILE_BYTES / _read_seconds(handle) / 1e9)
        finally:
            os.close(handle)
    yield Figure("disk.read_gb_per_second", values, f"{method}, 1 MiB at a time, {place}")


def _place(folder: str) -> str:
    """The file system in words. Raises: Missing where it is none on a disk, or has no room; OSError."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        mount = mount_at(os.path.realpath(folder), parse_mountinfo(file.read()))
    if mount is not None and mount.type in _IN_MEMORY:
        raise Missing(Why.NOT_SUPPORTED, f"{folder} lies in memory ({mount.type}): name another folder")
    space = os.statvfs(folder)
    if space.f_bavail * space.f_frsize < 4 * _FILE_BYTES:
        raise Missing(Why.NOT_SUPPORTED, f"{folder} has less than {4 * _FILE_BYTES >> 20} MiB free")
    return f"{mount.type} at {mount.point}" if mount is not None else folder


def _uncached(file: int) -> tuple[int, str]:
    """A handle of the same file that reads past the page cache where the file system can, and how it reads."""
    try:
        handle = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        try:
            os.preadv(handle, [mmap.mmap(-1, _BLOCK_BYTES)], 0)
        except OSError:
            os.close(handle)
            raise
        return handle, "O_DIRECT"
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT, errno.EACCES):
            raise
        return os.dup(file), "dropped from the page cache"


def _read_seconds(handle: int) -> float:
    """How long it takes to read the whole file."""
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    at = 0
    with mmap.mmap(-1, _BLOCK_BYTES) as block:  # O_DIRECT wants memory that begins with a page
        while got := os.preadv(handle, [block], at):
            at += got
    return time.perf_counter() - start
