from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from envsnap import machine
from envsnap.host import Answer, LiveHost, Request
from envsnap.reading import Unavailable, Value, Why

untyped: Any = machine


def answer(request: Request) -> Answer:
    return LiveHost().ask([request])[0]


def test_files_that_match_each_with_its_own_answer(tmp_path: Path) -> None:
    for name, text in (("a1", "one\n"), ("a2", "x" * 100), ("b1", "no")):
        (tmp_path / name).write_text(text)
    (tmp_path / "a3").mkdir()
    operation, found = answer(["read_matching", f"{tmp_path}/a*", 50])
    assert operation == "ok"
    assert found[f"{tmp_path}/a1"] == ["ok", "one\n"]
    assert found[f"{tmp_path}/a2"][:2] == ["missing", "too_large"]
    assert found[f"{tmp_path}/a3"][:2] == ["missing", "not_supported"]
    assert set(found) == {f"{tmp_path}/a1", f"{tmp_path}/a2", f"{tmp_path}/a3"}


def test_more_matches_than_agreed_are_refused(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"a{number}").touch()
    assert answer(["read_matching", f"{tmp_path}/a*", 50, 3])[:2] == ["missing", "too_large"]


def test_requests_that_hang_do_not_hold_those_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("here")
    woken = threading.Event()
    monkeypatch.setitem(machine.OPERATIONS, "hang", woken.wait)
    asked = [["hang"], ["read", f"{tmp_path}/x"], ["hang"], ["read", f"{tmp_path}/y"]]
    found = LiveHost().within(0.3, asked)
    woken.set()
    assert found[1] == Value("here")
    assert [f.why for f in found if isinstance(f, Unavailable)] == [Why.TIMEOUT, Why.TIMEOUT, Why.ABSENT]


def test_too_many_requests_at_once_are_refused() -> None:
    assert answer(["within", 0.1, [["uname"]] * 65])[:2] == ["missing", "too_large"]


def test_cpu_clocks_agree_with_what_a_process_says_of_itself() -> None:
    before = time.process_time_ns()
    read = untyped._cpu_times()[os.getpid()]
    after = time.process_time_ns()
    assert before <= read <= after


def test_a_process_that_ends_meanwhile_is_no_trouble() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        sampled = answer(["busiest", 0.1])[1]
        child.wait()
    assert sampled["processes"] >= 1
    assert sampled["elapsed_ns"] >= 100_000_000


def test_the_address_of_an_interface() -> None:
    interfaces = {name for _, name in socket.if_nameindex()}
    if "lo" in interfaces:
        assert answer(["ipv4_address", "lo"]) in (
            ["ok", "127.0.0.1"],
            ["missing", "absent", "lo has no IPv4 address"],
        )
    assert answer(["ipv4_address", "nosuch0"])[:2] == ["missing", "absent"]
    assert answer(["ipv4_address", "x" * 300])[:2] == ["missing", "absent"]


def test_a_name_that_the_c_library_does_not_know() -> None:
    assert answer(["confstr", "CS_NO_SUCH_NAME"])[:2] == ["missing", "not_supported"]
