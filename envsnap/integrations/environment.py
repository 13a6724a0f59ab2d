"""This process's environment in both views: Python's `os.environ` and libc's `environ`, which libraries read.

They part ways where C code sets a variable (NCCL, from nccl.conf), or where Python code changes a copy.
"""

from __future__ import annotations

import os
from typing import Any

from envsnap.integrations.plain import describe

MAX_VARIABLES = 16384
MAX_VALUE = 128 << 10
_CHUNK = 512


def views() -> tuple[dict[str, str], Any]:
    """`os.environ`, and libc's view of it or, as text, why there is none."""
    try:
        libc: Any = libc_view()
    except Exception as error:
        libc = describe(error)
    return dict(os.environ), libc


def libc_view() -> dict[str, str]:
    """What `getenv` answers: libc's array, the first of equal names. Raises: OSError, ValueError."""
    import ctypes

    # NOTE: the array is read through /proc, not by pointer: a library may be changing it, and a bad address is then
    # an error here and not the end of the process.
    symbol = ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ"))
    size = ctypes.sizeof(ctypes.c_void_p)
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        array = int.from_bytes(os.pread(memory, size, symbol), "little")
        found: dict[str, str] = {}
        for index in range(MAX_VARIABLES if array else 0):
            address = int.from_bytes(os.pread(memory, size, array + index * size), "little")
            if not address:
                break
            name, separator, value = os.fsdecode(_text(memory, address)).partition("=")
            if separator:
                found.setdefault(name, value)
        return found
    finally:
        os.close(memory)


def _text(memory: int, address: int) -> bytes:
    """The bytes up to the next NUL."""
    text = b""
    while len(text) < MAX_VALUE:
        # A chunk ends at a page's end, so that the last variable before an unmapped page can be read.
        room = 4096 - (address + len(text)) % 4096
        chunk = os.pread(memory, min(_CHUNK, room), address + len(text))
        end = chunk.find(b"\0")
        if end >= 0:
            return text + chunk[:end]
        if not chunk:
            break
        text += chunk
    return text
