"""Start a benchmark or a server, pass signals on, and leave no process behind.

The child gets a process group of its own, in the foreground of the terminal if there is one, so that Ctrl-C and job
control reach it and not envsnap alone. envsnap makes itself the *subreaper* of everything it starts: a process that
forks away from its parent comes back to envsnap, and is found and stopped at the end. Output is inherited; where
a reader needs it, it goes to a file that envsnap follows, never through a pipe, so that a killed envsnap does not
take the benchmark with it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

STOP_SECONDS = 10.0
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class CommandError(Exception):
    """The command could not be started; the message is one sentence."""


class Command:
    """A started command. `pid` is also the number of its process group."""

    def __init__(self, process: subprocess.Popen[bytes], argv: Sequence[str]) -> None:
        self._process = process
        self.argv = list(argv)
        self.pid = process.pid
        # NOTE: a file descriptor of the process wakes the waiter when it ends; Popen.wait polls 20 times a second.
        self._ended = os.pidfd_open(process.pid)
        weakref.finalize(self, os.close, self._ended)

    @property
    def running(self) -> bool:
        """Whether the command itself still runs."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """As a shell says it: 128 + N for a death by signal N; None while it runs."""
        code = self._process.poll()
        return None if code is None else 128 - code if code < 0 else code

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; nothing happens if it is gone."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def wait(self, seconds: float) -> bool:
        """Wait for the command to end, at most so long; whether it has."""
        if self.running and select.select([self._ended], [], [], seconds)[0]:
            self._process.wait()
        return not self.running

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End the group: SIGTERM, then after `seconds` SIGKILL; returns when the command is gone."""
        self.signal(signal.SIGTERM)
        if not self.wait(seconds):
            self.signal(signal.SIGKILL)
            self.wait(seconds)
        # Others of the group may outlive the command itself.
        self.signal(signal.SIGKILL)


def start(
    argv: Sequence[str],
    environment: Mapping[str, str],
    output: Path | None = None,
    cwd: str | None = None,
    foreground: bool = False,
) -> Command:
    """Start a command in a process group of its own. `output`: a file for its standard output and error.

    Raises: CommandError.
    """
    sink = open(output, "ab") if output else None  # noqa: SIM115 (closed below, the child has its own copy)
    terminal = foreground and sink is None and sys.stdin.isatty()
    try:
        process = subprocess.Popen(
            list(argv),
            env=dict(environment),
            cwd=cwd,
            stdin=None if foreground else subprocess.DEVNULL,
            stdout=sink,
            stderr=sink if output and not foreground else None,
            preexec_fn=_in_foreground if terminal else os.setpgrp,
        )
    except FileNotFoundError as error:
        raise CommandError(f"There is no program {argv[0]!r} on the PATH.") from error
    except OSError as error:
        raise CommandError(f"Cannot start {argv[0]!r}: {error.strerror}.") from error
    finally:
        if sink:
            sink.close()
    return Command(process, argv)


def _in_foreground() -> None:
    os.setpgrp()
    # NOTE: a background group that takes the terminal is sent SIGTTOU; ignored for this one call.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)


@contextmanager
def supervised() -> Iterator[None]:
    """While inside, whatever was started and forked away comes back to this process; at the end it is stopped.

    The terminal's foreground group is put back as it was.
    """
    before = {pid for pid, _ in _children()}
    libc = ctypes.CDLL(None, use_errno=True)
    was_reaper = ctypes.c_int()
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was_reaper), 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _stop_descendants(before)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, was_reaper.value, 0, 0, 0)
        if sys.stdin.isatty():
            was = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            try:
                os.tcsetpgrp(0, os.getpgrp())
            except OSError:
                pass
            signal.signal(signal.SIGTTOU, was)


@contextmanager
def forwarding(send: Callable[[int], None]) -> Iterator[list[int]]:
    """While inside, signals to envsnap go to `send` instead; the list tells which came."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        send(number)

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    old = {number: signal.signal(number, handle) for number in _FORWARDED}
    try:
        yield received
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)


def _children() -> list[tuple[int, str]]:
    """Pid and state of this process's children, by /proc."""
    own = str(os.getpid())
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[1:2] == [own]:
                found.append((int(entry), fields[0]))
    return found


def _stop_descendants(spare: set[int]) -> None:
    """Stop what came back to this process: SIGTERM, two seconds, SIGKILL, until nothing is left (or 5 s passed)."""
    began = time.monotonic()
    while (left := [(pid, state) for pid, state in _children() if pid not in spare]) and time.monotonic() - began < 5:
        number = signal.SIGTERM if time.monotonic() - began < 2 else signal.SIGKILL
        for pid, state in left:
            try:
                if state != "Z":
                    os.kill(pid, number)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                continue
        time.sleep(0.02)


class Follower:
    """Copies what a file grows by to standard output, until told to stop; the file holds it all for a reader."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="follower")

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def stop(self) -> None:
        """Copy what is left, and end."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        with open(self._path, "rb") as file:
            while True:
                last = self._stop.is_set()
                while chunk := file.read(1 << 16):
                    try:
                        sys.stdout.buffer.write(chunk)
                        sys.stdout.buffer.flush()
                    except (BrokenPipeError, ValueError):
                        return
                if last:
                    return
                self._stop.wait(0.05)
