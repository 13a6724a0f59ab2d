"""While a session runs: signals go to the benchmark, and no process is left behind.

envsnap makes itself the *subreaper* of everything it starts: a process that forks away from its parent comes back to
envsnap, and is found and stopped.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from envsnap.runs.command import STOP_SECONDS, Command, take_terminal

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class Signals:
    """Which signals came to envsnap, and the command that they are passed on to.

    The first that asks for an end is passed on as it is. A second one becomes SIGTERM, or SIGKILL where the first was
    no SIGINT; a third SIGKILL. What was told to terminate gets `STOP_SECONDS` for it.
    """

    def __init__(self) -> None:
        self.ending: list[int] = []
        self._command: Command | None = None
        self._early: list[int] = []
        self._deadline = float("inf")

    def attend(self, command: Command | None) -> None:
        """Pass signals on to this command from now on, also those that came since it was forked."""
        self._command = command
        early, self._early = self._early, []
        if command:
            for number in early:
                self._pass_on(command, number)

    def expect(self) -> None:
        """A command is about to be started: keep for it what comes before it is attended to."""
        self._command, self._early, self._deadline = None, [], float("inf")

    @property
    def overdue(self) -> bool:
        """Whether the command was told to terminate and had its time."""
        return time.monotonic() > self._deadline

    def handle(self, number: int, frame: FrameType | None = None) -> None:
        """Take note of a signal and pass it on."""
        if number in _ENDING:
            self.ending.append(number)
        if self._command:
            self._pass_on(self._command, number)
        else:
            self._early.append(number)

    def _pass_on(self, command: Command, number: int) -> None:
        if number in _ENDING and len(self.ending) > 1:
            patient = set(self.ending[:2]) == {signal.SIGINT} and len(self.ending) == 2
            number = signal.SIGTERM if patient else signal.SIGKILL
        if number in (signal.SIGTERM, signal.SIGHUP):
            self._deadline = min(self._deadline, time.monotonic() + STOP_SECONDS)
        command.signal(number)


@contextmanager
def supervised() -> Iterator[Signals]:
    """While inside, signals are taken note of, and whatever was started and forked away comes back to this process.

    At the end it is stopped, and the terminal is this process's again.
    """
    before = children()
    libc = ctypes.CDLL(None, use_errno=True)
    was_reaper = ctypes.c_int()
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was_reaper), 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signals = Signals()
    handled = (*_ENDING, *_PASSED_ON) if threading.current_thread() is threading.main_thread() else ()
    old = {number: signal.signal(number, signals.handle) for number in handled}
    try:
        yield signals
    finally:
        sweep(before)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, was_reaper.value, 0, 0, 0)
        take_terminal(os.getpgrp())
        for number, previous in old.items():
            signal.signal(number, previous)


def children() -> set[int]:
    """The pids of this process's children."""
    return {pid for pid, _ in _children()}


def sweep(spare: set[int]) -> None:
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
