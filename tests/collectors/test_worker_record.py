from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.collectors import worker_record
from envsnap.host import LiveHost
from envsnap.reading import Error, Missing, Unavailable, Value, Why
from envsnap.scope import Scope
from envsnap.snapshot import Section
from envsnap.workers import records
from envsnap.workers.census import Census
from envsnap.workers.live_env import Environment
from envsnap.workers.record_file import Record
from envsnap.workers.records import _Expected, _expected, _file, _place, _root
from envsnap.workers.tree import Process
from tests.fakes import FakeHost
from tests.integrations.recording import QUICK, environment, wait_for

WORKERS = """
import ctypes, multiprocessing, os, sys, time

def work(rank):
    os.environ["RANK_OF_MINE"] = str(rank)
    ctypes.CDLL(None).setenv(b"NCCL_PROTO", b"Simple", 1)
    print("ready", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    ranks = [multiprocessing.get_context("spawn").Process(target=work, args=(rank,)) for rank in range(2)]
    [rank.start() for rank in ranks]
    [rank.join() for rank in ranks]
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "records"


def section(scope: Scope) -> Section:
    return capture(scope, LiveHost(), only=["worker_record"]).sections["worker_record"]


def states(found: Section) -> dict[str, Any]:
    return {path: value for path, value in found.values.items() if path.endswith(".state")}


@pytest.fixture
def server(tmp_path: Path, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A launcher and two spawned workers that record themselves, all settled."""
    (tmp_path / "serve.py").write_text(WORKERS)
    env = environment(ENVSNAP_RECORD=str(directory), **QUICK)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "serve.py")], env=env, start_new_session=True, stdout=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: directory.exists() and len(list(directory.glob("*.json"))) == 3)
        wait_for(lambda: sum("NCCL_PROTO" in f.read_text() for f in directory.glob("*.json")) == 2)
        yield process
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def test_every_workers_record_by_role(server: subprocess.Popen[bytes], directory: Path) -> None:
    found = section(Scope(pids=(server.pid,)))
    assert (found.status, found.errors) == ("ok", {})
    assert states(found) == dict.fromkeys(
        ("record[main].state", "record[spawn0].state", "record[spawn1].state"), "arrived"
    )
    assert found.values["record[spawn1].os_environ_differs[NCCL_PROTO]"] == {"libc": "Simple"}
    assert "record[main].os_environ_differs[NCCL_PROTO]" not in found.values
    assert found.values["record[spawn0].python.start_method"] == "spawn"
    assert found.values["record[spawn0].ready_by"] == "settle"
    assert found.values["record[spawn0].age_seconds"] < 60
    # The environment was read from outside as well: it is told there.
    assert not [path for path in found.values if ".env[" in path]


def test_a_relative_directory_is_the_processs(tmp_path: Path) -> None:
    env = environment(ENVSNAP_RECORD="mine/records", **QUICK)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=env, cwd=tmp_path)
    try:
        wait_for(lambda: list(tmp_path.glob("mine/records/*.json")))
        assert states(section(Scope(pids=(process.pid,)))) == {"record[main].state": "arrived"}
    finally:
        process.kill()
        process.wait()


def test_after_the_end_the_newest_tree_is_told_with_the_same_roles(
    server: subprocess.Popen[bytes], directory: Path
) -> None:
    os.killpg(server.pid, 9)
    server.wait()
    other = directory / "python-7-1.json"
    other.write_text(json.dumps(sample(pid=7, ppid=1)))
    os.utime(other, (1, 1))
    found = section(Scope(records=str(directory)))
    assert set(states(found)) == {"record[main].state", "record[spawn0].state", "record[spawn1].state"}
    # Nobody else can tell its environment any more.
    ranks = {found.values[f"record[spawn{number}].env[RANK_OF_MINE]"] for number in range(2)}
    assert ranks == {"0", "1"}


# -- records that have not come, or cannot be used ----------------------------------------------------------------


@pytest.fixture
def silent(directory: Path) -> Iterator[tuple[int, Path]]:
    """A process that should record itself and does not, and the file in which it would."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(600)"], env=environment(ENVSNAP_RECORD=str(directory))
    )
    try:
        wait_for(lambda: Path(f"/proc/{process.pid}/maps").read_text().count("python"))
        start = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        yield process.pid, directory / f"scheduler_TP0-{process.pid}-{start}.json"
    finally:
        process.kill()
        process.wait()


def sample(**process: Any) -> dict[str, Any]:
    """A record as small as one may be."""
    return {
        "format": "envsnap.worker_record", "version": 1, "moment": "ready", "ready_by": "sglang",
        "environment": {"values": {}, "libc": "", "differs": {}},
        "process": {"title": "", "argv": ["python"], "start_ticks": 1, **process},
    }  # fmt: skip


def of(silent: tuple[int, Path], content: str | None = None) -> tuple[str, str]:
    """State and reason."""
    pid, file = silent
    if content is not None:
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    found = section(Scope(pids=(pid,)))
    assert found.errors == {}
    missing = found.unavailable.get("record[main].moment")
    return found.values["record[main].state"], missing.detail if missing else ""


def test_a_record_that_has_not_come_is_reported(silent: tuple[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert of(silent)[0] == "pending"
    monkeypatch.setattr(records, "YOUNG_SECONDS", 0.0)
    state, reason = of(silent)
    assert state == "missing"
    assert "does not exist" in reason
    silent[1].parent.mkdir()
    (silent[1].parent / "scheduler_TP0-1-1.json").write_text(json.dumps(sample()))  # another process's
    state, reason = of(silent)
    assert state == "missing"
    assert "first on PYTHONPATH" in reason


def test_one_that_has_come(silent: tuple[int, Path]) -> None:
    assert of(silent, json.dumps(sample())) == ("arrived", "")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no envsnap.worker_record"),
        ('{"format": "envsnap.snapshot"}', "no envsnap.worker_record"),
        (json.dumps({**sample(), "version": 2}), "has version 2, and this envsnap reads 1"),
        (json.dumps({**sample(), "environment": 3}), "could not make it: None"),
        (
            json.dumps({**sample(), "environment": None, "failed": {"record": "OSError: x"}}),
            "could not make it: OSError: x",
        ),
        ("\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), "no JSON"),
    ],
)
def test_garbage_is_failed_and_says_why(silent: tuple[int, Path], content: str, reason: str) -> None:
    state, found = of(silent, content)
    assert state == "failed"
    assert reason in found


def test_a_link_a_pipe_a_directory_and_one_without_end(silent: tuple[int, Path], tmp_path: Path) -> None:
    file = silent[1]
    file.parent.mkdir()
    (tmp_path / "elsewhere.json").write_text(json.dumps(sample()))
    file.symlink_to(tmp_path / "elsewhere.json")
    assert of(silent)[0] == "failed"
    file.unlink()
    os.mkfifo(file)
    assert of(silent) == ("failed", f"not_supported: not a regular file: {file}")
    file.unlink()
    file.mkdir()
    assert of(silent)[0] == "failed"
    file.rmdir()
    with file.open("w") as stream:
        stream.truncate(9 << 20)
    assert of(silent)[1].startswith("too_large")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's file")
def test_another_users_file_is_not_believed(silent: tuple[int, Path]) -> None:
    silent[1].parent.mkdir()
    silent[1].write_text(json.dumps(sample()))
    os.chown(silent[1], 12345, 12345)
    assert of(silent) == ("failed", "its file belongs to another user than the process")


def test_one_that_is_renewed_no_longer_is_stale_and_still_told(silent: tuple[int, Path]) -> None:
    assert of(silent, json.dumps(sample()))[0] == "arrived"
    hour_ago = time.time() - 3600
    os.utime(silent[1], (hour_ago, hour_ago))
    found = section(Scope(pids=(silent[0],)))
    assert found.values["record[main].state"] == "stale"
    assert found.values["record[main].age_seconds"] > 3500
    assert found.values["record[main].ready_by"] == "sglang"


@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="a Python started this one then")
def test_nobody_was_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment())
    try:
        found = section(Scope(pids=(process.pid,)))
        assert (found.status, found.values) == ("unavailable", {})
        assert "ENVSNAP_RECORD" in found.reason
        # Named with --records, it is expected all the same.
        assert states(section(Scope(pids=(process.pid,), records=str(tmp_path)))) == {"record[main].state": "pending"}
    finally:
        process.kill()
        process.wait()


def test_the_empty_machine_has_no_error() -> None:
    for scope in (Scope(), Scope(pids=(1,)), Scope(records="/gone")):
        with pytest.raises(Missing):
            list(worker_record.collect(FakeHost(), scope))


def test_where_the_environment_is_not_known_the_parents_counts_and_then_ours() -> None:
    def directories(live: dict[int, Any], own: str = "") -> dict[str, str]:
        controller, tracker = replace(process(2), parent=1), replace(process(3), parent=1)
        processes = (process(1), controller, tracker, replace(process(4), parent=2))
        roles = {1: "main", 2: "controller", 3: "resource_tracker", 4: "scheduler_TP0"}
        unknown = Unavailable(Why.DENIED)
        everywhere = {pid: live.get(pid, unknown) for pid in roles}
        taken = Census(
            processes, roles, everywhere, dict.fromkeys(roles, unknown), dict.fromkeys(roles, unknown), {}, 0
        )
        return {one.role: one.directory for one in _expected(taken, Scope(), own)}

    everyone = ("main", "controller", "scheduler_TP0")
    asked = Environment({"ENVSNAP_RECORD": "/r"})
    assert directories({1: asked}) == dict.fromkeys(everyone, "/r")
    assert directories({1: asked, 2: Environment({})}) == {"main": "/r"}
    assert directories({1: asked, 4: Environment({})}) == {"main": "/r", "controller": "/r"}
    assert directories({1: Environment({"ENVSNAP_RECORD": "/r", "ENVSNAP_DISABLE": "1"})}) == {}
    assert directories({}) == {}
    assert directories({}, "/own") == dict.fromkeys(everyone, "/own")
    assert directories({1: Environment({})}, "/own") == {}


# -- containers: by the shape of /proc alone ----------------------------------------------------------------------


def process(pid: int = 4000, start_ticks: int = 77) -> Process:
    return Process(pid=pid, parent=1, name="python", state="S", command="python\0", start_ticks=start_ticks)


def test_in_a_container_the_directory_lies_below_its_root_and_its_number_is_its_own() -> None:
    one = _Expected(process(), "main", "/records/", True)
    own, theirs, cwd = Value("mnt:[1]"), Value("mnt:[2]"), Value("/app")
    assert _root(one, own, theirs) == "/proc/4000/root"
    assert _root(one, own, own) == _root(one, own, Unavailable(Why.DENIED)) == ""
    assert _place(one, cwd) == "/records"
    assert _place(_Expected(process(), "main", "here", True), cwd) == "/app/here"
    listing = Value(["redaction.key", "main-4000-1.json", "a-1-77.json", "scheduler_TP0-12-77.json"])
    assert _file(process(), {"NSpid": ["4000", "12"]}, listing) == "scheduler_TP0-12-77.json"
    assert _file(process(), {}, listing) == ""
    assert _file(process(start_ticks=1), {}, listing) == "main-4000-1.json"


# -- what is told -------------------------------------------------------------------------------------------------


def told(*found: Record) -> dict[str, Any]:
    """Readings of made-up records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "read", lambda host, scope: list(found))
        readings = dict(worker_record.collect(FakeHost(), Scope(records="/somewhere")))
    assert not [reading for reading in readings.values() if isinstance(reading, Error)]
    return {path: reading.value if isinstance(reading, Value) else reading for path, reading in readings.items()}


def record(role: str, outside: bool = True, **parts: Any) -> Record:
    content = {**sample(), **parts}
    return Record(role, "arrived", content=content, seen_from_outside=outside)


def test_further_workers_repeat_only_what_differs() -> None:
    first = {"server_args": {"dtype": "auto", "tp_size": 2, "api": None, "g": {"d": [1]}}, "ranks": {"tp_rank": 0}}
    second = {"server_args": {"dtype": "half", "tp_size": 2, "g": {"d": [1]}}, "ranks": {"tp_rank": 1},
              "graph_batch_sizes": {"decode": [1, 2]}, "resolved_by": {"dtype": "model_runner"}}  # fmt: skip
    found = told(record("scheduler_TP0", engine=first), record("scheduler_TP1", engine=second))
    assert {path: value for path, value in found.items() if ".argument[" in path} == {
        "record[scheduler_TP0].argument[dtype]": "auto",
        "record[scheduler_TP0].argument[tp_size]": 2,
        "record[scheduler_TP0].argument[g.d]": [1],
        "record[scheduler_TP1].argument[dtype]": "half",
    }
    assert found["record[scheduler_TP1].argument_source[dtype]"] == "model_runner"
    assert found["record[scheduler_TP1].rank[tp_rank]"] == 1
    assert found["record[scheduler_TP1].graph_batch_sizes[decode]"] == [1, 2]


def test_what_was_typed_is_told_where_the_engine_made_another_value_of_it() -> None:
    engine = {
        "server_args": {"dtype": "half", "page_size": 1},
        "typed_args": {"dtype": "auto", "page_size": 1, "x": None},
    }
    found = told(record("main", engine=engine))
    assert {path: v for path, v in found.items() if "typed" in path} == {"record[main].typed_argument[dtype]": "auto"}


def test_the_environment_is_told_where_nobody_else_can_read_it() -> None:
    part = {"values": {"A": "1"}, "libc": "", "differs": {"B": {"libc": "2"}}}
    assert "record[main].env[A]" not in told(record("main", environment=part))
    found = told(record("main", outside=False, environment=part))
    assert found["record[main].env[A]"] == "1"
    assert found["record[main].os_environ_differs[B]"] == {"libc": "2"}


def test_withheld_and_unreadable_are_unavailable_and_not_values() -> None:
    found = told(record("main", outside=False, environment={"values": {"A": "<withheld>"}, "differs": {}}))
    assert found["record[main].env"].why is Why.OFF
    assert "record[main].env[A]" not in found
    found = told(record("main", environment={"values": {}, "libc": "OSError: no", "differs": {}}))
    assert "OSError: no" in found["record[main].os_environ_differs"].detail


def test_a_part_that_failed_is_unavailable_and_not_unset() -> None:
    found = told(record("main", failed={"torch": "RuntimeError: x"}))
    assert found["record[main].failed[torch]"] == "RuntimeError: x"
    assert isinstance(found["record[main].torch"], Unavailable)


def test_packages_of_interest_and_of_the_recorded_trees() -> None:
    code = {
        "count": 3,
        "packages": {
            "torch": {"origin": "/v/torch", "elsewhere": {"torch._C.x": "/v/torch/_C.so"}},
            "sglang": {"origin": "/w/sglang", "hash": "ab", "elsewhere": {"sglang.srt.a": "/patch/a.py"}},
            "mine": {"origin": "/w/mine.py", "hash": "cd"},
            "sympy": {"origin": "/v/sympy"},
            "broken": 3,
        },
        "files": {"/w/sglang/a.py": "1", "/w/mine.py": "2"},
        "newer": ["/w/mine.py"],
    }
    found = told(record("main", code=code))
    assert {
        path.partition(".")[2]: value for path, value in found.items() if "package" in path or "module" in path
    } == {
        "module_count": 3,
        "package_origin[torch]": "/v/torch",
        "package_origin[sglang]": "/w/sglang",
        "package_origin[mine]": "/w/mine.py",
        "package_hash[sglang]": "ab",
        "package_hash[mine]": "cd",
        "module_elsewhere[sglang.srt.a]": "/patch/a.py",
    }
    assert found["record[main].source_newer"] == ["/w/mine.py"]
    assert not [path for path in told(record("main", code=code, ready_by="settle")) if "hash" in path]


def test_what_ran_in_any_worker_is_put_together_and_each_workers_windows_are_kept() -> None:
    def reach(*ranges: list[int]) -> dict[str, Any]:
        window = {"from": 1.0, "to": 2.0, "complete": True}
        return {"reason": "", "windows": {"serving": window}, "files": {"/w/a.py": {"serving": list(ranges)}}}

    renewed = replace(record("scheduler_TP1", reach=reach([4, 6], [8, 8])), renewed_at=9.0)
    found = told(
        record("scheduler_TP0", reach=reach([1, 3], [10, 10]), code={"files": {"/w/a.py": "ab", "/w/b.py": "cd"}}),
        renewed,
        record("detokenizer", reach={"reason": "needs Python 3.12 or later", "windows": {}, "files": {}}),
        Record("late", "missing", "it does not exist"),
    )["record.code_reach"]
    assert found["files"] == {
        "/w/a.py": {"blob": "ab", "serving": [[1, 6], [8, 8], [10, 10]]},
        "/w/b.py": {"blob": "cd"},
    }
    windows = [found["workers"][role]["windows"]["serving"] for role in ("scheduler_TP0", "scheduler_TP1")]
    assert windows == [{"from": 1.0, "to": 2.0, "complete": True}, {"from": 1.0, "to": 9.0, "complete": True}]
    assert found["workers"]["detokenizer"]["reason"] == "needs Python 3.12 or later"
    assert found["workers"]["late"] == {"state": "missing", "reason": "it does not exist", "windows": {}}


def test_where_time_went_is_kept_by_worker() -> None:
    files = {"/w/a.py": {"7": [80, 60], "9": [20, 0], "x": [1, 1], "10": 3, "11": [True, 1], "12": [-1, 0]}}
    found = told(record("scheduler", stacks={"looks": 100, "files": files}), record("main"))
    assert found["record.code_time"] == {
        "scheduler": {"looks": 100, "files": {"/w/a.py": {"7": [80, 60], "9": [20, 0]}}},
        "main": {"looks": 0, "files": {}},
    }
    assert "record.code_time" not in told(record("scheduler", stacks={"looks": 0, "files": {}}))


def test_garbage_in_every_part_costs_at_most_its_own_readings(silent: tuple[int, Path]) -> None:
    parts = ("environment", "engine", "torch", "python", "code", "reach", "stacks", "failed", "moment", "ready_by",
             "cpu_seconds")  # fmt: skip
    inner = ("values", "differs", "libc", "packages", "files", "elsewhere", "server_args", "typed_args", "ranks",
             "graph_batch_sizes", "resolved_by", "flags", "windows", "looks", "newer", "version",
             "gc_thresholds")  # fmt: skip
    garbage: Any
    for garbage in (5, "x", [], [[]], {"": 1}, {"a": None}, {"a": {"b": [1, "x", None]}}, True, None):
        for shape in (garbage, dict.fromkeys(inner, garbage)):
            content = {**sample(), **dict.fromkeys(parts, shape)}
            if not isinstance(shape, dict):
                content["environment"] = {}
            silent[1].parent.mkdir(exist_ok=True)
            silent[1].write_text(json.dumps(content))
            found = section(Scope(pids=(silent[0],)))
            assert found.status == "ok", found.reason
            # A wrong type may cost a reading, and is then said.
            assert all("expected" in message or "not a path" in message for message in found.errors.values())
