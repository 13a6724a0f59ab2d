"""Writing a record: whole or not at all, for its owner alone, and only where nobody else can interfere."""

from __future__ import annotations

import os
import stat

MAX_BYTES = 8 << 20


class Refused(Exception):
    """The record may not be written there; the message says why."""


def write(directory: str, name: str, data: bytes) -> None:
    """Put `data` into a file of that directory, replacing an older one in one step.

    The directory is made (0700) where it is missing. Raises: Refused for a directory that another user owns or may
    write to, or that is a symbolic link, and for too much data; OSError.
    """
    if len(data) > MAX_BYTES:
        raise Refused("the record has more than %d bytes" % MAX_BYTES)
    folder = _open_directory(directory)
    try:
        temporary = ".%s.tmp" % name
        try:
            file = _create(temporary, folder)
        except FileExistsError:  # left by a process of the same number that was killed while it wrote
            os.unlink(temporary, dir_fd=folder)
            file = _create(temporary, folder)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def check(directory: str) -> None:
    """Make the directory, or find it fit. Raises: Refused, OSError, as `write` does."""
    os.close(_open_directory(directory))


def touch(directory: str, name: str) -> None:
    """Say that what was written still holds: the file's time is its last refresh."""
    folder = _open_directory(directory)
    try:
        os.utime(name, dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(folder)


def _create(name: str, folder: int) -> int:
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)


def _open_directory(path: str) -> int:
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileExistsError, NotADirectoryError):
        raise Refused("%s is not a directory, or a symbolic link" % path) from None
    found = os.fstat(folder)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        os.close(folder)
        raise Refused("%s is owned or writable by other users" % path)
    return folder
