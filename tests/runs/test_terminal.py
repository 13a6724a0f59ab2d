"""Sessions on a terminal of their own: the benchmark has it while it runs, and the shell gets it back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import Spawn, Terminal


@pytest.fixture
def run(spawn: Spawn, tmp_path: Path) -> Callable[..., Terminal]:
    """Runs a benchmark on a terminal of its own."""

    def started(benchmark: str, *arguments: str) -> Terminal:
        command = [sys.executable, "-m", "envsnap", "run", *arguments, "--", sys.executable, "-c", benchmark]
        return spawn.terminal(command, cwd=tmp_path)

    return started


READY = "import sys, time; print('ready', sys.stdin.isatty(), sys.stdout.isatty(), flush=True); "


def test_the_benchmark_has_the_terminal(run: Callable[..., Terminal]) -> None:
    terminal = run(READY + "print('heard', input())", "-n", "2")
    for word in ("one", "two"):
        terminal.wait_for("ready True True")
        terminal.shown = ""
        terminal.press(f"{word}\n")
        terminal.wait_for(f"heard {word}")
    assert terminal.ended() == 0
    assert "2 of 2 runs ok" in terminal.shown


def test_ctrl_c_reaches_the_benchmark_and_ends_the_session(run: Callable[..., Terminal]) -> None:
    terminal = run(READY + "time.sleep(60)", "-n", "3")
    terminal.wait_for("ready")
    terminal.press("\x03")
    assert terminal.ended() == 130
    assert "KeyboardInterrupt" in terminal.shown
    assert "interrupted: stopped by SIGINT" in terminal.shown
    assert "run 2 of 3" not in terminal.shown


def test_ctrl_z_stops_envsnap_too_and_fg_goes_on(run: Callable[..., Terminal], tmp_path: Path) -> None:
    terminal = run(READY + "time.sleep(1); print('on we go')", "--no-record")
    terminal.wait_for("ready")
    terminal.press("\x1a")
    stopped = os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED)
    assert stopped is not None
    assert stopped.si_status == signal.SIGSTOP
    assert "on we go" not in terminal.shown
    os.kill(terminal.process.pid, signal.SIGCONT)
    assert terminal.ended() == 0
    assert "on we go" in terminal.shown
    shown = subprocess.run(
        [sys.executable, "-m", "envsnap", "show", "last"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "stopped by job control" in shown.stdout


def test_waiting_for_a_server_is_one_line_that_moves(run: Callable[..., Terminal]) -> None:
    server = f"{sys.executable} -c 'import time; time.sleep(60)'"
    address = "http://127.0.0.1:9/"
    terminal = run("pass", "--server", server, "--ready", address, "--ready-timeout", "5", "--no-record")
    assert terminal.ended() == 2
    assert "\r\x1b[Kenvsnap: waiting for the server" in terminal.shown
    assert "never_ready: the server was not ready after 5 s" in terminal.shown
