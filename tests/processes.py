"""Programs that tests start: none outlives its test, whatever becomes of that. The fixture is `spawn`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SECONDS = 60.0
"""How long a test waits at most for what takes a tenth of that."""


class Spawn:
    """Starts programs, each in a session of its own, and knows how to end them with all that they started."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[Any]] = []
        self._terminals: list[Terminal] = []

    def __call__(self, argv: Sequence[object], **options: Any) -> subprocess.Popen[Any]:
        """As subprocess.Popen."""
        process: subprocess.Popen[Any] = subprocess.Popen(list(map(str, argv)), start_new_session=True, **options)
        self._started.append(process)
        return process

    def terminal(self, argv: Sequence[object], **options: Any) -> Terminal:
        """A program that has a new terminal for itself."""
        self._terminals.append(Terminal(self, argv, options))
        return self._terminals[-1]

    def end(self) -> None:
        """Kill what still runs, wait for it, close its pipes."""
        for _ in range(1000):  # what is killed may just have started something
            if not (left := _left({p.pid for p in self._started})):
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        for process in self._started:
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        for terminal in self._terminals:
            os.close(terminal.leader)


def _left(roots: set[int]) -> set[int]:
    """Running processes of these sessions, and what descends from them; zombies are none."""
    found: set[int] = set()
    rows = [row for path in Path("/proc").glob("[0-9]*/stat") if (row := _stat(path))]
    while True:
        more = {p for p, state, parent, session in rows if state not in "ZX" and ({session, parent} & (roots | found))}
        if more <= found:
            return found
        found |= more


def _stat(path: Path) -> tuple[int, str, int, int] | None:
    """Number, state, parent and session."""
    try:
        fields = path.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(path.parent.name), fields[0], int(fields[1]), int(fields[3])


class Terminal:
    """A program as the leader of a session on a new terminal; `shown` is what it wrote there."""

    def __init__(self, spawn: Spawn, argv: Sequence[object], options: dict[str, Any]) -> None:
        self.leader, follower = pty.openpty()

        def own() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        try:
            self.process = spawn(argv, stdin=follower, stdout=follower, stderr=follower, preexec_fn=own, **options)
        finally:
            os.close(follower)
        self.shown = ""

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.leader, keys.encode())

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read until a regular expression matches what was shown."""
        until = time.monotonic() + SECONDS
        while not (match := re.search(pattern, self.shown)):
            assert time.monotonic() < until, self.shown
            self._read(0.5)
        return match

    def ended(self) -> int:
        """The exit code, all output read."""
        until = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < until, self.shown
            self._read(0.1)
        while self._read(0.1):
            pass
        code: int = self.process.returncode
        return code

    def _read(self, seconds: float) -> bool:
        if not select.select([self.leader], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.leader, 65536)
        except OSError:  # the last process that had the terminal is gone
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)
