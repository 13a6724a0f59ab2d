"""A started command and its three streams: lines out of it and into it, each within a bound and a deadline."""

from __future__ import annotations

import os
import queue
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

_KEPT_BYTES = 4096
_TERM_SECONDS = 0.5


_begun: set[Pipe] = set()
"""Those that have not come to their end."""


def end_all() -> None:
    """Kill every command, whoever started it, where the program is to end at once: one that is still on its way to
    another machine does not notice that nobody waits for it."""
    for pipe in list(_begun):
        pipe.end(0.0)


class Pipe:
    """A command in a session of its own. One thread at a time may call `line`; any may call the rest.

    `sent` and `received` count bytes. `end` has to be called. Raises: OSError, ValueError, where it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.sent = self.received = 0
        self._child = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        streams = (self._child.stdin, self._child.stdout, self._child.stderr)
        self._in, self._out, self._err = (stream.fileno() for stream in streams if stream)
        os.set_blocking(self._in, False)
        # NOTE: streams may outlive the command (ssh leaves a master connection behind), so their end is no signal.
        self._woken, self._wake = os.pipe()
        self._reading = [self._out, self._err]
        self._buffer = bytearray()
        self._complaints = b""
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ending = threading.Lock()
        self._over = False
        self._writer = threading.Thread(target=self._write, daemon=True, name="remote requests")
        self._writer.start()
        _begun.add(self)

    def send(self, data: bytes) -> None:
        """Have bytes written; returns at once."""
        self._outbox.put(data)

    def line(self, limit: int, until: float | None = None) -> bytes:
        """The next line, with its end; empty where there is none any more.

        `until` is a moment of `time.monotonic()`. Raises: TimeoutError; ValueError for a line of more than `limit`
        bytes.
        """
        searched = 0
        while (at := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > limit:
                raise ValueError(f"a line of more than {limit >> 20} MiB")
            if not self._more(until):
                at = searched - 1
                break
        line = bytes(self._buffer[: at + 1])
        del self._buffer[: at + 1]
        return line

    def complaint(self, seconds: float = 0.3) -> str:
        """The last line that came over standard error, waiting so long for its end."""
        until = time.monotonic() + seconds
        with suppress(TimeoutError):
            while self._err in self._reading and self._more(until):
                pass
        lines = self._complaints.decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def rest(self, until: float) -> str:
        """All that still comes over standard output, up to a few lines."""
        with suppress(TimeoutError):
            while self._out in self._reading and len(self._buffer) < _KEPT_BYTES and self._more(until):
                pass
        return self.unfinished().decode("utf-8", "replace")

    def unfinished(self) -> bytes:
        """The beginning of what came over standard output and is no line yet: a prompt, say."""
        return bytes(self._buffer[:_KEPT_BYTES])

    def code(self, seconds: float) -> int | None:
        """The command's exit code; None where it goes on for so many seconds more."""
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self, seconds: float) -> None:
        """Close its standard input, give it so many seconds to end, then kill it."""
        with self._ending:
            if self._over:
                return
            self._over = True
            self._outbox.put(None)
            if seconds > 0:
                self._writer.join(seconds)
                self.code(seconds)
            self._kill()
            os.write(self._wake, b"x")
            _begun.discard(self)

    def close(self) -> None:
        """Let go of the streams, once nobody reads lines any more; `end` has been called."""
        self._writer.join()
        for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
            if stream:
                with suppress(OSError):
                    stream.close()
        os.close(self._woken)
        os.close(self._wake)

    def _kill(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._child.poll() is not None:
                return
            with suppress(OSError):  # it is another user's, by sudo: it ends with its standard input
                os.killpg(self._child.pid, number)
            self.code(_TERM_SECONDS)

    def _more(self, until: float | None) -> bool:
        """Read what there is, waiting for it; False at the end. Raises: TimeoutError."""
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        ready = select.select([*self._reading, self._woken], [], [], left)[0]
        if not ready:
            raise TimeoutError
        if self._woken in ready:
            return False
        for stream in ready:
            chunk = os.read(stream, 1 << 18)
            if not chunk:
                self._reading.remove(stream)
            elif stream == self._out:
                self.received += len(chunk)
                self._buffer += chunk
            else:
                self._complaints = (self._complaints + chunk)[-_KEPT_BYTES:]
        return self._out in self._reading

    def _write(self) -> None:
        """In a thread of its own, so that a far side that takes nothing holds nobody who asks."""
        with suppress(OSError):
            while (data := self._outbox.get()) is not None:
                view = memoryview(data)
                while view:
                    woken, writable, _ = select.select([self._woken], [self._in], [])
                    if woken:
                        return
                    if writable:
                        written = os.write(self._in, view)
                        self.sent += written
                        view = view[written:]
        if self._child.stdin:
            with suppress(OSError):
                self._child.stdin.close()
