from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envsnap.capture import capture
from envsnap.collectors import env_names
from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from envsnap.scope import Scope
from envsnap.snapshot import Section
from envsnap.workers import census as workers
from envsnap.workers.census import Census
from envsnap.workers.tree import Process
from tests.collectors.environments import Venv
from tests.collectors.hosts import on_the_empty_machine
from tests.processes import Spawn

ENVIRON = """
class Envs:
    SGLANG_ENABLE_JIT_DEEPGEMM = EnvBool(True)
    SGLANG_SIMULATE_ACC_LEN = EnvFloat(-1)
"""


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scope:
    """An environment with an SGLang and a vLLM, and no variables of theirs set."""
    venv = Venv(tmp_path / "venv")
    for file, text in (("sglang/srt/environ.py", ENVIRON), ("vllm/envs.py", "VLLM_USE_V1: bool = True\n")):
        (venv.site / file).parent.mkdir(parents=True)
        (venv.site / file).write_text(text)
    for name in list(LiveHost().environ()):
        if name.startswith(("SGLANG_", "NCCL_", "VLLM_", "CUDA_", "TORCH_")):
            monkeypatch.delenv(name)
    return venv.scope


def read(scope: Scope) -> Section:
    return capture(scope, LiveHost(), only=["env_names"]).sections["env_names"]


def unknown(scope: Scope) -> dict[str, str]:
    values = read(scope).values
    return {p.split("[")[1].rstrip("]"): str(v) for p, v in values.items() if p.startswith("env_names.unknown[")}


def test_names_that_the_engines_read_are_no_matter(engines: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SGLANG_SIMULATE_ACC_LEN", "SGLANG_NCCL_SO_PATH", "SGLANG_DIFFUSION_ANYTHING", "NCCL_ALGO", "NCCL_VERSION",
        "NCCL_IB_GID_INDEX", "NCCL_FASTRAK_NUM_FLOWS", "VLLM_USE_V1", "CUDA_HOME", "CUDA_PATH_V12_8", "CUDA_MY_OWN",
        "TORCH_LOGS", "TORCHELASTIC_RUN_ID",
    ):  # fmt: skip
        monkeypatch.setenv(name, "1")
    assert unknown(engines) == {}
    assert read(engines).values["env_names.checked[nccl]"] == "2.32.3"


def test_what_nobody_reads_is_told_with_the_name_that_was_meant(
    engines: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SGLANG_ENABLE_JIT_DEEPGEM", "NCCL_PROTOO", "NCCL_QUITE_OTHER", "VLLM_USE_V2", "CUDA_VISIBLE_DEVICE"):
        monkeypatch.setenv(name, "1")
    assert unknown(engines) == {
        "SGLANG_ENABLE_JIT_DEEPGEM": "SGLANG_ENABLE_JIT_DEEPGEMM",
        "NCCL_PROTOO": "NCCL_PROTO",
        "NCCL_QUITE_OTHER": "",
        "VLLM_USE_V2": "VLLM_USE_V1",
        "CUDA_VISIBLE_DEVICE": "CUDA_VISIBLE_DEVICES",
    }


def test_an_engine_that_is_not_there_says_nothing(
    engines: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_NO_SUCH_THING", "1")
    empty = Venv(tmp_path / "empty").scope
    assert (unknown(empty), list(read(empty).values)) == ({}, [])


def test_no_more_than_some_are_listed(engines: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(80):
        monkeypatch.setenv(f"NCCL_ODD_NAME_{number}", "1")
    assert len(unknown(engines)) == 50


def test_what_only_a_worker_has_is_named_too(engines: Scope, monkeypatch: pytest.MonkeyPatch, spawn: Spawn) -> None:
    code = "import os; os.environ['SGLANG_ENABLE_JIT_DEEPGEM'] = '1'; print('up', flush=True); input()"
    environ = {"PATH": os.environ["PATH"], "NCCL_PROTOO": "LL"}
    worker = spawn(
        [sys.executable, "-S", "-c", code], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout
    assert worker.stdout.readline() == "up\n"
    scope = replace(engines, pids=(worker.pid,))
    if read(scope).status != "ok":
        pytest.skip("other processes cannot be looked into here")
    assert unknown(scope) == {"NCCL_PROTOO": "NCCL_PROTO", "SGLANG_ENABLE_JIT_DEEPGEM": "SGLANG_ENABLE_JIT_DEEPGEMM"}
    assert unknown(engines) == {}


def test_workers_that_cannot_be_looked_into_leave_it_incomplete(
    engines: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = Unavailable(Why.DENIED, "no")
    process = Process(pid=7, parent=1, name="python", state="S", command="python\0", start_ticks=1)
    taken = Census((process,), {7: "main"}, {7: denied}, {7: denied}, {}, {}, 0)
    monkeypatch.setattr(env_names, "of_interest", lambda host, scope: ())
    monkeypatch.setattr(workers, "take", lambda host, scope: taken)
    monkeypatch.setenv("NCCL_PROTOO", "1")
    found = read(engines)
    assert (found.status, found.complete) == ("partial", False)
    assert "of 1 of the processes" in found.reason
    assert unknown(engines) == {"NCCL_PROTOO": "NCCL_PROTO"}


def test_nothing_on_the_empty_machine() -> None:
    assert on_the_empty_machine("env_names").values == {}
