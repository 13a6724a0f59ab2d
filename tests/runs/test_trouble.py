"""Sessions in trouble: signals at every stage, servers that die, disks that are full, secrets on command lines."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from envsnap.runs import server_figures, serving, sources, supervise, watch
from envsnap.runs.session import Arm, Plan, SessionError
from tests.processes import Spawn
from tests.runs.sessions import SERVER, SPEED, ask, python, run, serve


@pytest.fixture
def signal_when(tmp_path: Path) -> Any:
    """Send signals to this process, one for each file that appears."""

    def when(*numbers: int) -> Path:
        def send() -> None:
            for count, number in enumerate(numbers):
                while not (tmp_path / f"go{count}").exists():
                    time.sleep(0.02)
                os.kill(os.getpid(), number)

        threading.Thread(target=send, daemon=True).start()
        return tmp_path / "go"

    return when


def gone(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


# -- signals ------------------------------------------------------------------------------------------------------


def test_a_signal_while_the_server_starts(tmp_path: Path, port: int, signal_when: Any) -> None:
    go = signal_when(signal.SIGTERM)
    code = f"open('{go}0', 'w').close(); import time; time.sleep(60)"
    outcome, _ = run(tmp_path, Plan(python("print('speed: 1')"), **serve(port, server=python(code), repeats=3)))
    (done,) = outcome.runs
    assert (done.status, done.reason, done.exit_code) == ("interrupted", "stopped by SIGTERM", None)
    assert outcome.exit_code == 143


def test_ctrl_c_ends_the_session_and_stops_the_server(tmp_path: Path, port: int, signal_when: Any) -> None:
    go = signal_when(signal.SIGINT)
    plan = Plan(ask(port, f"open('{go}0', 'w').close(); time.sleep(60)"), repeats=3, **serve(port))
    outcome, _ = run(tmp_path, plan)
    (done,) = outcome.runs
    assert (done.status, done.exit_code, outcome.exit_code) == ("interrupted", 130, 130)
    assert "after" in done.snapshots
    assert gone(port)


STUBBORN = (
    "import signal, time\n"
    "def note(number, frame):\n"
    "    global heard\n"
    "    heard += 1\n"
    "    open(f'{go}{heard}', 'w').close()\n"
    "heard = 0\n"
    "signal.signal(signal.SIGINT, note); signal.signal(signal.SIGTERM, note)\n"
    "open(f'{go}0', 'w').close()\n"
    "while True: time.sleep(0.05)"
)


def test_a_benchmark_that_outlives_ctrl_c_and_sigterm_is_killed(tmp_path: Path, signal_when: Any) -> None:
    go = signal_when(signal.SIGINT, signal.SIGINT, signal.SIGINT)
    outcome, _ = run(tmp_path, Plan(python(f"go = {str(go)!r}\n{STUBBORN}")))
    assert outcome.runs[0].status == "interrupted"
    assert outcome.exit_code == 137
    assert (tmp_path / "go2").exists()  # it heard SIGINT and SIGTERM before


def test_a_benchmark_that_ignores_sigterm_is_killed_in_time(
    tmp_path: Path, signal_when: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "STOP_SECONDS", 0.5)
    go = signal_when(signal.SIGTERM)
    outcome, _ = run(tmp_path, Plan(python(f"go = {str(go)!r}\n{STUBBORN}")))
    assert outcome.runs[0].exit_code == 137
    assert (tmp_path / "go1").exists()


def test_a_signal_that_asks_for_no_end_is_passed_on_alone(tmp_path: Path, signal_when: Any) -> None:
    go = signal_when(signal.SIGUSR1)
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *a: sys.exit(print('speed: 7')))\n"
        f"open('{go}0', 'w').close()\n"
        "time.sleep(60)"
    )
    outcome, _ = run(tmp_path, Plan(python(code), metrics=SPEED))
    assert (outcome.runs[0].status, outcome.runs[0].metrics[0].value) == ("ok", 7.0)


def test_a_signal_after_the_benchmark_ends_the_session_and_spoils_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    real = sources.read
    monkeypatch.setattr(sources, "read", late)
    outcome, _ = run(tmp_path, Plan(python("print('speed: 7')"), metrics=SPEED, repeats=3))
    assert [r.status for r in outcome.runs] == ["ok"]
    assert outcome.exit_code == 143


def test_a_benchmark_that_was_interrupted_ends_the_session(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(5)"
    outcome, _ = run(tmp_path, Plan(python(code), repeats=3))
    (done,) = outcome.runs
    assert (done.status, outcome.exit_code) == ("interrupted", 130)


# -- servers that die -----------------------------------------------------------------------------------------------

DIE = "\ntry: get('/die')\nexcept OSError: pass\n"


def test_a_server_that_dies_in_the_middle_is_the_reason(tmp_path: Path, port: int) -> None:
    outcome, _ = run(tmp_path, Plan(ask(port, DIE + "get('/')"), metrics=SPEED, **serve(port)))
    (done,) = outcome.runs
    assert done.status == "failed"
    assert done.reason.startswith("the server ended with exit code 9 while the benchmark ran; see ")
    assert outcome.exit_code == 1


def test_a_benchmark_that_waits_for_a_dead_server_is_stopped(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "WITHOUT_SERVER_SECONDS", 0.5)
    outcome, _ = run(tmp_path, Plan(ask(port, DIE + "time.sleep(60)"), metrics=SPEED, **serve(port)))
    (done,) = outcome.runs
    assert done.exit_code == 143
    assert "exit code 9 while the benchmark ran" in done.reason


def test_a_server_that_ends_with_the_benchmark_spoils_nothing(tmp_path: Path, port: int) -> None:
    outcome, _ = run(tmp_path, Plan(ask(port, DIE), metrics=SPEED, **serve(port)))
    (done,) = outcome.runs
    assert done.status == "ok"
    assert "the server ended with exit code 9 before it was stopped" in done.warnings


def test_a_server_that_hangs_is_the_reason(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "DYING_SECONDS", 0.2)
    monkeypatch.setattr(server_figures, "SECONDS", 0.5)
    stop = "\nos.kill(answer['pid'], 19)\nsys.exit(3)"
    outcome, _ = run(tmp_path, Plan(ask(port, stop), metrics=SPEED, **serve(port)))
    assert "stopped answering" in outcome.runs[0].reason
    assert gone(port)


def test_a_kept_server_that_died_is_started_anew_and_said(tmp_path: Path, port: int) -> None:
    plan = Plan(ask(port, DIE), metrics=SPEED, repeats=2, keep_server=True, **serve(port))
    outcome, _ = run(tmp_path, plan)
    first, second = outcome.runs
    assert (first.status, second.status) == ("ok", "ok")
    assert any("a new one was started" in w for w in second.warnings)


def test_a_kept_server_outlives_a_failed_benchmark(tmp_path: Path, port: int) -> None:
    mark = str(tmp_path / "mark")
    once = f"\nif not os.path.exists({mark!r}): open({mark!r}, 'w').close(); sys.exit(5)"
    plan = Plan(ask(port, once), metrics=SPEED, repeats=2, keep_server=True, **serve(port))
    outcome, _ = run(tmp_path, plan)
    assert [r.status for r in outcome.runs] == ["failed", "ok"]
    assert len(list((tmp_path / ".envsnap" / "runs").glob("*/server.log"))) == 1
    assert all("during" in r.snapshots for r in outcome.runs)
    assert gone(port)


def test_arms_cannot_share_a_server(tmp_path: Path, port: int) -> None:
    arms = (Arm("a", {"ARM": "a"}), Arm("b", {"ARM": "b"}))
    with pytest.raises(SessionError, match="own each"):
        run(tmp_path, Plan(ask(port), arms=arms, keep_server=True, **serve(port)))


def test_what_a_benchmark_leaves_behind_does_not_meet_the_next(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        f"left = open({str(pids)!r}, 'a+'); left.seek(0)\n"
        "for pid in left.read().split():\n"
        "    if os.path.exists(f'/proc/{pid}'): sys.exit('it is still there')\n"
        "for away in (False, True):\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=away)\n"
        "    print(child.pid, file=left)\n"
    )
    outcome, _ = run(tmp_path, Plan(python(code), repeats=2))
    assert [r.exit_code for r in outcome.runs] == [0, 0]
    assert len(pids.read_text().split()) == 4


# -- disks and secrets ----------------------------------------------------------------------------------------------


def _limited(size: int) -> Any:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_loses_the_run_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "envsnap", "run", "-n", "2", "--store", str(tmp_path), "--", *python("print(1)")]
    full = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, preexec_fn=_limited(4096))
    assert full.returncode == 2, full.stderr
    assert full.stdout == "1\n1\n"
    assert full.stderr.count("could not be kept: File too large") == 2
    assert not [p for p in (tmp_path / ".envsnap" / "runs").iterdir() if p.name.endswith(".part")]


def test_a_disk_too_full_for_the_output_is_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(sources, "mark", full)
    outcome, _ = run(tmp_path, Plan(python("print('speed: 1')"), metrics=SPEED))
    (done,) = outcome.runs
    assert (done.status, done.reason) == ("failed", "No space left on device: x")
    assert outcome.exit_code == 1


def test_no_secret_of_a_command_line_is_kept(tmp_path: Path) -> None:
    secret = "sk-" + "a1B2c3D4" * 6
    command = [sys.executable, "-m", "envsnap", "run", "--store", str(tmp_path), "--format", "json", "--no-record"]
    words = ["--", *python("pass"), "--api-key", secret, f"--url=http://u:{secret}@host/"]
    done = subprocess.run(command + words, cwd=tmp_path, capture_output=True, text=True, check=True)
    listed = subprocess.run([*command[:3], "log", "--store", str(tmp_path), "--format", "json"], capture_output=True)
    (file,) = (p for p in (tmp_path / ".envsnap" / "runs").glob("*.json.gz") if ".samples." not in p.name)
    written = gzip.decompress(file.read_bytes()).decode()
    assert json.loads(written)["command"][-2].startswith("<redacted")
    for text in (written, done.stdout, done.stderr, listed.stdout.decode()):
        assert secret not in text


def test_no_secret_stays_in_a_log(tmp_path: Path, port: int) -> None:
    talks = "print('ServerArgs(model_path=/m, api_key=\\'hunter2hunter2\\')', flush=True)\n"
    server = python(talks + f"import runpy, sys; sys.argv[1:] = ['{port}']; runpy.run_path({str(SERVER)!r})")
    for keep in (False, True):
        plan = Plan(ask(port, talks), metrics=SPEED, keep_server=keep, **serve(port, server=server))
        outcome, _ = run(tmp_path, plan)
        folder = tmp_path / ".envsnap" / "runs" / outcome.runs[0].id
        for name in ("server.log", "benchmark.out"):
            text = (folder / name).read_text()
            assert "hunter2" not in text
            assert "model_path=/m, api_key='<redacted" in text


def test_a_benchmark_that_is_not_there_starts_no_server(tmp_path: Path, port: int) -> None:
    outcome, _ = run(tmp_path, Plan(("no-such-benchmark",), repeats=3, **serve(port)))
    (done,) = outcome.runs
    assert (done.exit_code, outcome.exit_code) == (127, 127)
    assert not list((tmp_path / ".envsnap" / "runs").glob("*/server.log"))


# -- a server that is up already --------------------------------------------------------------------------------


def test_a_server_that_is_up_is_asked_and_seen(spawn: Spawn, tmp_path: Path, port: int) -> None:
    server = spawn([sys.executable, SERVER, port])
    while gone(port):
        time.sleep(0.05)
    plan = Plan(ask(port), metrics=SPEED, server_url=f"127.0.0.1:{port}", probe=2)
    outcome, _ = run(tmp_path, plan)
    assert server.poll() is None
    (done,) = outcome.runs
    assert done.status == "ok", done.reason
    figures = {m.name: m.value for m in done.metrics}
    assert figures["tpot_seconds"] == pytest.approx(0.01)
    assert figures["step_seconds"] == pytest.approx(0.01)
    assert done.sampled is not None
    assert done.sampled.values["during.server.request_count"] == 3  # without the four of the probe
    assert done.output_probe["outputs"] == done.output_probe["again"]
    titles = [v for p, v in done.snapshots["during"].values.items() if p.startswith("worker[")]
    assert any("server.py" in str(value) for value in titles)
