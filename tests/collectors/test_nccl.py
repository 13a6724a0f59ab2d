"""NCCL's configuration files as NCCL itself reads them, and its log as readings."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from envsnap.collectors import nccl
from envsnap.host import LiveHost
from envsnap.reading import Error, Missing, Unavailable, Value, Why
from envsnap.scope import Scope
from tests.fakes import FakeHost

SELF = {("self",): {"uid": 1000}, ("environ",): {"HOME": "/elsewhere"}}
PASSWD = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me/:/bin/sh\n"


def test_files_are_read_as_nccl_reads_them() -> None:
    text = "NCCL_PROTO=LL\n#NCCL_ALGO=Ring\n #NCCL_IB_HCA=mlx5_0\nNCCL_NTHREADS = 256\nNCCL_PROTO=Simple\nno setting\n"
    host = FakeHost(
        {"/etc/passwd": PASSWD, "/etc/nccl.conf": text, "/home/me/.nccl.conf": "NCCL_DEBUG=WARN\n"}, replies=SELF
    )
    found = dict(nccl.collect(host, Scope()))
    assert found["nccl.conf[system].set[NCCL_PROTO]"] == Value("LL")
    assert found['nccl.conf[system].set["NCCL_NTHREADS "]'] == Value(" 256")
    assert found["nccl.conf[system].odd_names"] == Value([" #NCCL_IB_HCA", "NCCL_NTHREADS "])
    assert found["nccl.conf[user].set[NCCL_DEBUG]"] == Value("WARN")
    assert found["nccl.conf[user].path"] == Value("/home/me/.nccl.conf")
    assert "nccl.conf[system].set[NCCL_ALGO]" not in found


def test_the_variable_replaces_the_users_file() -> None:
    replies = {**SELF, ("environ",): {"NCCL_CONF_FILE": "/job/nccl.conf"}}
    files = {"/etc/passwd": PASSWD, "/job/nccl.conf": "NCCL_ALGO=Tree\n", "/home/me/.nccl.conf": "NCCL_ALGO=Ring\n"}
    found = dict(nccl.collect(FakeHost(files, replies=replies), Scope()))
    assert found["nccl.conf[user].set[NCCL_ALGO]"] == Value("Tree")


def test_a_file_that_may_not_be_read_is_not_an_absent_one() -> None:
    host = FakeHost({"/etc/passwd": PASSWD}, replies=SELF, denied=["/etc/nccl.conf"])
    found = dict(nccl.collect(host, Scope()))
    assert isinstance(found["nccl.conf[system]"], Unavailable)


def test_a_log_becomes_readings_of_its_ranks() -> None:
    data = Path(__file__).parents[1] / "data" / "h200x2"
    files = {f"/log/{n}": (data / f"nccl.rank{n}.log").read_text() for n in (0, 1)}
    found = dict(nccl.collect(FakeHost(files, replies=SELF), Scope(nccl_logs=("/log/0", "/log/1"))))
    assert found["nccl.log.rank_count"] == Value(2)
    assert found["nccl.rank[1].set[NCCL_PROTO]"] == Value("Simple")
    assert found["nccl.rank[0].transport[1]"] == Value(["P2P/CUMEM"])
    assert found["nccl.rank[0].channels[nvls]"] == Value(0)
    assert not any(isinstance(f, Error) for f in found.values())


def test_a_log_that_is_not_there() -> None:
    found = dict(nccl.collect(FakeHost(replies=SELF), Scope(nccl_logs=("/gone",))))
    assert found["nccl.log"] == Unavailable(Why.ABSENT, "No such file or directory: /gone")


RAS = (Path(__file__).parents[1] / "data" / "h200x2" / "ras.json").read_text()


def test_the_service_of_a_running_job() -> None:
    greeting, accepted, status = RAS.split("\n", 2)
    host = FakeHost(replies={**SELF, ("dialogue", 28028): [greeting + "\n", accepted + "\n", status]})
    found = dict(nccl.collect(host, Scope(match=("sglang",))))
    assert found["nccl.ras.version"] == Value("2.28.9")
    assert found["nccl.ras.largest_ranks_count"] == Value(2)
    assert found["nccl.ras.missing_ranks_count"] == Value(0)
    assert found["nccl.ras.errors_count"] == Value(0)
    assert not any(r[0] == "dialogue" for r in _asked_without_processes())


def _asked_without_processes() -> list[Any]:
    host = FakeHost(replies=SELF)
    list(nccl.collect(host, Scope()))
    return list(host.asked)


@pytest.mark.parametrize("status", ["", "{", "[]", "{}", '{"communicators": 3}'])
def test_a_service_of_another_form(status: str) -> None:
    (found,) = dict(nccl.ras_readings(status)).values()
    assert isinstance(found, Error)


def test_no_service_and_another_one() -> None:
    (found,) = dict(nccl.collect(FakeHost(replies=SELF), Scope(pids=(1,)))).values()
    assert isinstance(found, Unavailable)
    host = FakeHost(replies={**SELF, ("dialogue", 28028): ["HTTP/1.1 400", "", ""]})
    (found,) = dict(nccl.collect(host, Scope(pids=(1,)))).values()
    assert isinstance(found, Unavailable)


def test_a_real_line_protocol_at_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as stream:
                stream.readline()
                stream.write(b"SERVER PROTOCOL 2\n")
                stream.flush()
                stream.readline()
                stream.write(b"one\ntwo\n")

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        assert LiveHost().one("dialogue", port, ["HELLO", "STATUS"]) == ["SERVER PROTOCOL 2\n", "one\ntwo\n"]
        thread.join()
    with pytest.raises(Missing):
        LiveHost().one("dialogue", port, ["HELLO"], 1.0)


def test_the_empty_machine() -> None:
    assert list(nccl.collect(FakeHost(replies=SELF), Scope())) == []
