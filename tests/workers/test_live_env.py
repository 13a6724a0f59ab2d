"""The live environment of real processes, whatever they did to it."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from envsnap.host import Answer, LiveHost, Request
from envsnap.reading import Unavailable, Why
from envsnap.workers import memory
from envsnap.workers.live_env import Environment, _confirmed, read_all
from tests.fakes import FakeHost
from tests.workers.running import PLAIN, compiled, interpreters, python_program, reported, running, said

COMPILED = {
    "position-independent": (),
    "not position-independent": ("-fno-pie", "-no-pie"),
    "static": ("-static",),
    "static and position-independent": ("-static-pie",),
    "old hash table": ("-Wl,--hash-style=sysv", "-no-pie"),
    "one segment": ("-Wl,-z,noseparate-code",),
}


def read(pid: int) -> Environment | Unavailable:
    return read_all(LiveHost(), [pid])[pid]


def variables(pid: int) -> dict[str, str]:
    found = read(pid)
    assert isinstance(found, Environment), found
    assert not found.torn
    return dict(found.variables)


def parsed(lines: list[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("options", COMPILED.values(), ids=COMPILED.keys())
def test_what_c_code_set_is_seen_however_the_program_was_linked(options: tuple[str, ...]) -> None:
    with running([compiled(*options), "set"]) as process:
        shown = parsed(said(process))
        found = variables(process.pid)
    assert found == shown
    assert found["ADDED"] == "in C"
    assert found["CHANGED"] == "after"
    assert found["PUT"] == "by reference"
    assert "REMOVED" not in found


@pytest.mark.parametrize("options", [(), ("-static",)], ids=["dynamic", "static"])
def test_musl(options: tuple[str, ...]) -> None:
    with running([compiled(*options, compiler="musl-gcc"), "set"]) as process:
        shown = parsed(said(process))
        assert variables(process.pid) == shown


def test_a_stripped_static_program_is_unavailable_with_words() -> None:
    with running([compiled("-static", "-s"), "set"]) as process:
        said(process)
        found = read(process.pid)
    assert isinstance(found, Unavailable)
    assert found.why is Why.NOT_SUPPORTED
    assert "static program without symbols" in found.detail


@pytest.mark.parametrize("interpreter", interpreters())
def test_every_python_here(interpreter: str) -> None:
    with running(python_program(interpreter, "here", "set")) as process:
        (report,) = reported(process)
        found = variables(process.pid)
    assert found == report["environ"]
    assert found["BY_C"] == "setenv"
    assert found["BY_PUTENV"] == "os.putenv"
    assert found["CHANGED"] == "after"
    assert "REMOVED" not in found
    assert "REMOVED_BY_C" not in found


@pytest.mark.parametrize("interpreter", interpreters())
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_of_multiprocessing(interpreter: str, method: str) -> None:
    with running(python_program(interpreter, method, "set", "rank")) as process:
        reports = reported(process, 2)
        found = read_all(LiveHost(), [report["pid"] for report in reports])
    for report in reports:
        environment = found[report["pid"]]
        assert isinstance(environment, Environment)
        assert environment.variables == report["environ"]
        assert environment.variables["RANK"] == report["tag"]


@pytest.mark.parametrize("title", ["short", "engine::worker_TP0 " + "long " * 100], ids=["short", "long"])
@pytest.mark.parametrize("kept", [False, True], ids=["clobbering", "SPT_NOENV"])
def test_a_title_hides_nothing(title: str, kept: bool) -> None:
    pytest.importorskip("setproctitle")
    env = {**PLAIN, "SPT_NOENV": "1"} if kept else PLAIN
    with running(python_program(sys.executable, "here", "set", f"title:{title}"), env) as process:
        (report,) = reported(process)
        found = variables(process.pid)
    assert found == report["environ"]
    assert found["PATH"] == PLAIN["PATH"]


def test_an_array_replaced_as_a_whole() -> None:
    with running([compiled(), "whole"]) as process:
        said(process)
        assert variables(process.pid) == {"ONLY": "this", "AND": "that"}


def test_strange_entries_count_as_getenv_counts_them() -> None:
    with running([compiled(), "strange"]) as process:
        said(process)
        assert variables(process.pid) == {"TWICE": "first", "EMPTY": "", "BYTES": "\udcff\udcfe"}


def test_a_cleared_environment_is_empty_once_the_process_has_had_time_to_set_one_up() -> None:
    with running([compiled(), "clear"]) as process:
        said(process)
        deadline = time.monotonic() + 20
        while isinstance(found := read(process.pid), Unavailable) and time.monotonic() < deadline:
            assert found.why is Why.TORN
            assert "just started" in found.detail
            time.sleep(0.1)
        assert found == Environment({})


def test_a_long_value_is_whole() -> None:
    with running([compiled(), "long"]) as process:
        said(process)
        assert variables(process.pid)["LONG"] == "x" * 200_000


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("cyclic", Why.TOO_LARGE),
        ("many", Why.TOO_LARGE),
        ("endless", Why.TOO_LARGE),
        ("unmapped", Why.CLOBBERED),
        ("kernel", Why.CLOBBERED),
        ("unended", Why.CLOBBERED),
        ("unended-string", Why.CLOBBERED),
        ("dangling", Why.CLOBBERED),
    ],
)
def test_a_hostile_array_is_bounded(mode: str, why: Why) -> None:
    with running([compiled(), mode]) as process:
        said(process)
        found = read(process.pid)
    assert isinstance(found, Unavailable)
    assert found.why is why
    assert "environ" in found.detail


def test_a_process_that_rewrites_its_environment_never_yields_what_it_never_set() -> None:
    seen = torn = 0
    with running([compiled(), "loop"]) as process:
        said(process)
        for _ in range(200):
            found = read(process.pid)
            if isinstance(found, Unavailable):
                assert found.why is Why.TORN
                torn += 1
                continue
            seen += 1
            for name, value in found.variables.items():
                if name == "LOOP":
                    assert len(set(value)) == 1
                    assert 1 <= len(value) <= 64
                elif name.startswith("GROW"):
                    assert value == "grown"
                else:
                    assert PLAIN[name] == value
            assert not set(found.torn) & set(found.variables)
            assert found.variables.keys() >= PLAIN.keys()
    assert seen + torn == 200


def test_one_variable_that_changes_costs_only_itself() -> None:
    """Between two looks at the same array one string is replaced, each time: all others are read."""
    arrays = iter(range(1000))

    def answer(pid: int, ranges: list[list[int]]) -> list[str]:
        return [_encoded(_STEADY, at, size, next(arrays)) for at, size in ranges]

    found = _read_made_up(answer)
    assert found == Environment({"SAME": "1"}, torn=("MOVING",))


def test_of_two_variables_with_one_name_the_second_does_not_stand_in_for_a_torn_first() -> None:
    memory_of = {**_STEADY, 0x4000: b"MOVING=steady second\0", 0x50000: b"MOVING=%d\0", 0x60000: b"SAME=1\0"}
    memory_of[0x3000] = b"".join(at.to_bytes(8, "little") for at in (0x50000, 0x4000, 0x60000, 0))
    looks = iter(range(1000))

    def answer(pid: int, ranges: list[list[int]]) -> list[str]:
        return [_encoded(memory_of, at, size, next(looks)) for at, size in ranges]

    assert _read_made_up(answer) == Environment({"SAME": "1"}, torn=("MOVING",))


def test_what_moves_as_a_whole_is_torn() -> None:
    calls = iter(range(1000))

    def answer(pid: int, ranges: list[list[int]]) -> list[str]:
        moved = next(calls) % 2
        return [
            _encoded({**_STEADY, 0x2000: (0x3000 + 8 * moved).to_bytes(8, "little")}, at, size, 0)
            for at, size in ranges
        ]

    found = _read_made_up(answer)
    assert isinstance(found, Unavailable)
    assert found.why is Why.TORN


@pytest.mark.parametrize(("garbage_for", "why"), [(1, None), (1000, Why.TORN)])
def test_an_array_that_is_freed_while_it_is_read_is_torn_and_not_clobbered(garbage_for: int, why: Why | None) -> None:
    """It seems to lead nowhere, but when looked at again it is another one."""
    looks = iter(range(100_000))

    def answer(pid: int, ranges: list[list[int]]) -> list[str]:
        look = next(looks)
        array = (
            {**_STEADY, 0x3000: (0x70000 + look).to_bytes(8, "little") + bytes(8)}
            if look < 2 * garbage_for
            else _STEADY
        )
        return [_encoded(array, at, size, 0) for at, size in ranges]

    found = _read_made_up(answer)
    if why is None:
        assert found == Environment({"SAME": "1", "MOVING": "0"})
    else:
        assert isinstance(found, Unavailable)
        assert found.why is why


def test_a_zombie_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    try:
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0] != "Z":
            time.sleep(0.01)
        found = read(process.pid)
    finally:
        process.wait()
    assert found == Unavailable(Why.GONE, "the process has ended")


def test_one_that_exits_after_its_maps_were_read_is_gone() -> None:
    class Ends(LiveHost):
        def ask(self, requests: Sequence[Request]) -> list[Answer]:
            answers = super().ask(requests)
            if any(r[0] == "read" and str(r[1]).endswith("/maps") for r in requests):
                process.kill()
                process.wait()
            return answers

    with running([compiled(), "set"]) as process:
        said(process)
        found = read_all(Ends(), [process.pid])[process.pid]
    assert isinstance(found, Unavailable)
    assert found.why is Why.GONE


def test_one_that_replaces_itself_by_exec_meanwhile_is_read_anew() -> None:
    class Execs(LiveHost):
        asked = 0

        def ask(self, requests: Sequence[Request]) -> list[Answer]:
            answers = super().ask(requests)
            if requests[0][0] == "memory" and requests[0][2][0][1] == 8 and not self.asked:
                self.asked = 1
                assert process.stdin
                assert process.stdout
                process.stdin.write("\n")
                process.stdin.flush()
                said(process)
                answers = super().ask(requests)
            return answers

    with running(["/bin/sh", "-c", 'echo; read line; exec "$0" set', compiled("-no-pie")]) as process:
        said(process)
        host = Execs()
        found = read_all(host, [process.pid])[process.pid]
    assert host.asked
    assert isinstance(found, Environment)
    assert found.variables["ADDED"] == "in C"


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_a_process_in_other_mount_and_pid_namespaces() -> None:
    """Its libc lies where this process cannot see it: only what is mapped is read."""
    hidden = ["unshare", "-mpf", "--mount-proc", "--kill-child"]
    inner = 'mount -t tmpfs none /mnt && cp "$0" /mnt/program && exec /mnt/program set'
    with running([*hidden, "/bin/sh", "-c", inner, compiled("-no-pie")]) as process:
        assert process.stdout
        first = process.stdout.readline()
        if not first:
            pytest.skip("namespaces cannot be made here")
        said(process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        found = variables(int(children[0]))
        assert not os.path.exists("/mnt/program")
    assert found["ADDED"] == "in C"


def test_all_processes_share_the_rounds() -> None:
    """Twenty processes take as many round trips as one, and none is asked for its whole memory."""

    class Counts(LiveHost):
        def __init__(self) -> None:
            super().__init__()
            self.batches = 0

        def ask(self, requests: Sequence[Request]) -> list[Answer]:
            self.batches += 1
            return super().ask(requests)

    with running(python_program(sys.executable, "spawn", "many")) as process:
        pids = [report["pid"] for report in reported(process, 2)]
        one, both = Counts(), Counts()
        read_all(one, pids[:1])
        found = read_all(both, pids)
    assert both.batches == one.batches <= 12
    assert all(isinstance(e, Environment) and len(e.variables) >= 120 for e in found.values())


def test_the_empty_machine() -> None:
    assert read_all(FakeHost(), [7]) == {7: Unavailable(Why.GONE, "the process has ended")}


_STEADY = {
    0x2000: (0x3000).to_bytes(8, "little"),
    0x3000: (0x4000).to_bytes(8, "little") + (0x50000).to_bytes(8, "little") + bytes(8),
    0x3008: (0x4000).to_bytes(8, "little") + bytes(8),
    0x4000: b"SAME=1\0",
    0x50000: b"MOVING=%d\0",
}


def _encoded(memory: dict[int, bytes], at: int, size: int, count: int) -> str:
    data = memory.get(at, b"")
    return base64.b64encode((data % count if b"%d" in data else data)[:size]).decode()


def _read_made_up(answer: Callable[[int, list[list[int]]], list[str]]) -> Environment | Unavailable:
    host = FakeHost(replies={("memory",): answer})
    return memory.together(host, {7: _confirmed(0x2000)})[7]
