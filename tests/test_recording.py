"""Recorded machines: they replay to what was read, and hold nothing that names a person or a machine."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from envsnap import cli
from envsnap.capture import capture
from envsnap.host import call_id, value_of
from envsnap.jsonfile import SnapshotError
from envsnap.reading import Unavailable, Why
from envsnap.recording import CALLS, GOLDEN, MACHINE, Recorded, load, record, replay
from envsnap.scope import Scope
from envsnap.snapshot import Snapshot, dumps
from envsnap.snapshot import load as load_snapshot
from tests.fakes import FakeHost
from tests.processes import Spawn

SECRET = "hunter2-and-more"
USER, HOST, IP, GATEWAY = "qwertha", "gpunode-17.corp.example.com", "10.83.44.17", "10.83.44.1"
MAC, UUID, MACHINE_ID = "b8:3f:d2:11:22:33", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "3d1219c7c4c5404aaa1f6d2a48adfda4"
PLANTED = (
    SECRET,
    USER,
    "gpunode",
    "corp.example",
    IP,
    "112C530A",
    "2D01A8C0",
    "012C530A",
    MAC,
    UUID,
    MACHINE_ID,
    "Quin",
    "wertha@corp",
)

FILES = {
    "/etc/machine-id": f"{MACHINE_ID}\n",
    "/proc/sys/kernel/random/boot_id": f"{UUID}\n",
    "/proc/sys/kernel/hostname": f"{HOST}\n",
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/cmdline": f"root=UUID={UUID} ip={IP}:8000 quiet\n",
    "/sys/class/net/eth0/address": f"{MAC}\n",
    "/sys/class/net/eth0/mtu": "9000\n",
    "/proc/net/route": "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eth0\t00000000\t012C530A\t0003\t0\t0\t0\t00000000\t0\t0\t0\neth0\t002C530A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
    "/proc/net/tcp": "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n"
    "   1: 112C530A:D431 2D01A8C0:01BB 01 00000000:00000000\n",
    "/proc/net/if_inet6": "fd5c000100020003000000000000abcd 02 40 00 80     eth0\n",
    f"/home/{USER}/.cache/huggingface/x": "x",
    "/etc/passwd": f"root:x:0:0:root:/root:/bin/bash\n{USER}:x:1000:1000:Quin Wertha,,,:/home/{USER}:/bin/bash\n",
    "/etc/os-release": 'NAME="Debian"\nVERSION_ID="12"\n',
}


def _machine() -> FakeHost:
    environ = {
        "HOME": f"/home/{USER}", "USER": USER, "DB_PASSWORD": SECRET, "NCCL_ALGO": "Ring", "PATH": "/usr/bin",
        "PYTHONPATH": f"/home/{USER}/src", "CURAND_VERSION": "10.3.9.90",
    }  # fmt: skip
    own = {
        "pid": 7, "ppid": 1, "uid": 1000, "euid": 1000, "gid": 1000, "cwd": f"/home/{USER}/src", "argv": ["x", SECRET],
        "hostname": HOST, "time": 1.8e9, "executable": "/usr/bin/python3", "version": "3.11.2", "modules": {},
        "version_info": [3, 11, 2], "implementation": "cpython", "prefix": "/usr", "base_prefix": "/usr", "path": [],
        "flags": {}, "machine": "x86_64",
    }  # fmt: skip
    return FakeHost(
        FILES,
        replies={
            ("environ",): environ,
            ("self",): own,
            ("uname",): {"system": "Linux", "node": HOST, "release": "6.1", "version": "#1", "machine": "x86_64"},
            ("ipv4_address",): IP,
        },
    )


def _golden(folder: Path) -> Snapshot:
    return load_snapshot(folder / GOLDEN)


def _everything(folder: Path) -> str:
    """All text of a folder, binary answers unpacked."""
    text = "".join((folder / name).read_text() for name in (MACHINE, CALLS, GOLDEN))
    for line in (folder / CALLS).read_text().splitlines():
        request, answer = json.loads(line)
        if request[0] in ("bytes", "memory") and answer[0] == "ok":
            parts = answer[1] if isinstance(answer[1], list) else [answer[1]]
            text += "".join(base64.b64decode(part).decode("latin-1") for part in parts if part)
    return text


def test_a_made_up_machine_without_its_names(tmp_path: Path) -> None:
    folder = tmp_path / "machine"
    live = capture(Scope(cache=False), _machine())
    found = record(folder, host=_machine())
    assert found.lost == []
    assert found.late == 0
    assert found.secrets >= 1
    text = _everything(folder)
    for planted in PLANTED:
        assert planted not in text, planted
    golden = _golden(folder)
    assert golden.values["env[NCCL_ALGO]"] == "Ring"
    assert golden.values["env[CURAND_VERSION]"] == "10.3.9.90"
    assert golden.values["env[PYTHONPATH]"] == "/home/user1xx/src"
    assert golden.values["os.hostname"] == "host1xxxxx.domain1.examplex"
    assert golden.values["network[eth0].mtu_bytes"] == live.values["network[eth0].mtu_bytes"] == 9000
    assert golden.values["network[eth0].mac_address"].startswith("02:00:00:")
    assert golden.values["network[eth0].ipv4_address"].startswith("192.0.2.")
    assert golden.values["network[eth0].ipv6_addresses"] == ["2001:db8::1"]
    assert golden.values["kernel.boot_id"] == "00000000-0000-4000-8000-000000000001"
    assert set(live.values) == set(golden.values)
    assert [s.status for s in live.sections.values()] == [s.status for s in golden.sections.values()]


@pytest.fixture
def child(spawn: Spawn) -> subprocess.Popen[bytes]:
    environ = {
        "DB_PASSWORD": SECRET,
        "LOGNAME": USER,
        "NCCL_PROTO": "Simple",
        "SOURCES": f"/home/{USER}/src",
        "PATH": "/",
    }
    code = "import sys, time; print('up', flush=True); time.sleep(60)"
    process = spawn([sys.executable, "-c", code, "--api-key", SECRET], env=environ, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    return process


def test_this_machine_replays_to_its_golden(
    tmp_path: Path, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "machine"
    found = record(folder, Scope(pids=(child.pid,)))
    assert found.lost == []
    assert found.late == 0
    text = _everything(folder)
    assert SECRET not in text
    assert USER not in text
    golden = _golden(folder)
    assert dumps(replay(folder)) == dumps(golden)
    assert golden.sections["cpu"].values
    worker = {path: value for path, value in golden.values.items() if path.startswith("worker[") and "env[" in path}
    assert [v for p, v in worker.items() if p.endswith("].env[NCCL_PROTO]")] == ["Simple"]
    assert [v for p, v in worker.items() if p.endswith("].env[SOURCES]")] == ["/home/user1xx/src"]
    hostname = socket.gethostname()
    assert len(hostname) < 6 or hostname not in text


def test_it_replays_where_nothing_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "machine"
    record(folder, host=_machine())
    before = dumps(replay(folder))
    monkeypatch.setenv("HOME", "/elsewhere")
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    monkeypatch.chdir("/")
    assert dumps(replay(folder)) == before == (folder / GOLDEN).read_text()


def test_tables_of_addresses_keep_their_form(tmp_path: Path) -> None:
    record(tmp_path / "machine", host=_machine())
    host = load(tmp_path / "machine")
    stand_in = str(host.one("ipv4_address", "eth0"))
    tables = host.read_all(["/proc/net/route", "/proc/net/tcp", "/proc/net/if_inet6"])
    route, tcp, inet6 = (str(value_of(found)).splitlines() for found in tables.values())
    assert route[1].split("\t")[1:3] == ["00000000", _little(stand_in.rpartition(".")[0] + ".1")]
    assert route[2].split("\t")[1] == _little(stand_in.rpartition(".")[0] + ".0")
    assert tcp[1] == FILES["/proc/net/tcp"].splitlines()[1]
    assert tcp[2].split()[1] == f"{_little(stand_in)}:D431"
    assert inet6[0].startswith("20010db8000000000000000000000001 02 40")


def _little(address: str) -> str:
    return socket.inet_aton(address)[::-1].hex().upper()


def test_what_was_never_asked_is_not_recorded(tmp_path: Path) -> None:
    record(tmp_path / "machine", host=_machine())
    host = load(tmp_path / "machine")
    assert host.found([["read", "/never/asked"]]) == [Unavailable(Why.NOT_RECORDED, "not in the recording")]


def test_how_long_a_request_may_take_is_no_part_of_its_name() -> None:
    run = ["run", ["git"], None, None, 5.0, 10, ""]
    assert call_id(run) == call_id([*run[:4], 0.25, *run[5:]])
    assert call_id(run) != call_id([*run[:5], 11, ""])
    assert call_id(["within", 1.0, [run]]) == call_id(["within", 2.5, [[*run[:4], 0.25, *run[5:]]]])
    assert call_id(["within", 1.0, [run]]) != call_id(["within", 1.0, []])
    assert call_id(["usage", "/x", 10, 0.5, ""]) == call_id(["usage", "/x", 10, 0.7, ""])
    assert call_id(["read", "/x", 5]) != call_id(["read", "/x", 6])


def test_only_a_machine_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("the only copy")
    with pytest.raises(FileExistsError):
        record(tmp_path, host=_machine())
    assert os.listdir(tmp_path) == ["thesis.txt"]
    folder = tmp_path / "machine"
    folder.mkdir()
    assert isinstance(record(folder, host=_machine()), Recorded)
    assert isinstance(record(folder, host=_machine()), Recorded)
    assert sorted(os.listdir(folder)) == [CALLS, MACHINE, GOLDEN]
    assert (folder / CALLS).stat().st_mode & 0o077 == 0


META = {
    "format": "envsnap.machine", "version": 1, "envsnap": "0.1", "recorded_at": "2026-01-01T00:00:00+00:00",
    "default": "absent", "scope": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("meta", "calls", "says"),
    [
        (None, "", "Cannot read"),
        ("{", "", "is not JSON"),
        ("[" * 100_000, "", "is not JSON"),
        ("[]", "", "no recorded machine"),
        ({**META, "format": "x"}, "", "no recorded machine"),
        ({**META, "version": 2}, "", "update envsnap"),
        ({**META, "default": "perhaps"}, "", "malformed"),
        ({**META, "recorded_at": "today"}, "", "malformed"),
        ({**META, "scope": {"pids": "7"}}, "", "malformed"),
        ({**META, "scope": {"colour": "red"}}, "", "malformed"),
        ({**META, "envsnap": 3}, "", "malformed"),
        (META, None, "Cannot read"),
        (META, '[["uname"], ["ok", 1]]\nnonsense', "line 2"),
        (META, "[1, 2]", "line 1"),
        (META, '["uname"]', "line 1"),
        (META, '[["uname"], []]', "line 1"),
        (META, "\xff", "no text"),
    ],
)
def test_a_broken_folder_is_one_sentence(tmp_path: Path, meta: object, calls: str | None, says: str) -> None:
    if meta is not None:
        (tmp_path / MACHINE).write_text(meta if isinstance(meta, str) else json.dumps(meta))
    if calls is not None:
        (tmp_path / CALLS).write_text(calls, encoding="latin-1")
    with pytest.raises(SnapshotError, match=says) as caught:
        load(tmp_path)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_the_verb(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["record", "machine"]) == 0
    out, err = capfd.readouterr()
    assert out == "machine\n"
    assert "calls" in err
    assert dumps(replay(tmp_path / "machine")) == (tmp_path / "machine" / GOLDEN).read_text()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert cli.main(["record", "full"]) == 2
    assert "no recorded machine" in capfd.readouterr().err
