"""The process table, and which processes are of interest."""

from __future__ import annotations

import os
import sys

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Missing, Why
from envsnap.scope import Scope
from envsnap.workers.tree import Group, of_interest, parse, table
from tests.fakes import FakeHost
from tests.workers.running import compiled, python_program, reported, running, said

SERVER = "python3\0-m\0sglang.launch_server\0--tp\0002\0"


def stat(
    pid: int, parent: int, name: str = "python3", start: int | None = None, state: str = "S", flags: int = 0
) -> str:
    fields = [state, parent, pid, pid, 0, -1, flags, *[0] * 8, 20, 0, 1, 0, 100 + pid if start is None else start]
    return f"{pid} ({name}) " + " ".join(map(str, [*fields, *[0] * 30])) + "\n"


def machine(*processes: tuple[int, int, str], me: int = 99) -> FakeHost:
    """A machine with these (pid, parent, cmdline) processes; envsnap is process 99."""
    found = [[stat(pid, parent, command.split("\0")[0][:15]), command] for pid, parent, command in processes]
    return FakeHost(replies={("processes",): found, ("self",): {"pid": me, "time": 2000.0}})


def pids(groups: tuple[Group, ...]) -> list[list[int]]:
    return [[p.pid for p in group.members] for group in groups]


def test_without_a_name_there_are_no_processes_of_interest() -> None:
    with pytest.raises(Missing) as missing:
        of_interest(machine((1, 0, "init\0")), Scope())
    assert missing.value.why is Why.OFF
    assert "--pid or --match" in missing.value.detail


def test_nothing_that_matches_is_absent() -> None:
    for scope in (Scope(match=("sglang",)), Scope(pids=(4711,))):
        with pytest.raises(Missing) as missing:
            of_interest(machine((1, 0, "init\0")), scope)
        assert missing.value.why is Why.ABSENT


def test_a_pattern_that_is_none_is_said() -> None:
    with pytest.raises(Missing, match="not a regular expression"):
        of_interest(machine((1, 0, "init\0")), Scope(match=("(",)))


TREE = (
    (1, 0, "init\0"),
    (10, 1, "-bash\0"),
    (20, 10, "bash\0serve.sh\0"),
    (30, 20, SERVER),
    (31, 30, "python3\0-c\0from multiprocessing.resource_tracker import main;main(5)\0"),
    (32, 30, "sglang::scheduler_TP0\0\0\0\0"),
    (33, 30, "sglang::scheduler_TP1\0\0\0\0"),
    (34, 32, "ptxas\0x.ptx\0"),
    (98, 10, "sudo\0envsnap\0capture\0--match\0sglang\0"),
    (99, 98, "python3\0/usr/bin/envsnap\0capture\0--match\0sglang\0"),
    (97, 10, "python3\0-m\0envsnap\0run\0--\0sglang\0"),
)


def test_a_match_brings_its_descendants_and_never_envsnap_or_who_started_it() -> None:
    (group,) = of_interest(machine(*TREE), Scope(match=("sglang",)))
    assert [p.pid for p in group.members] == [30, 31, 32, 33, 34]
    assert [p.pid for p in group.chain] == [20]
    assert not group.named


def test_a_pid_brings_its_descendants() -> None:
    (group,) = of_interest(machine(*TREE), Scope(pids=(32,)))
    assert [p.pid for p in group.members] == [32, 34]
    assert [p.pid for p in group.chain] == [20, 30]
    assert group.named


def test_the_shell_that_started_both_brings_the_server_but_not_envsnap() -> None:
    (group,) = of_interest(machine(*TREE), Scope(pids=(10,)))
    assert [p.pid for p in group.members] == [10, 20, 30, 31, 32, 33, 34]
    assert group.chain == ()


def test_a_server_started_by_envsnap_run_is_of_interest() -> None:
    host = machine(
        (1, 0, "init\0"), (10, 1, "bash\0"), (99, 10, "envsnap\0run\0sglang\0"), (30, 99, SERVER), (31, 30, "x\0")
    )
    (by_pattern,) = of_interest(host, Scope(match=("sglang",)))
    assert [p.pid for p in by_pattern.members] == [30, 31]
    assert [p.pid for p in by_pattern.chain] == [10]
    (by_pid,) = of_interest(host, Scope(pids=(99,)))
    assert [p.pid for p in by_pid.members] == [30, 31]


def test_several_servers_are_several_groups_in_order_of_start() -> None:
    host = machine((1, 0, "init\0"), (50, 1, SERVER), (30, 1, SERVER), (51, 50, "x\0"))
    assert pids(of_interest(host, Scope(match=("sglang",)))) == [[30], [50, 51]]


def test_where_a_session_begins_the_chain_ends() -> None:
    for above in ("sshd: root@pts/0\0", "/usr/bin/containerd-shim-runc-v2\0", "tmux: server\0"):
        name = above.split(":")[0].split("/")[-1].rstrip("\0")
        found = [
            [stat(1, 0, "systemd"), "/sbin/init\0"],
            [stat(5, 1, name[:15]), above],
            [stat(6, 5, "timeout"), "timeout\x00600\0" + SERVER],
            [stat(7, 6, "python3"), SERVER],
        ]
        host = FakeHost(replies={("processes",): found, ("self",): {"pid": 99}})
        (group,) = of_interest(host, Scope(match=("^python3 .*sglang",)))
        assert [p.pid for p in group.chain] == [6], above


def test_parents_that_go_in_a_circle_end() -> None:
    """As a table read while pids are used anew can show them; there is no root then."""
    with pytest.raises(Missing, match="no process matches"):
        of_interest(machine((5, 6, "a\0"), (6, 5, SERVER)), Scope(match=("sglang",)))


def test_a_name_with_brackets_and_blanks() -> None:
    process, kernel = parse(stat(7, 3, "a) R 9 (b"), "x\0")
    assert (process.pid, process.parent, process.name, process.state) == (7, 3, "a) R 9 (b", "S")
    assert (process.start_ticks, process.threads) == (107, 1)
    assert not kernel


def test_kernel_threads_are_left_out_and_garbage_costs_one_line() -> None:
    found = [[stat(2, 0, "kthreadd", flags=0x00200000), ""], ["garbage", ""], [stat(7, 1), "x\0"]]
    host = FakeHost(replies={("processes",): found})
    assert list(table(host)) == [7]


@pytest.mark.parametrize(
    ("command", "retitled", "argv"),
    [
        ("python3\0-m\0x\0", False, ("python3", "-m", "x")),
        ("sglang::scheduler_TP0\0\0\0\0", True, ("sglang::scheduler_TP0",)),
        ("a title that fills everything", True, ("a title that fills everything",)),
        ("", False, ()),
    ],
)
def test_titles(command: str, retitled: bool, argv: tuple[str, ...]) -> None:
    process, _ = parse(stat(7, 1), command)
    assert process.argv == argv
    assert process.retitled is retitled


def test_real_children_of_this_process() -> None:
    with running(python_program(sys.executable, "spawn")) as process:
        reports = reported(process, 2)
        (group,) = of_interest(LiveHost(), Scope(pids=(process.pid,)))
    assert {r["pid"] for r in reports} < {p.pid for p in group.members}
    assert os.getpid() not in {p.pid for p in (*group.members, *group.chain)}
    assert group.root.pid == process.pid
    assert all(p.environment_bytes > 0 and p.argument_bytes > 0 for p in group.members)


def test_a_real_title() -> None:
    pytest.importorskip("setproctitle")
    with running(python_program(sys.executable, "here", "title:engine::worker_TP3")) as process:
        reported(process)
        found = table(LiveHost())[process.pid]
    assert found.retitled
    assert found.argv == ("engine::worker_TP3",)


def test_a_real_match() -> None:
    with running([compiled(), "set"]) as process:
        said(process)
        (group,) = of_interest(LiveHost(), Scope(match=(compiled(),)))
    assert [p.pid for p in group.members] == [process.pid]
    assert not group.root.retitled
