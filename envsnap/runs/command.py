"""Start a benchmark or a server in a process group of its own, signal it as a whole, and end it.

A benchmark gets the foreground of the terminal if there is one, so that Ctrl-C and job control reach it and not
envsnap alone. Output is inherited; where a reader needs it, it goes to a file, never through a pipe, so that a
killed envsnap does not take the benchmark with it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_SECONDS = 10.0
_STOPPED_CHECK_SECONDS = 0.5
"""How often a benchmark that has the terminal is looked at, whether Ctrl-Z stopped it."""


class CommandError(Exception):
    """The command could not be started; the message is one sentence."""


class Command:
    """A started command. `pid` is also the number of its process group. Whoever starts one calls `stop`.

    Until then its exit is seen but not collected, so that the number of its group cannot come to mean another's.
    """

    def __init__(self, process: subprocess.Popen[bytes], argv: Sequence[str], foreground: bool) -> None:
        self._process = process
        self._foreground = foreground
        self._code: int | None = None
        self.argv = list(argv)
        self.pid = process.pid
        self.paused = False
        """Whether it was stopped by job control for a while."""
        # NOTE: a file descriptor of the process wakes the waiter when it ends; Popen.wait polls 20 times a second.
        self._ended = os.pidfd_open(process.pid)
        weakref.finalize(self, os.close, self._ended)

    @property
    def running(self) -> bool:
        """Whether the command itself still runs."""
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """As a shell says it: 128 + N for a death by signal N; None while it runs."""
        if self._code is None and (ended := self._state(os.WEXITED)):
            self._code = ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status
        return self._code

    def _state(self, what: int) -> os.waitid_result | None:
        return os.waitid(os.P_PID, self.pid, what | os.WNOHANG | os.WNOWAIT)

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; nothing happens if it is gone."""
        if self._process.returncode is not None:
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def wait(self, seconds: float) -> bool:
        """Wait for the command to end, at most so long; whether it has."""
        left = seconds
        while self.running and left > 0:
            step = min(left, _STOPPED_CHECK_SECONDS) if self._foreground else left
            select.select([self._ended], [], [], step)
            left -= step
            # NOTE: asked for WSTOPPED alone, the kernel knows no child any more that has just ended.
            if (
                self._foreground
                and (state := self._state(os.WSTOPPED | os.WEXITED))
                and state.si_code == os.CLD_STOPPED
            ):
                self._pause()
        return not self.running

    def _pause(self) -> None:
        """Ctrl-Z stopped the benchmark: give the shell its terminal back, and go on when the shell says so."""
        self.paused = True
        take_terminal(os.getpgrp())
        os.killpg(0, signal.SIGSTOP)
        if os.tcgetpgrp(0) == os.getpgrp():  # continued by fg, not by bg
            take_terminal(self.pid)
        self.signal(signal.SIGCONT)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End the group: SIGTERM, then after `seconds` SIGKILL; returns when the command is gone."""
        self._foreground = False
        if self.running:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)  # one that was stopped would never hear of it
            self.wait(seconds)
        # Others of the group may outlive the command itself, or it may ignore the first.
        self.signal(signal.SIGKILL)
        self.wait(seconds)
        if not self.running:
            self._process.wait()


def start(
    argv: Sequence[str],
    environment: Mapping[str, str],
    output: Path | None = None,
    cwd: str | None = None,
    foreground: bool = False,
    aside: bool = False,
) -> Command:
    """Start a command in a process group of its own.

    `output` is a file for its standard output (and error, of what is not in the `foreground`); `aside` sends its
    standard output where standard error goes. Raises: CommandError.
    """
    try:
        sink = open(output, "ab") if output else None  # noqa: SIM115 (closed below, the child has its own copy)
    except OSError as error:
        raise CommandError(f"Cannot write {output}: {error.strerror}.") from error
    terminal = foreground and os.isatty(0)
    try:
        process = subprocess.Popen(
            list(argv),
            env=dict(environment),
            cwd=cwd,
            stdin=None if foreground else subprocess.DEVNULL,
            stdout=sink or (2 if aside else None),
            stderr=sink if output and not foreground else None,
            preexec_fn=_in_foreground if terminal else os.setpgrp,
        )
    except FileNotFoundError as error:
        raise CommandError(f"There is no program {argv[0]!r} on the PATH.") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(f"Cannot start {argv[0]!r}: {why}.") from error
    finally:
        if sink:
            sink.close()
    return Command(process, argv, terminal)


def find_program(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises: CommandError where there is no such program, before anything else is started for it."""
    if shutil.which(argv[0], path=environment.get("PATH", os.defpath)) is None:
        raise CommandError(f"There is no program {argv[0]!r} on the PATH.")


def _in_foreground() -> None:
    os.setpgrp()
    take_terminal(os.getpgrp())


def take_terminal(group: int) -> None:
    """Make a process group the one in the foreground of the terminal, if standard input is one."""
    try:
        # NOTE: a background group that takes the terminal is sent SIGTTOU; ignored for this one call.
        was = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    except ValueError:  # not the main thread, which no terminal concerns
        return
    try:
        os.tcsetpgrp(0, group)
    except OSError:
        pass
    finally:
        signal.signal(signal.SIGTTOU, was)
