"""Collectors that talk to a driver, in a process of their own.

A driver can hang in a way that no thread survives (it may even hold Python's own lock), and its many small calls
wait for that lock whenever another collector computes. A forked child has neither problem: it is killed when it is
late, and it runs on a core of its own.

Only a program with a single thread may fork, which the command line is; the library stays in its own process.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Sequence

from envsnap.snapshot import Section

DRIVER_SECTIONS = ("gpu", "gpu_device", "gpu_pair", "nvidia_driver", "pci")

_HEAD_START = 0.05
"""Seconds before the deadline at which the child sends what it has."""


class Apart:
    """A forked child that makes some sections. `sections` waits for them."""

    def __init__(
        self, names: Sequence[str], make: Callable[[Sequence[str], float], list[Section]], until: float
    ) -> None:
        reader, writer = os.pipe()
        self._until = until
        self._reader = reader
        self._pid = os.fork()
        if self._pid == 0:
            _work(names, make, until - _HEAD_START, writer, reader)
        os.close(writer)

    def sections(self) -> list[Section] | None:
        """The sections in the order of their names; None where the child died or was late."""
        chunks: list[bytes] = []
        try:
            while (left := self._until - time.monotonic()) > 0:
                if not select.select([self._reader], [], [], left)[0]:
                    break
                chunk = os.read(self._reader, 1 << 20)
                if not chunk:
                    return _sections(b"".join(chunks))
                chunks.append(chunk)
            return None
        finally:
            os.close(self._reader)
            self._end()

    def _end(self) -> None:
        """Let the child end, or kill it; one that cannot die is left to the system."""
        for _ in range(20):
            if os.waitpid(self._pid, os.WNOHANG)[0]:
                return
            if time.monotonic() > self._until:
                os.kill(self._pid, signal.SIGKILL)
            time.sleep(0.002)


def _work(
    names: Sequence[str], make: Callable[[Sequence[str], float], list[Section]], until: float, writer: int, reader: int
) -> None:
    """In the child: make the sections, send them, and leave without a trace of Python's own ending."""
    code = 1
    try:
        os.close(reader)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        data = memoryview(pickle.dumps(make(names, until)))
        while data:
            data = data[os.write(writer, data) :]
        code = 0
    finally:
        os._exit(code)


def _sections(data: bytes) -> list[Section] | None:
    # NOTE: pickle is safe here: the bytes come from this very program, over a pipe that nobody else has.
    return pickle.loads(data) if data else None
