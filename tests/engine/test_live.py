"""A real SGLang server with two ranks: what it says, what its workers say, what is seen from outside, what is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.host import LiveHost
from envsnap.schema import violations
from envsnap.scope import Scope
from envsnap.snapshot import Snapshot, load, write
from envsnap.workers.propagation import Row, State, propagation
from tests.engine.environment import Engine, variables
from tests.engine.server import free_port, in_session, left_over, serving, shared_memory
from tests.integrations.recording import ROOT, environment, wait_for
from tests.integrations.test_engines import entry_point

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

SCHEDULERS = ("scheduler_TP0", "scheduler_TP1")
SECRET = "hf_abcdefghijklmnopqrstuvwxyz012345"
SECTIONS = ["worker", "worker_record", "server", "models"]


@dataclass(frozen=True)
class Seen:
    """What was seen of the server while it was up, and what was left when it had been stopped."""

    snapshot: Snapshot
    checked: subprocess.CompletedProcess[str]
    processes: list[int]
    left: list[int]
    shm: list[Path]
    arguments: list[str]
    engine: Engine


@pytest.fixture(scope="module")
def seen(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Of a server that was started with a record asked for, by both ways in."""
    folder = tmp_path_factory.mktemp("sglang")
    entry_point(folder / "installed")
    port = free_port()
    given = environment(
        f"{folder / 'installed'}:{ROOT}", **variables(2), ENVSNAP_RECORD=str(folder / "records"), FROM_SHELL="1",
        CUDA_DEVICE_MAX_CONNECTIONS="1", API_TOKEN_OF_MINE=SECRET, OMP_NUM_THREADS="1",
    )  # fmt: skip
    before = shared_memory()
    command = engine.command(port, 2, "--random-seed", "7")
    with serving(command, given, folder, port) as server:
        server.wait()
        wait_for(lambda: len([*(folder / "records").glob("*.json")]) == 4, 300)
        taken = capture(Scope(pids=(server.pid,), servers=(server.url,)), LiveHost(), only=SECTIONS, deadline=120)
        checked = subprocess.run(
            [sys.executable, "-m", "envsnap", "check", "--after", "--pid", str(server.pid), "--server", server.url,
             "--deadline", "120", "--format", "json"],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        processes = in_session(server.pid)
    return Seen(taken, checked, processes, in_session(server.pid), left_over(before), command, engine)


def below(snapshot: Snapshot, prefix: str) -> dict[str, Any]:
    """Values by the last instance below a path: `env` of a worker by name."""
    return {path[len(prefix) + 1 : -1]: v for path, v in snapshot.values.items() if path.startswith(f"{prefix}[")}


def row(snapshot: Snapshot, name: str) -> Row:
    return next(r for r in propagation(snapshot).variables if r.name == name)


def test_every_process_has_its_role(seen: Seen) -> None:
    found = propagation(seen.snapshot)
    children = {role for role in found.processes if found.parents[role] == "main"}
    assert children == {"resource_tracker", "detokenizer", *SCHEDULERS}


def test_every_process_has_its_record(seen: Seen) -> None:
    values = seen.snapshot.values
    roles = ("main", "detokenizer", *SCHEDULERS)
    assert {role: values.get(f"record[{role}].state") for role in roles} == dict.fromkeys(roles, "arrived")
    assert {values[f"record[{role}].ready_by"] for role in SCHEDULERS} == {"sglang"}
    assert [values[f"record[{role}].rank[tp_rank]"] for role in SCHEDULERS] == [0, 1]
    assert seen.snapshot.sections["worker_record"].errors == {}


def test_the_live_environment_of_every_rank(seen: Seen) -> None:
    for role in SCHEDULERS:
        found = below(seen.snapshot, f"worker[{role}].env")
        assert found["FROM_SHELL"] == "1"
        assert found["OMP_NUM_THREADS"] == "1"
        assert found["API_TOKEN_OF_MINE"].startswith("<redacted ")


def test_the_engines_silent_overrides_are_told(seen: Seen) -> None:
    connections = row(seen.snapshot, "CUDA_DEVICE_MAX_CONNECTIONS")
    for role in SCHEDULERS:
        cell = connections.cells[role]
        assert cell.value == "8"
    # What it was started with, against what it has made of that.
    assert connections.cells["main"].state in (State.SET, State.CHANGED)
    assert seen.snapshot.values["worker[main].env_at_exec[CUDA_DEVICE_MAX_CONNECTIONS]"] == "1"
    cumem = row(seen.snapshot, "NCCL_CUMEM_ENABLE")
    assert {cumem.cells[role].value for role in SCHEDULERS} == {"0"}
    for cell in (connections.cells["main"], cumem.cells["main"]):
        assert "SGLang" in cell.by or "shell" not in propagation(seen.snapshot).processes
    exported = row(seen.snapshot, "FROM_SHELL")
    assert {cell.value for role, cell in exported.cells.items() if role != "shell"} == {"1"}


def test_mapped_libraries_are_those_of_the_engines_environment(seen: Seen) -> None:
    values = seen.snapshot.values
    home = os.path.realpath(Path(seen.engine.python).parent.parent)
    for role in SCHEDULERS:
        mapped = {p: v for p, v in values.items() if p.startswith(f"worker[{role}].library[")}
        torch = [v for p, v in mapped.items() if "[torch" in p and p.endswith("].path")]
        assert torch, sorted(mapped)
        assert all(os.path.realpath(str(path)).startswith(home) for path in torch)
    own = [below(seen.snapshot, f"worker[{role}].library") for role in SCHEDULERS]
    assert own[0] == own[1]


def test_arguments_agree_but_for_what_changed_at_run_time(seen: Seen) -> None:
    served, held = below(seen.snapshot, "server[0].argument"), below(seen.snapshot, "record[scheduler_TP0].argument")
    runtime = below(seen.snapshot, "server[0].dp[0].runtime_argument")
    assert served["tp_size"] == 2
    assert served["random_seed"] == 7
    assert runtime["disable_chunked_prefix_cache"] is True
    assert {**served, **runtime} == held
    source = seen.snapshot.values["record[scheduler_TP0].argument_source[disable_chunked_prefix_cache]"]
    assert source == seen.snapshot.values["server[0].dp[0].argument_source[disable_chunked_prefix_cache]"]
    assert not below(seen.snapshot, "record[scheduler_TP1].argument")


def test_what_was_typed_and_what_was_resolved_are_apart(seen: Seen) -> None:
    typed = below(seen.snapshot, "record[scheduler_TP0].typed_argument")
    resolved = below(seen.snapshot, "record[scheduler_TP0].argument")
    assert seen.snapshot.values["worker[main].argv"][-2:] == ["--random-seed", "7"]
    if typed:
        assert {n: v for n, v in typed.items() if resolved.get(n) == v} != {}
    assert "attention_backend" in resolved
    assert resolved["schedule_policy"] == "fcfs", "resolved, though nobody typed it"


def test_torch_and_packages(seen: Seen) -> None:
    values = seen.snapshot.values
    assert [values[f"record[{role}].torch.num_threads"] for role in SCHEDULERS] == [1, 1]
    home = os.path.realpath(Path(seen.engine.python).parent.parent)
    assert os.path.realpath(values["record[scheduler_TP0].package_origin[sglang]"]).startswith(home)
    hashes = {values[f"record[{role}].package_hash[sglang]"] for role in SCHEDULERS}
    assert len(hashes) == 1


def test_the_server_in_its_own_words(seen: Seen) -> None:
    values = seen.snapshot.values
    assert values["server[0].engine"] == "sglang"
    assert values["server[0].dp[0].token_capacity_count"] == 4096
    assert values["server[0].models"] == [str(seen.engine.models / "tiny-llama")]
    assert "server[0].metric[sglang:num_running_reqs]" in values
    assert seen.snapshot.sections["server"].errors == {}


def test_the_model_that_the_server_was_started_with(seen: Seen) -> None:
    """Nobody named it but the server's own command line."""
    values = seen.snapshot.values
    assert values["model[tiny-llama].path"] == str(seen.engine.models / "tiny-llama")
    assert values["model[tiny-llama].config"]["architectures"] == ["LlamaForCausalLM"]
    assert "model[tiny-llama].file[tokenizer.json].sha256" in values
    assert seen.snapshot.sections["models"].complete


def test_the_check_after_the_start_reads_the_workers(seen: Seen) -> None:
    told = json.loads(seen.checked.stdout)
    assert violations(told) == []
    states = {f["code"]: f["status"] for f in told["findings"]}
    assert states["workers_found"] == "pass"
    # Each of them had what it needs: two ranks, their environment, the server's own words.
    applied = {code for code, status in states.items() if status != "not_applicable"}
    assert {"ranks_alike", "variables_arrived", "arguments_as_asked", "server_current"} <= applied
    assert SECRET not in seen.checked.stdout


def test_a_snapshot_of_it_survives_its_file(seen: Seen, tmp_path: Path) -> None:
    path = tmp_path / "during.json"
    write(seen.snapshot, path)
    assert SECRET not in path.read_text()
    assert load(path).values == seen.snapshot.values


def test_nothing_is_left_when_it_has_stopped(seen: Seen) -> None:
    assert len(seen.processes) >= 5
    assert seen.left == []
    assert seen.shm == []
