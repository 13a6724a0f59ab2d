"""NCCL's configuration files as NCCL itself reads them, and its log as readings."""

from __future__ import annotations

from pathlib import Path

from envsnap.collectors import nccl
from envsnap.reading import Error, Unavailable, Value, Why
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


def test_the_empty_machine() -> None:
    assert list(nccl.collect(FakeHost(replies=SELF), Scope())) == []
