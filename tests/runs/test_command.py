"""Commands: their exit codes, their groups, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envsnap.runs import command as commands
from envsnap.runs.command import Command, CommandError
from envsnap.runs.supervise import supervised

Start = Callable[..., Command]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts commands; they end with the test, however that ends."""
    begun: list[Command] = []

    def start(*arguments: Any, **options: Any) -> Command:
        begun.append(commands.start(*arguments, **options))
        return begun[-1]

    try:
        yield start
    finally:
        for command in begun:
            command.stop(1.0)


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(("code", "said"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_exit_codes_as_a_shell_says_them(start: Start, code: str, said: int) -> None:
    command = start([sys.executable, "-c", code], os.environ)
    assert command.wait(20)
    command.stop()
    assert command.exit_code == said


def test_no_such_program(start: Start) -> None:
    with pytest.raises(CommandError, match="no program 'no-such-program'"):
        start(["no-such-program"], os.environ)


def test_one_that_ignores_sigterm_is_killed_with_its_children(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(file)!r} + '.new', 'w').write(str(child.pid)); os.rename({str(file)!r} + '.new', {str(file)!r})\n"
        "time.sleep(60)"
    )
    command = start([sys.executable, "-c", code], os.environ)
    while not file.exists():
        time.sleep(0.02)
    command.stop(0.5)
    assert command.exit_code == 137
    child = int(file.read_text())
    for _ in range(100):
        if _gone(child):
            break
        time.sleep(0.02)
    assert _gone(child)


def test_one_that_forks_away_is_found_and_stopped(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(file)!r} + '.new', 'w').write(str(os.getpid()))\n"
        f"    os.rename({str(file)!r} + '.new', {str(file)!r})\n"
        "    time.sleep(60)\n"
        f"while not os.path.exists({str(file)!r}): time.sleep(0.01)\n"
    )
    with supervised():
        command = start([sys.executable, "-c", code], os.environ)
        assert command.wait(20)
        command.stop()
        pid = int(file.read_text())
        assert not _gone(pid)
    assert _gone(pid)


def test_signals_are_passed_on(start: Start) -> None:
    command = start([sys.executable, "-c", "import time; time.sleep(60)"], os.environ)
    with supervised() as signals:
        signals.attend(command)
        os.kill(os.getpid(), signal.SIGTERM)
        assert command.wait(20)
        command.stop()
    assert signals.ending == [signal.SIGTERM]
    assert command.exit_code == 143


def test_a_signal_between_fork_and_attention_is_not_lost(start: Start) -> None:
    with supervised() as signals:
        signals.expect()
        command = start([sys.executable, "-c", "import time; time.sleep(60)"], os.environ)
        os.kill(os.getpid(), signal.SIGINT)
        signals.attend(command)
        assert command.wait(20)
        command.stop()
    assert command.exit_code == 130


def test_one_that_ignores_ctrl_c_gets_sigterm_at_the_second_and_sigkill_at_the_third(
    start: Start, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    code = (
        "import signal, time\n"
        f"note = lambda number, frame: open({str(said)!r}, 'a').write(f'{{number}} ')\n"
        "signal.signal(signal.SIGINT, note); signal.signal(signal.SIGTERM, note)\n"
        f"note('ready', None)\n"
        "while True: time.sleep(0.05)"
    )

    def wait_for(words: str) -> None:
        while not said.exists() or said.read_text() != words:
            time.sleep(0.02)

    with supervised() as signals:
        command = start([sys.executable, "-c", code], os.environ)
        signals.attend(command)
        for heard in ("ready ", "ready 2 ", "ready 2 15 "):
            wait_for(heard)
            os.kill(os.getpid(), signal.SIGINT)
        assert command.wait(20)
        command.stop()
    assert command.exit_code == 137
