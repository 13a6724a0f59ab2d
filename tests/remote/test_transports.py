"""Captures over real transports, with nothing installed at the other end and nothing left behind there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envsnap.capture import capture
from envsnap.diff import diff
from envsnap.redact import Redactor
from envsnap.remote import RemoteHost, connect
from envsnap.scope import Scope
from envsnap.snapshot import Snapshot


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in this repository, which takes a while to read, and may change meanwhile."""
    monkeypatch.chdir(tmp_path)


STAYS = {"cpu", "kernel", "os", "env", "python", "package", "packages", "platform", "numa", "container", "inherited"}
"""What two captures a second apart agree in, whatever else goes on."""

SAYS_VERSION = "import sys; sys.stdout.write('%s %d %d' % ((sys.executable,) + sys.version_info[:2]))"

FAR_PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")


def taken(host: RemoteHost, redactor: Redactor | None = None) -> Snapshot:
    snapshot = capture(Scope(), host, deadline=60, redactor=redactor)
    assert not host.failure
    return snapshot


def marked(mark: str) -> list[str]:
    """Command lines of the processes that have a mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


def gone(mark: str) -> bool:
    """Whether all processes with a mark end, which the last of them may take a moment for."""
    for _ in range(100):
        if not marked(mark):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("prefix", [[], ["bash", "-c"], ["sh", "-c"], ["env"]], ids=lambda p: " ".join(p) or "none")
def test_a_local_way_reads_what_is_read_here(prefix: list[str], tmp_path: Path) -> None:
    here = capture(Scope(cache=False), deadline=60, redactor=Redactor(tmp_path))
    with connect(prefix, python=sys.executable) as host:
        there = taken(host, Redactor(tmp_path))
    assert there.via["python"] == "{}.{}.{}".format(*sys.version_info[:3])
    assert [(n, s.status) for n, s in here.sections.items()] == [(n, s.status) for n, s in there.sections.items()]
    changes = [change for change in diff(here, there).changes if change.key.root in STAYS]
    assert {change.path for change in changes} <= {"python.path"}  # pytest has added to its own


def test_nothing_stays_behind(tmp_path: Path) -> None:
    mark = f"ENVSNAP_TEST_MARK={tmp_path}"
    home = tmp_path / "home"
    home.mkdir()
    places = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "PYTHONPYCACHEPREFIX")
    given = [mark, *(f"{name}={home}" for name in places)]
    with connect(["env", "-u", "PYTHONDONTWRITEBYTECODE", *given]) as host:
        snapshot = taken(host)
        assert snapshot.values["python.flag[dont_write_bytecode]"] == 0, "1 is how we started it"
        assert marked(mark)
    assert gone(mark), marked(mark)
    assert list(home.iterdir()) == []


def test_the_far_side_ends_with_whoever_asked_it(tmp_path: Path) -> None:
    mark = f"ENVSNAP_TEST_MARK={tmp_path}"
    code = (
        "import os, sys\nfrom envsnap.remote import connect\n"
        f"host = connect(['env', {mark!r}])\nhost.one('uname')\nprint('up', flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "up\n"
    assert gone(mark), marked(mark)


def test_the_far_side_ends_when_its_time_is_over(tmp_path: Path) -> None:
    mark = f"ENVSNAP_TEST_MARK={tmp_path}"
    with connect(["env", mark], lifetime=1) as host:
        assert gone(mark), marked(mark)
        host.deadline = time.monotonic() + 5
        assert host.ask([["uname"]])[0][:2] == ["missing", "gone"]
        assert "ended too early" in host.failure


def test_a_program_that_still_runs_there_ends_too(tmp_path: Path) -> None:
    mark = f"ENVSNAP_TEST_MARK={tmp_path}"
    with connect(["env", mark]) as host:
        host.deadline = time.monotonic() + 0.5
        assert host.ask([["run", ["sleep", "300"], None, None, 200.0]])[0][:2] == ["missing", "timeout"]
        for _ in range(100):
            if any("sleep" in line for line in marked(mark)):
                break
            time.sleep(0.1)
        else:
            pytest.fail("the program was not started")
    assert gone(mark), marked(mark)


def test_over_ssh(ssh: list[str]) -> None:
    with connect(ssh) as host:
        snapshot = taken(host)
    assert snapshot.sections["kernel"].status == snapshot.sections["git"].status == "ok"
    assert "SSH_CONNECTION" in str(sorted(snapshot.sections["environ"].values))
    assert snapshot.via["sent_bytes"] < 500_000


def test_over_ssh_into_a_container_with_nothing_installed_in_it(ssh: list[str], container: list[str]) -> None:
    prefix = [*ssh, *container]
    for module in ("envsnap", "pynvml"):
        missing = subprocess.run([*prefix, "python3", "-m", module, "--version"], capture_output=True, text=True)
        assert f"No module named {module}" in missing.stderr
    with connect(prefix) as host:
        snapshot = taken(host)
    assert {"pid", "user"} <= set(snapshot.values["container.namespaces"])
    for name in ("cgroup", "cpu", "environ", "git", "kernel", "libraries", "load", "memory", "network", "numa", "os",
                 "packages", "platform", "python", "storage"):  # fmt: skip
        assert snapshot.sections[name].status == "ok", snapshot.sections[name]
    assert not [s.errors for s in snapshot.sections.values() if s.errors]
    assert len(snapshot.values) > 300
    assert snapshot.via["pid_namespace"] != os.readlink("/proc/self/ns/pid")


def test_a_container_shows_its_own_processes(container: list[str]) -> None:
    with connect(container) as host:
        pids = [name for name in host.listdir("/proc") if name.isdigit()]
        assert host.read("/proc/1/comm").strip() == "sleep"
    assert len(pids) < 10


@pytest.mark.parametrize("version", FAR_PYTHONS)
def test_every_python_that_may_stand_at_the_other_end(version: str) -> None:
    python = find(version)
    with connect([], python=python) as host:
        snapshot = taken(host)
    assert snapshot.via["python"].startswith(f"{version}.")
    assert snapshot.values["python.version"].startswith(f"{version}.")
    assert not [s.errors for s in snapshot.sections.values() if s.errors]
    assert len(snapshot.values) > 300


def find(version: str) -> str:
    """A Python of that version; skipped where there is none."""
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    beside = [shutil.which(f"python{version}"), *map(str, sorted(installed.glob(f"{version}.*/bin/python")))]
    for candidate in filter(None, beside):
        told = subprocess.run([candidate, "-c", SAYS_VERSION], capture_output=True, text=True).stdout.split()
        if told[1:] == version.split("."):
            return told[0]
    pytest.skip(f"no Python {version} here")


def test_a_python_without_any_package(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    with connect(["env", f"PATH={tmp_path}/bare/bin:/usr/bin:/bin"]) as host:
        assert host.self()["prefix"] == f"{tmp_path}/bare"
        snapshot = taken(host)
    assert snapshot.sections["packages"].status == "ok"
    assert not [path for path in snapshot.values if path.startswith("package[")]
    assert not [s.errors for s in snapshot.sections.values() if s.errors]
    assert len(snapshot.values) > 200
