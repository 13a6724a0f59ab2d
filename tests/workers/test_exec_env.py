"""The environment at exec: whole, or clobbered, and never believed in parts."""

from __future__ import annotations

import sys

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from envsnap.workers import exec_env
from envsnap.workers.tree import Process, table
from tests.fakes import FakeHost
from tests.workers.running import PLAIN, compiled, python_program, reported, running, said


def read(pid: int) -> dict[str, str] | Unavailable:
    host = LiveHost()
    found = exec_env.read_all(host, [table(host)[pid]])[pid]
    return found if isinstance(found, Unavailable) else dict(found)


def test_what_the_process_set_later_is_not_in_it() -> None:
    with running([compiled(), "set"]) as process:
        said(process)
        assert read(process.pid) == PLAIN


@pytest.mark.parametrize("title", ["short", "engine::worker_TP0 " + "long " * 100, "a" * 5000])
def test_a_title_clobbers_it(title: str) -> None:
    pytest.importorskip("setproctitle")
    with running(python_program(sys.executable, "here", f"title:{title}")) as process:
        reported(process)
        found = read(process.pid)
    assert isinstance(found, Unavailable)
    assert found.why is Why.CLOBBERED


@pytest.mark.parametrize("title", ["short", "engine::worker_TP0 " + "long " * 100])
def test_spt_noenv_keeps_it(title: str) -> None:
    pytest.importorskip("setproctitle")
    env = {**PLAIN, "SPT_NOENV": "1"}
    with running(python_program(sys.executable, "here", "set", f"title:{title}"), env) as process:
        reported(process)
        assert read(process.pid) == env


def test_an_environment_that_was_empty_is_empty() -> None:
    with running([compiled("-static"), ""], env={}) as process:
        said(process)
        assert read(process.pid) == {}


TORCH = "TORCHINDUCTOR_CACHE_DIR=/c\0NCCL_NVLS_ENABLE=0\0"


@pytest.mark.parametrize(
    ("environ", "command", "argument_bytes"),
    [
        (bytes(3000).decode(), "sglang::scheduler_TP0" + "\0" * 90, 111),
        ("\0" * 400 + TORCH, "sglang::scheduler_TP0" + "\0" * 90, 111),
        ("of a title that ran over\0" + TORCH, "title", 5),
        ("LE=a title with an equals sign\0" + TORCH, "python TITLE=a title with an equals sign", 10),
        ("A=1\0B=2\0C=cut off at the end", "python\0", 7),
        ("A=1\0=\0", "python\0", 7),
        ("A=1\0\0B=2\0", "python\0", 7),
    ],
    ids=["all zero", "some survive", "title spilled", "title that looks like a variable", "cut", "nameless", "hole"],
)
def test_damage_is_recognised(environ: str, command: str, argument_bytes: int) -> None:
    assert exec_env.variables(environ, command, argument_bytes) is exec_env.CLOBBERED


def test_a_whole_one_is_not() -> None:
    assert exec_env.variables("A=1\0B=\0A=2\0", "python\0x\0", 9) == {"A": "1", "B": ""}
    assert exec_env.variables("A=\udcff\0", "\udcff\0", 2) == {"A": "\udcff"}


def test_changes_since_exec() -> None:
    live = {"KEPT": "1", "CHANGED": "8", "ADDED": "x"}
    at_exec = {"KEPT": "1", "CHANGED": "1", "REMOVED": "y"}
    assert exec_env.added(live, at_exec) == ["ADDED"]
    assert exec_env.replaced(live, at_exec) == {"CHANGED": "1", "REMOVED": "y"}


def test_a_zombie_and_an_ended_process_have_none() -> None:
    """Their environ is an empty file, which must not pass for an empty environment."""
    zombie = Process(7, 1, "python3", "Z", "", 0)
    ended = Process(8, 1, "python3", "S", "python3\0", 0)
    host = FakeHost(files={"/proc/7/environ": "", "/proc/7/cmdline": ""})
    found = exec_env.read_all(host, [zombie, ended])
    assert all(isinstance(f, Unavailable) and f.why is Why.GONE for f in found.values())


def test_denied() -> None:
    host = FakeHost(files={"/proc/7/cmdline": "x\0"}, denied=["/proc/7/environ"])
    found = exec_env.read_all(host, [Process(7, 1, "x", "S", "x\0", 0)])[7]
    assert isinstance(found, Unavailable)
    assert found.why is Why.DENIED
