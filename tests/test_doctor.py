"""The doctor: what a capture could not read, said as what is lost and what would change it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata, util
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from envsnap import cache, collectors
from envsnap.capture import capture
from envsnap.doctor import ENGINES, HINDERED, Item, State, diagnose, own, sections, workers
from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from envsnap.report import doctor as report
from envsnap.schema import violations
from envsnap.scope import Scope
from envsnap.snapshot import Section, Snapshot
from tests.fakes import FakeHost
from tests.processes import Spawn


def section(status: str = "ok", reason: str = "", **held: Any) -> Section:
    return Section(status, status == "ok", 0.01, "made up", reason, **held)


def taken(**held: Section) -> Snapshot:
    return Snapshot(captured_at="2026-01-01T00:00:00.000+00:00", sections=held, envsnap="0")


def judged(code: str, **held: Section) -> Item | None:
    return next((item for item in sections.items(taken(**held)) if item.code == code), None)


ABSENT = "absent: no NVIDIA driver library"
DENIED = Unavailable(Why.DENIED, "Permission denied: /sys/x")


@pytest.mark.parametrize(
    ("code", "held", "state", "says"),
    [
        ("nvml", {"gpu": section("unavailable", ABSENT)}, State.NOTHING, "no NVIDIA driver library"),
        (
            "nvml",
            {
                "gpu": section("unavailable", ABSENT),
                "nvidia_driver": section(values={"nvidia_driver.version": "1"}),
            },
            State.FAILS,
            "no NVIDIA driver library",
        ),
        ("nvml", {"gpu": section(values={"gpu[0].name": "x"})}, State.WORKS, "1 reading in"),
        ("git", {"git": section()}, State.NOTHING, "there is none"),
        ("nvml", {"gpu": section("timeout", "did not finish within 5 s")}, State.FAILS, "did not finish"),
        ("kernel_log", {"kernel_log": section("unavailable", "denied: no /dev/kmsg")}, State.FAILS, "no /dev/kmsg"),
        (
            "pci",
            {"pci": section(values={"pci[0].vendor": "x"}, unavailable={"pci[0].acs": DENIED, "pci[0].mps": DENIED})},
            State.PARTLY,
            "Permission denied: /sys/x (2 in all)",
        ),
        ("cgroup", {"cgroup": section("unavailable", "absent: nothing mounted")}, State.FAILS, "nothing mounted"),
        (
            "rdma",
            {"rdma": section(values={"rdma.a": 1}, unavailable={"rdma": Unavailable(Why.ABSENT, "none")})},
            State.NOTHING,
            "none",
        ),
        ("memory", {"memory": section(errors={"memory.swap": "ValueError: odd"})}, State.FAILS, "ValueError: odd"),
        ("storage", {"storage": section(unavailable={"storage[hub].size_bytes": DENIED})}, State.FAILS, "/sys/x"),
        (
            "container",
            {"container": section(values={"container.kind": "docker", "container.namespaces": ["net", "pid"]})},
            State.PARTLY,
            "docker",
        ),
        (
            "container",
            {"container": section(values={"container.kind": "none", "container.namespaces": []})},
            State.NOTHING,
            "machine itself",
        ),
    ],
)
def test_what_a_section_says(code: str, held: dict[str, Section], state: State, says: str) -> None:
    item = judged(code, **held)
    assert item is not None
    assert item.state is state
    assert says in item.found
    assert bool(item.lost and item.change) is (state in HINDERED)


def test_what_is_off_or_merely_absent_is_no_item_of_its_own() -> None:
    gone = {"storage[hub].size_bytes": Unavailable(Why.ABSENT, "no such file")}
    assert judged("storage", storage=section(values={"storage.x": 1}, unavailable=gone)) is None
    assert judged("server", server=section("unavailable", "off: name a server")) is None


def test_law_subjects_name_sections_that_exist() -> None:
    named = {name for subject in sections.SUBJECTS for name in subject.sections}
    assert named <= set(collectors.names())


@pytest.mark.parametrize(
    ("refused", "state"),
    [([], State.WORKS), (["worker[a].env"], State.PARTLY), (["worker[a].env", "worker[b].env"], State.FAILS)],
)
def test_workers_that_may_not_be_looked_into(refused: list[str], state: State) -> None:
    why = Unavailable(Why.DENIED, f"Yama's ptrace_scope is 1: only an ancestor may read its memory. {'x' * 99}")
    held = section(values={"worker[a].title": "a", "worker[b].title": "b"}, unavailable=dict.fromkeys(refused, why))
    item = workers.memory(taken(worker=held))
    assert item is not None
    assert item.state is state
    assert ("only an ancestor may read its memory" in item.found) is bool(refused)
    assert "xxx" not in item.found


def test_records_that_have_come_and_that_have_not() -> None:
    def records(*states: str) -> list[State]:
        held = section(values={f"record[{i}].state": state for i, state in enumerate(states)})
        worker = section(values={"worker[main].title": "x"})
        return [i.state for i in workers.records(taken(worker=worker, worker_record=held))]

    assert records("arrived", "arrived") == [State.WORKS]
    assert records("arrived", "missing") == [State.PARTLY]
    assert records("missing") == [State.FAILS]
    assert list(workers.records(taken(worker=section(), worker_record=section()))) == []


def test_a_process_of_ours_is_tried_where_there_are_no_workers(spawn: Spawn) -> None:
    spawn([sys.executable, "-c", "import time; time.sleep(600)"])
    item = workers.memory_of_others(LiveHost())
    assert item.state in State
    assert item.code == "process_memory"


def test_every_hindrance_says_what_is_lost_and_what_would_change_it(tmp_path: Path) -> None:
    class Hostile(FakeHost):
        def ask(self, requests: Any) -> list[Any]:
            refused = ["missing", "denied", "no"]
            known = ("self", "environ")
            return [FakeHost.ask(self, [r])[0] if r[0] in known else refused for r in requests]

    for host in (FakeHost(), Hostile(), LiveHost()):
        items = diagnose(capture(Scope(match=(ENGINES,), cache=False), host), host)
        assert len({item.code for item in items}) == len(items)
        for item in items:
            assert item.found, item.code
            assert bool(item.lost and item.change) is (item.state in HINDERED), item.code


# -- envsnap itself ----------------------------------------------------------------------------------------------------


def of_itself(code: str, **held: Section) -> Item:
    return next(item for item in own.items(taken(**held)) if item.code == code)


def test_a_store_and_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert (of_itself("store").state, of_itself("cache").state) == (State.WORKS, State.WORKS)
    assert cache.folder() == tmp_path / "cache" / "envsnap"
    (tmp_path / ".envsnap").touch()
    (tmp_path / "cache").touch()
    for item in (of_itself("store"), of_itself("cache")):
        assert item.state is State.FAILS
        assert "is no directory" in item.found


def test_the_unrelated_distribution_and_the_old_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    python = section(values={"python.envsnap_conflict": True, "python.executable": "/venv/bin/python"})
    item = of_itself("distributions", python=python)
    assert (item.state, "/venv/bin/python" in item.found) == (State.FAILS, True)
    there = {"envsnap": "9.9", "pynvml": "11.5", "nvidia-ml-py": "13"}
    monkeypatch.setattr(metadata, "version", lambda name: there.get(name, "1"))
    assert sys.executable in of_itself("distributions").found
    monkeypatch.setattr(util, "find_spec", lambda name: ModuleSpec(name, None, origin="/x/pynvml/__init__.py"))
    item = of_itself("pynvml")
    assert (item.state, "pynvml 11.5 hides nvidia-ml-py 13" in item.found) == (State.PARTLY, True)


def test_the_plug_in_is_looked_for_in_the_engine_s_python() -> None:
    chosen = section(values={"python.chosen_by": "process", "python.executable": "/venv/bin/python"})
    assert of_itself("plug_in").state is State.NOTHING
    assert of_itself("plug_in", python=chosen).state is State.FAILS
    there = section(values={"package[envsnap-audit].version": "0.1.0"})
    assert of_itself("plug_in", python=chosen, packages=there).state is State.WORKS
    arrived = section(values={"record[main].state": "arrived"})
    assert of_itself("plug_in", python=chosen, worker_record=arrived).state is State.WORKS


# -- the verb ----------------------------------------------------------------------------------------------------------


def test_the_verb_keeps_nothing_and_its_exit_code_tells(tmp_path: Path) -> None:
    def doctor(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "envsnap", "doctor", *more]
        env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        (tmp_path / "here").mkdir(exist_ok=True)
        return subprocess.run(command, cwd=tmp_path / "here", env=env, capture_output=True, text=True, timeout=120)

    done = doctor("--format", "json")
    document = json.loads(done.stdout)
    assert violations(document) == []
    hindered = [i for i in document["items"] if i["state"] in ("partly", "fails")]
    assert done.returncode == (1 if hindered else 0)
    assert {"process_memory", "nvml", "kernel_log", "git", "store", "cache", "plug_in"} <= {
        i["code"] for i in document["items"]
    }
    shown = doctor().stdout
    assert "the kernel's log" in shown
    assert len(shown.splitlines()) < 60
    assert list((tmp_path / "here").iterdir()) == []


def test_what_is_shown_fits_its_width() -> None:
    items = [Item("a", "a thing", State.PARTLY, "f" * 300, "l" * 300, "c" * 300), Item("b", "b", State.WORKS, "yes")]
    lines = ["".join(text for text, _ in line) for line in report.text(items, 0.5, 100)]
    assert max(map(len, lines)) <= 100
    assert lines[-1] == "1 item cannot be wholly read; looked for 0.50 s"
