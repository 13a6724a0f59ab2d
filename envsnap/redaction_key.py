"""The key of the keyed hashes: a file in the store that only its owner may read, or none.

Whoever has the key can find a short secret from its hash by trying, so a key that others may have read or written, or
that came by way of a symbolic link, is not used.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

KEY_FILE = "redaction.key"


def stored_key(store: Path | None) -> tuple[bytes, str]:
    """The key of a store, made if it has none; or a fresh one, and why it is not the store's."""
    if store is None:
        return os.urandom(32), "no store was given"
    path = store / KEY_FILE
    try:
        try:
            _make_key(path)
        except FileExistsError:
            pass
        return _read_key(path), ""
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return os.urandom(32), f"{path} was not used: {why}"


def _make_key(path: Path) -> None:
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path.parent / ".gitignore").write_text("*\n")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, os.urandom(32).hex().encode() + b"\n")
    finally:
        os.close(fd)


def _read_key(path: Path) -> bytes:
    for _ in range(20):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise ValueError("it is not a regular file of this user that only this user may read")
            text = os.read(fd, 256).strip()
        finally:
            os.close(fd)
        if text:
            break
        time.sleep(0.005)  # another process is writing it at this moment
    if len(text) != 64:
        raise ValueError("it holds no key")
    return bytes.fromhex(text.decode("ascii"))
