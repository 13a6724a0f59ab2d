"""The parent of a verb that touches the machine: each case is a real process with a child that misbehaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import Spawn

PRELUDE = """
    import os, signal, sys, time
    from envsnap.cli._supervise import lift_limit, supervised
    def say(text):
        print(text, flush=True)
"""


Start = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def start(spawn: Spawn) -> Start:
    """Starts a program, which ends with its child when the test does."""

    def started(program: str, *arguments: object) -> subprocess.Popen[str]:
        code = textwrap.dedent(PRELUDE) + textwrap.dedent(program)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return spawn([sys.executable, "-c", code, *arguments], text=True, **pipes)

    return started


@pytest.fixture
def run(start: Start) -> Run:
    """Runs a program to its end: its exit code, output and errors."""

    def ran(program: str, *arguments: object) -> tuple[int, str, str]:
        process = start(program, *arguments)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    return ran


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_code_and_the_output_of_the_child(run: Run, code: int) -> None:
    program = """
        def work():
            print("done")  # not flushed by the work itself
            return int(sys.argv[1])
        sys.exit(supervised(work, 30))
    """
    assert run(program, code) == (code, "done\n", "")


def test_a_child_that_hangs_is_left_behind(run: Run, tmp_path: Path) -> None:
    program = """
        def work():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open(sys.argv[1], "w").write(str(os.getpid()))
            time.sleep(600)
        say(supervised(work, 0.5))
    """
    assert run(program, tmp_path / "pid")[:2] == (0, "None\n")
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text():
            return
        time.sleep(0.05)
    pytest.fail("the child is still there")


def test_a_child_that_cannot_exit_holds_back_neither_its_code_nor_who_reads_its_output(
    run: Run, tmp_path: Path
) -> None:
    program = """
        import envsnap.cli._supervise as module
        module._GRACE_SECONDS = 0.2
        # As with a thread stuck in the kernel: the process neither ends by itself nor is there a signal that ends it.
        module.os._exit = lambda code: time.sleep(600)
        def work():
            open(sys.argv[1], "w").write(str(os.getpid()))
            say("worked")
            return 1
        module.os.kill = lambda pid, number: None
        say(supervised(work, 30))
    """
    try:
        assert run(program, tmp_path / "pid")[:2] == (0, "worked\n1\n")
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_child_that_is_killed_is_told_by_its_signal(run: Run) -> None:
    assert run("say(supervised(lambda: os.kill(os.getpid(), signal.SIGKILL), 30))")[:2] == (0, "137\n")


def test_an_exception_that_nobody_caught_is_shown_and_is_trouble(run: Run) -> None:
    code, out, err = run("say(supervised(lambda: 1 / 0, 30))")
    assert (code, out) == (0, "2\n")
    assert "ZeroDivisionError" in err


def test_the_limit_can_be_lifted_once_the_machine_was_read(run: Run) -> None:
    program = """
        def work():
            lift_limit()
            time.sleep(1.0)
            return 7
        say(supervised(work, 0.3))
    """
    assert run(program)[:2] == (0, "7\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_reach_the_child_which_cleans_up(start: Start, number: signal.Signals) -> None:
    program = """
        def work():
            try:
                say("ready")
                time.sleep(600)
            except KeyboardInterrupt as interrupt:
                say("cleaned up")
                return 128 + interrupt.args[0]
        sys.exit(supervised(work, 60))
    """
    process = start(program)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.communicate(timeout=60)[0] == "cleaned up\n"
    assert process.returncode == 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_moment_of_the_fork_still_reaches_the_child(run: Run, number: signal.Signals) -> None:
    program = """
        fork = os.fork
        def fork_and_signal():
            child = fork()
            if child:
                os.kill(os.getpid(), int(sys.argv[1]))  # before the parent has set up anything
            return child
        os.fork = fork_and_signal
        sys.exit(supervised(lambda: time.sleep(600), 60))
    """
    assert run(program, number.value) == (128 + number, "", "")


def test_a_second_signal_does_not_interrupt_the_cleaning_up(start: Start) -> None:
    program = """
        def work():
            try:
                say("ready")
                time.sleep(600)
            except KeyboardInterrupt:
                os.kill(os.getpid(), signal.SIGINT)
                say("cleaned up")
                return 130
        sys.exit(supervised(work, 60))
    """
    process = start(program)
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "cleaned up\n"
