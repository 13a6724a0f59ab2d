"""Runs and a search on the real engine: fresh servers, repeats, trials whose levers reach the workers, nothing left."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envsnap.runs.run import Run
from envsnap.schema import violations
from envsnap.store import Store
from tests.engine import bench
from tests.engine.environment import Engine, variables
from tests.engine.server import free_port, left_over, shared_memory, sweep
from tests.integrations.recording import ROOT, environment
from tests.integrations.test_engines import entry_point

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

LEVER = "PYTHONMALLOC"
BUDGET = 2
_METRIC = ["--metric", "output_tokens_per_second[tok/s]=json:output_tokens_per_second"]


@dataclass(frozen=True)
class Session:
    """Two runs of the slow side, one of the fast one, and a search between them that two runs were given to."""

    slow: list[Run]
    fast: list[Run]
    proof: dict[str, Any]
    trials: list[Run]
    left: list[int]
    shm: list[Path]


@pytest.fixture(scope="module")
def session(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """What the command line makes of it."""
    folder = tmp_path_factory.mktemp("runs")
    entry_point(folder / "installed")
    port = free_port()
    prompts, out = folder / "prompts.txt", folder / "figures.json"
    prompts.write_text(bench.prompts_of(1, 40, count=3))
    given = environment(f"{folder / 'installed'}:{ROOT}", **variables(), OMP_NUM_THREADS="1")
    server = ["--server", shlex.join(engine.command(port)), "--ready", f"http://127.0.0.1:{port}/health"]
    figures = [*_METRIC, "--metrics", str(out)]
    asked = ["--", sys.executable, str(Path(bench.__file__)), "--port", str(port), "--out", str(out), "--prompts",
             str(prompts), "--tokens", "16", "--seconds", "5"]  # fmt: skip

    def call(*arguments: str, codes: Sequence[int] = (0,), slow: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "envsnap", *arguments], cwd=folder, capture_output=True, text=True, timeout=3000,
            env={**given, LEVER: "debug"} if slow else given,
        )  # fmt: skip
        assert done.returncode in codes, done.stderr[-3000:] + done.stdout[-1000:]
        return done.stdout

    before = shared_memory()
    try:
        call("run", "--label", "slow", "-n", "2", *server, *figures, *asked, slow=True)
        call("run", "--label", "fast", *server, *figures, *asked)
        after_runs = left_over(before)
        search = ["prove", "fast", "slow", "--budget", str(BUDGET), "--format", "json"]
        proof = json.loads(call(*search, *server, *figures, *asked, codes=(0, 1, 3)))
        left, shm = _mentioning(str(port)), [*after_runs, *left_over(before)]
    finally:
        sweep(before)
    store = Store(folder)
    named = {label: [store.load(e.id) for e in reversed(store.entries()) if e.label == label] for label in
             {e.label for e in store.entries()}}  # fmt: skip
    trials = [run for label, runs in named.items() if label.startswith("prove-") for run in runs]
    return Session(named["slow"], named["fast"], proof, trials, left, shm)


def _mentioning(text: str) -> list[int]:
    """Processes whose command line or environment at the start speaks of it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if text.encode() in words:
                found.append(int(entry.name))
    return found


def test_every_repetition_has_a_server_of_its_own(session: Session) -> None:
    runs = [*session.slow, *session.fast]
    assert [run.status for run in runs] == ["ok"] * 3, [run.reason for run in runs]
    started = {run.snapshot.values["worker[main].started_seconds"] for run in runs}
    assert len(started) == 3
    assert all(run.metrics[0].name == "output_tokens_per_second" for run in runs)


def test_the_runs_hold_the_workers_and_what_they_recorded(session: Session) -> None:
    for run, value in ((session.slow[0], "debug"), (session.slow[1], "debug"), (session.fast[0], None)):
        values = run.snapshot.values
        for role in ("main", "scheduler", "detokenizer"):
            assert values.get(f"worker[{role}].env[{LEVER}]") == value
            assert values[f"record[{role}].state"] == "arrived"
        assert values["server[0].argument[tp_size]"] == 1
        assert values["during.host.sample_count"] >= 3, "sampled once a second; the benchmark asks for five"
        assert values["during.host.cpu_other_median_percent"] >= 0


def test_the_servers_counters_cover_the_benchmark(session: Session) -> None:
    run = session.fast[0]
    assert run.sampled is not None
    asked = {p: v for p, v in run.sampled.values.items() if p.startswith("during.server")}
    assert asked, sorted(run.sampled.unavailable)


def test_a_search_tries_what_the_sides_had_and_checks_that_it_arrived(session: Session) -> None:
    assert violations(session.proof) == []
    assert 1 <= len(session.trials) <= BUDGET
    assert {run.status for run in session.trials} == {"ok"}, [run.reason for run in session.trials]
    seen = {run.snapshot.values.get(f"worker[scheduler].env[{LEVER}]") for run in session.trials}
    assert seen == {"debug", None}, "both sides were run, and the lever reached the rank in each of them"
    assert all(trial["status"] != "without_effect" for trial in session.proof["trials"])


def test_nothing_of_the_runs_is_left(session: Session) -> None:
    assert session.left == []
    assert session.shm == []
