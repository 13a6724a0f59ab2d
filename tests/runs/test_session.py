"""Sessions on real processes: servers that start, do not start and die; benchmarks of every temper."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envsnap.runs.compare import compare
from envsnap.runs.session import Arm, Plan, SessionError
from envsnap.runs.verdict import Design
from tests.processes import Spawn
from tests.runs.sessions import SERVER, SPEED, ask, python, run, serve


def test_a_benchmark_alone(tmp_path: Path) -> None:
    code = "import time; time.sleep(2.5); print('speed: 94.5')"
    outcome, _ = run(tmp_path, Plan(python(code), metrics=SPEED, interval=0.5))
    (done,) = outcome.runs
    assert (done.status, done.exit_code, outcome.exit_code) == ("ok", 0, 0)
    assert done.metrics[0].value == 94.5
    assert set(done.snapshots) == {"before", "during", "after"}
    assert done.sampled is not None
    assert done.sampled.values["during.host.sample_count"] >= 3
    assert any(path.startswith("during.worker[") for path in done.sampled.values)
    assert done.window is not None
    assert done.window[1] - done.window[0] == pytest.approx(2.5, abs=1.0)


def test_a_server_is_waited_for_measured_and_stopped(tmp_path: Path, port: int) -> None:
    plan = Plan(ask(port), metrics=SPEED, **serve(port, server=(sys.executable, str(SERVER), str(port), "1")))
    outcome, _ = run(tmp_path, plan)
    (done,) = outcome.runs
    assert done.status == "ok", done.reason
    during = done.snapshots["during"]
    assert any(path.startswith("worker[") for path in during.values)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_arms_are_interleaved_in_pairs_and_reach_the_server(tmp_path: Path, port: int) -> None:
    arms = (Arm("a", {"ARM": "a"}), Arm("b", {"ARM": "b"}))
    outcome, _ = run(tmp_path, Plan(ask(port), metrics=SPEED, repeats=2, arms=arms, seed=3, **serve(port)))
    order = [(r.index, r.arm) for r in outcome.runs]
    assert sorted(order) == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert [i for i, _ in order] == [0, 0, 1, 1]
    assert {r.arm: r.metrics[0].value for r in outcome.runs} == {"a": 10.0, "b": 20.0}
    a, b = ([r for r in outcome.runs if r.arm == arm] for arm in "ab")
    assert compare(a, b).design is Design.INTERLEAVED


def test_records_go_to_one_place_wherever_the_benchmark_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome, _ = run(
        Path(), Plan(python("import os; os.chdir('/'); print('speed:', len(os.environ['ENVSNAP_RECORD']))"))
    )
    assert Path(outcome.runs[0].added["ENVSNAP_RECORD"]).is_relative_to(tmp_path)


def test_one_server_can_be_kept(tmp_path: Path, port: int) -> None:
    outcome, _ = run(tmp_path, Plan(ask(port), metrics=SPEED, repeats=2, keep_server=True, **serve(port)))
    assert [r.status for r in outcome.runs] == ["ok", "ok"]
    logs = list((tmp_path / ".envsnap" / "runs").glob("*/server.log"))
    assert len(logs) == 1


def test_another_server_at_the_port_is_refused_before_anything_starts(tmp_path: Path, port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(SessionError, match=f"port {port}"):
            run(tmp_path, Plan(ask(port), **serve(port)))


def test_a_server_that_is_never_ready(tmp_path: Path, port: int) -> None:
    server = (sys.executable, str(SERVER), str(port), "1000")
    outcome, _ = run(tmp_path, Plan(ask(port), **serve(port, server=server, ready_seconds=1.0)))
    (done,) = outcome.runs
    assert done.status == "never_ready"
    assert outcome.exit_code == 2
    assert "not ready after 1 s" in done.reason
    assert "before" in done.snapshots


def test_a_server_that_dies(tmp_path: Path, port: int) -> None:
    outcome, _ = run(tmp_path, Plan(ask(port), **serve(port, server=python("raise SystemExit(3)"))))
    assert outcome.runs[0].status == "never_ready"
    assert "exit code 3" in outcome.runs[0].reason


def test_the_last_words_of_a_server_are_told_without_secrets(tmp_path: Path, port: int) -> None:
    text = "usage: serve\\nerror: unrecognized arguments: --chunks \\x1b[31m --api-key sk-0123456789abcdef0123\\n\\n"
    dies = python(f"import sys; sys.stderr.write('{text}'); sys.exit(2)")
    outcome, _ = run(tmp_path, Plan(ask(port), **serve(port, server=dies)))
    reason = outcome.runs[0].reason
    assert "server.log, which ends with: error: unrecognized arguments: --chunks \\x1b[31m --api-key " in reason
    assert "0123456789" not in reason


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        (("no-such-benchmark",), 127, "no program"),
        (python("raise SystemExit(5)"), 5, "exit code 5"),
        (python("import os; os.abort()"), 134, "exit code 134"),
        (python("print('speed: 0')"), 0, "no positive figure"),
        (python("print('speed: nan')"), 0, "no positive figure"),
        (python("pass"), 0, "not found"),
    ],
)
def test_a_benchmark_that_fails_is_a_run_marked_so(
    tmp_path: Path, command: tuple[str, ...], code: int, reason: str
) -> None:
    outcome, _ = run(tmp_path, Plan(command, metrics=SPEED))
    (done,) = outcome.runs
    assert done.status == "failed"
    assert done.exit_code == code
    assert reason in done.reason
    assert outcome.exit_code == (code or 1)


def test_a_flood_of_output_is_passed_on_whole(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code = "import sys\nfor i in range(200000): sys.stdout.write('x' * 99 + '\\n')\nprint('speed: 7')"
    outcome, _ = run(tmp_path, Plan(python(code), metrics=SPEED))
    assert outcome.runs[0].metrics[0].value == 7.0
    written = outcome.runs[0].id
    assert (tmp_path / ".envsnap" / "runs" / written / "benchmark.out").stat().st_size > 19_000_000


def _session_in_a_process(spawn: Spawn, tmp_path: Path, benchmark: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "envsnap", "run", "-n", "3", "--store", str(tmp_path), "--", *python(benchmark)]
    return spawn(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _wait_for(path: Path) -> None:
    for _ in range(500):
        if path.exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} never came")


def test_an_interrupted_run_is_kept_and_the_rest_is_not_run(spawn: Spawn, tmp_path: Path) -> None:
    code = f"import time; open({str(tmp_path / 'started')!r}, 'w').close(); time.sleep(60)"
    process = _session_in_a_process(spawn, tmp_path, code)
    _wait_for(tmp_path / "started")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    log = [sys.executable, "-m", "envsnap", "log", "--format", "json", "--store", str(tmp_path)]
    listed = subprocess.run(log, capture_output=True, check=True)
    runs = json.loads(listed.stdout)["runs"]
    assert [r["status"] for r in runs] == ["interrupted"]


def test_after_a_kill_of_envsnap_the_benchmark_goes_on(spawn: Spawn, tmp_path: Path) -> None:
    code = (
        f"import time; open({str(tmp_path / 'started')!r}, 'w').close(); time.sleep(1.5)\n"
        f"print('still here', flush=True); open({str(tmp_path / 'ended')!r}, 'w').close()"
    )
    process = _session_in_a_process(spawn, tmp_path, code)
    _wait_for(tmp_path / "started")
    process.kill()
    process.communicate()
    _wait_for(tmp_path / "ended")


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no /dev/shm to write to")
def test_what_a_server_held_in_shared_memory_goes_with_it(tmp_path: Path, port: int) -> None:
    """An engine that is killed leaves its segments; what the benchmark made there is its own."""
    own, other = (Path("/dev/shm", f"envsnap_{name}_{os.getpid()}") for name in ("server", "benchmark"))
    code = (
        "import mmap, os, runpy, sys\n"
        f"fd = os.open('{own}', os.O_CREAT | os.O_RDWR)\n"
        "os.ftruncate(fd, 4096)\nheld = mmap.mmap(fd, 4096)\nos.close(fd)\n"
        f"sys.argv = ['server.py', '{port}']\nrunpy.run_path('{SERVER}', run_name='__main__')"
    )
    seen = f"import os\nprint('speed:', 1 + os.path.exists('{own}'))\nopen('{other}', 'w').close()"
    plan = Plan(python(seen), metrics=SPEED, repeats=2, **serve(port, server=python(code)))
    try:
        outcome, _ = run(tmp_path, plan)
        assert [r.metrics[0].value for r in outcome.runs] == [2, 2], "it was there while the benchmark ran"
        assert not own.exists()
        assert other.exists()
    finally:
        for path in (own, other):
            path.unlink(missing_ok=True)
