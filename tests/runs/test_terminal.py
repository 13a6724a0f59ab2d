"""Sessions on a terminal of their own: the benchmark has it while it runs, and the shell gets it back."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


class Terminal:
    """envsnap as the leader of a session on a new terminal."""

    def __init__(self, tmp_path: Path, benchmark: str, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        command = [sys.executable, "-m", "envsnap", "run", *arguments, "--", sys.executable, "-c", benchmark]

        def own() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(command, cwd=tmp_path, stdin=slave, stdout=slave, stderr=slave, preexec_fn=own)
        os.close(slave)
        self.shown = ""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read until the text was shown."""
        until = time.monotonic() + 30
        while text not in self.shown:
            assert time.monotonic() < until, self.shown
            self._read(0.5)

    def ended(self) -> int:
        """The exit code, all output read."""
        while self.process.poll() is None:
            self._read(0.1)
        self._read(0.1)
        return self.process.returncode

    def _read(self, seconds: float) -> None:
        if select.select([self._master], [], [], seconds)[0]:
            try:
                self.shown += os.read(self._master, 65536).decode(errors="replace")
            except OSError:  # the last process that had the terminal is gone
                pass

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


READY = "import sys, time; print('ready', sys.stdin.isatty(), sys.stdout.isatty(), flush=True); "


def test_the_benchmark_has_the_terminal(tmp_path: Path, terminals: list[Terminal]) -> None:
    terminals.append(Terminal(tmp_path, READY + "print('heard', input())", "-n", "2"))
    for word in ("one", "two"):
        terminals[0].wait_for("ready True True")
        terminals[0].shown = ""
        terminals[0].press(f"{word}\n")
        terminals[0].wait_for(f"heard {word}")
    assert terminals[0].ended() == 0
    assert "2 of 2 runs ok" in terminals[0].shown


def test_ctrl_c_reaches_the_benchmark_and_ends_the_session(tmp_path: Path, terminals: list[Terminal]) -> None:
    terminals.append(Terminal(tmp_path, READY + "time.sleep(60)", "-n", "3"))
    terminals[0].wait_for("ready")
    terminals[0].press("\x03")
    assert terminals[0].ended() == 130
    assert "KeyboardInterrupt" in terminals[0].shown
    assert "interrupted: stopped by SIGINT" in terminals[0].shown
    assert "run 2 of 3" not in terminals[0].shown


def test_ctrl_z_stops_envsnap_too_and_fg_goes_on(tmp_path: Path, terminals: list[Terminal]) -> None:
    terminals.append(Terminal(tmp_path, READY + "time.sleep(1); print('on we go')", "--no-record"))
    terminals[0].wait_for("ready")
    terminals[0].press("\x1a")
    stopped = os.waitid(os.P_PID, terminals[0].process.pid, os.WSTOPPED)
    assert stopped is not None
    assert stopped.si_status == signal.SIGSTOP
    assert "on we go" not in terminals[0].shown
    os.kill(terminals[0].process.pid, signal.SIGCONT)
    assert terminals[0].ended() == 0
    assert "on we go" in terminals[0].shown
    shown = subprocess.run(
        [sys.executable, "-m", "envsnap", "show", "last"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "stopped by job control" in shown.stdout


def test_waiting_for_a_server_is_one_line_that_moves(tmp_path: Path, terminals: list[Terminal]) -> None:
    server = f"{sys.executable} -c 'import time; time.sleep(60)'"
    address = "http://127.0.0.1:9/"
    terminals.append(
        Terminal(tmp_path, "pass", "--server", server, "--ready", address, "--ready-timeout", "5", "--no-record")
    )
    assert terminals[0].ended() == 2
    assert "\r\x1b[Kenvsnap: waiting for the server" in terminals[0].shown
    assert "never_ready: the server was not ready after 5 s" in terminals[0].shown
