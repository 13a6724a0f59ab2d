"""JSON files: written whole or not at all, read strictly and within bounds.

A file is one JSON document, gzipped where its name ends in `.gz`. It is written to a temporary file beside the
target, synced and renamed, so that a full disk or a kill leaves the old file whole. What is read is not trusted: no
device or FIFO is opened, nothing is read without a bound, no name stands twice, no number is infinite.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import sys
import threading
import time
import zlib
from collections import Counter
from pathlib import Path

from envsnap.reading import Json

MAX_FILE_BYTES = 64 << 20


class SnapshotError(Exception):
    """A file that is no usable snapshot, or no document of envsnap at all; the message is one sentence about it."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` by way of a temporary file beside it, mode 0600.

    Raises: OSError, also where `path` is something else than a file: renaming would replace a device by a file.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    handle, temporary = open_beside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def open_beside(path: Path) -> tuple[int, Path]:
    """A new file beside another, open to be written, for its owner alone. Raises: OSError."""
    # NOTE: tempfile would do the same, and its import alone takes longer than most collectors.
    part = path.with_name(f".{path.name[:40]}.{os.getpid()}-{threading.get_native_id()}-{time.monotonic_ns():x}.part")
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), part


def load_json(source: str | Path) -> Json:
    """The JSON document in a file, or on standard input for `-`. Raises: SnapshotError."""
    return parse_json(read_source(source), name_of(source))


def read_source(source: str | Path) -> bytes:
    """The bytes of a file or of standard input (`-`), at most one more than a snapshot may have.

    Raises: SnapshotError.
    """
    name = name_of(source)
    try:
        return sys.stdin.buffer.read(MAX_FILE_BYTES + 1) if str(source) == "-" else read_file(source)
    except OSError as error:
        raise SnapshotError(f"Cannot read {name}: {error.strerror}.") from error
    except ValueError as error:
        raise SnapshotError(f"Cannot read {name}: not a valid file name.") from error


def name_of(source: str | Path) -> str:
    """What an error calls a source."""
    return "standard input" if str(source) == "-" else str(source)


def read_file(source: str | Path) -> bytes:
    """The bytes of a regular file, at most one more than a snapshot may have; never waits on a FIFO."""
    if not stat.S_ISREG(os.stat(source).st_mode):
        raise SnapshotError(f"{source} is not a regular file; for a pipe use -.")
    with open(os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _check_size(os.fstat(file.fileno()).st_size, str(source))
        return file.read(MAX_FILE_BYTES + 1)


def parse_json(data: bytes, name: str) -> Json:
    """The JSON document in the bytes of a file, strictly: no NaN, no name twice. Raises: SnapshotError."""
    _check_size(len(data), name)
    if data[:2] == b"\x1f\x8b":
        data = _gunzip(data, name)
    if not data.strip():
        raise SnapshotError(f"{name} is empty.")
    try:
        return json.loads(data.decode(), object_pairs_hook=_object, parse_float=_finite, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{name} is not JSON: byte {error.start} is not UTF-8.") from error
    except RecursionError as error:
        raise SnapshotError(f"{name} is nested too deeply to be a snapshot.") from error
    except ValueError as error:
        raise SnapshotError(f"{name} is not JSON, or is cut short ({short(error)}).") from error


def _check_size(size: int, name: str) -> None:
    if size > MAX_FILE_BYTES:
        raise SnapshotError(f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB, which no snapshot is.")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice!r} stands twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON number")


def _gunzip(data: bytes, name: str) -> bytes:
    inflate = zlib.decompressobj(31)
    try:
        plain = inflate.decompress(data, MAX_FILE_BYTES + 1)
    except zlib.error as error:
        raise SnapshotError(f"{name} is not a whole gzip file ({short(error)}).") from error
    _check_size(len(plain), name)
    if not inflate.eof:
        raise SnapshotError(f"{name} is a gzip file that is cut short.")
    return plain


def short(error: Exception) -> str:
    """An exception's text on one short line."""
    return " ".join(str(error).split())[:120]
