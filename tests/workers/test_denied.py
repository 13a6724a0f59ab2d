"""Denial: real refusals by user, dumpable flag and dropped capability, and Yama's at the Host boundary."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from envsnap.workers import denied, live_env
from tests.fakes import FakeHost, missing
from tests.workers.running import compiled, running, said

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
NOBODY = 65534


def as_another(become: Callable[[], object], pid: int) -> Unavailable:
    """What a forked copy of this process, after `become`, says about the environment of `pid`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        code = 1
        try:
            become()
            host = LiveHost()
            found = live_env.read_all(host, [pid])[pid]
            if isinstance(found, Unavailable):
                why = denied.explain(host, [pid])[pid] if found.why is Why.DENIED else found
                os.write(writing, json.dumps([why.why.value, why.detail]).encode())
                code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    assert data, "it could be read"
    why, detail = json.loads(data)
    return Unavailable(Why(why), detail)


def be_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def drop_ptrace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, data) == 0
    for i in (0, 1):  # effective and permitted
        data[i] &= ~(1 << 19)
    assert libc.capset(header, data) == 0


@root
def test_another_user() -> None:
    with running([compiled(), "set"]) as process:
        said(process)
        found = as_another(be_nobody, process.pid)
    assert found.why is Why.DENIED
    assert found.detail.startswith("it runs as user 0, and envsnap as user 65534 without CAP_SYS_PTRACE")
    assert denied.WAYS_OUT in found.detail


@root
def test_a_dropped_capability() -> None:
    with running([compiled(), "set"]) as process:
        said(process)
        found = as_another(drop_ptrace, process.pid)
    assert found.why is Why.DENIED
    assert "capabilities that envsnap lacks" in found.detail


@root
def test_not_dumpable() -> None:
    code = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print(flush=True); time.sleep(600)"
    interpreter = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    with running([interpreter, "-c", code], user=NOBODY, group=NOBODY, extra_groups=[]) as process:
        said(process)
        found = as_another(be_nobody, process.pid)
    assert found.why is Why.DENIED
    assert "not dumpable" in found.detail


STATUS = "Uid:\t{0}\t{0}\t{0}\t{0}\nCapPrm:\t{1:016x}\nCapEff:\t{1:016x}\n"


@pytest.mark.parametrize(
    ("me", "target", "owner", "yama", "words"),
    [
        ((1000, 0), (1000, 0), 1000, 1, "ptrace_scope is 1: only an ancestor"),
        ((1000, 0), (1000, 0), 1000, 2, "ptrace_scope is 2: only with CAP_SYS_PTRACE"),
        ((0, 1 << 19), (0, 0), 0, 3, "ptrace_scope is 3: nobody"),
        ((1000, 0), (1001, 0), 1001, 0, "it runs as user 1001, and envsnap as user 1000"),
        ((1000, 0), (1000, 0), 0, 1, "not dumpable"),
        ((1000, 0), (1000, 1 << 23), 1000, 0, "capabilities that envsnap lacks"),
        ((0, 1 << 19), (0, 0), 0, 1, "another user namespace, a security module or a sandbox"),
        ((1000, 0), (1000, 0), None, 0, "another user namespace, a security module or a sandbox"),
    ],
)
def test_reasons_in_the_kernels_order(
    me: tuple[int, int], target: tuple[int, int], owner: int | None, yama: int, words: str
) -> None:
    assert words in denied.reason(STATUS.format(*me), STATUS.format(*target), owner, yama)


def test_yama_at_the_host_boundary() -> None:
    """Under scope 1 the maps of a sibling can be read, and its memory cannot."""
    maps = "55a000000000-55a000001000 r--p 00000000 08:01 12 /usr/bin/python3\n"
    host = FakeHost(
        files={
            "/proc/7/maps": maps,
            "/proc/7/status": STATUS.format(1000, 0),
            "/proc/self/status": STATUS.format(1000, 0),
            "/proc/sys/kernel/yama/ptrace_scope": "1\n",
        },
        links={"/proc/7/exe": "/usr/bin/python3"},
        replies={
            ("memory", 7): missing("denied", "Permission denied: /proc/7/mem"),
            ("stat", "/proc/7/status"): {"uid": 1000},
        },
    )
    found = live_env.read_all(host, [7])[7]
    assert isinstance(found, Unavailable)
    assert found.why is Why.DENIED
    assert denied.explain(host, [7])[7].detail.startswith("Yama's ptrace_scope is 1")


def test_nothing_known_about_it() -> None:
    found = denied.explain(FakeHost(), [7])[7]
    assert found.why is Why.DENIED
    assert found.detail.startswith("the kernel refuses it")


def test_nothing_denied_asks_nothing() -> None:
    host = FakeHost()
    assert denied.explain(host, []) == {}
    assert not host.asked
