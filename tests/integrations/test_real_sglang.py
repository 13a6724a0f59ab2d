"""A real SGLang server with two tensor-parallel ranks: what it says, what its workers say, what is seen from outside.

ENVSNAP_TEST_SGLANG names a virtual environment with SGLang (on a CPU will do), ENVSNAP_TEST_SGLANG_MODEL a directory
with a model's configuration and tokenizer; weights are made up.
"""

from __future__ import annotations

import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.host import LiveHost
from envsnap.scope import Scope
from envsnap.snapshot import Snapshot
from tests.integrations.recording import ROOT, environment, wait_for
from tests.integrations.test_engines import entry_point

VENV, MODEL = (os.environ.get(name, "") for name in ("ENVSNAP_TEST_SGLANG", "ENVSNAP_TEST_SGLANG_MODEL"))

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not (VENV and MODEL), reason="set ENVSNAP_TEST_SGLANG and ENVSNAP_TEST_SGLANG_MODEL"),
]

SCHEDULERS = ("scheduler_TP0", "scheduler_TP1")


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    """Of a server that was started with a record asked for, by both ways in."""
    folder = tmp_path_factory.mktemp("sglang")
    entry_point(folder / "installed")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    env = environment(
        f"{folder / 'installed'}:{ROOT}", ENVSNAP_RECORD=str(folder / "records"), SGLANG_USE_CPU_ENGINE="1",
        SGLANG_CPU_OMP_THREADS_BIND="0|1", HF_HUB_OFFLINE="1", FROM_SHELL="1", CUDA_DEVICE_MAX_CONNECTIONS="1",
        API_TOKEN_OF_MINE="hf_abcdefghijklmnopqrstuvwxyz012345",
    )  # fmt: skip
    command = [
        f"{VENV}/bin/python", "-m", "sglang.launch_server", "--model-path", MODEL, "--load-format", "dummy", "--device",
        "cpu", "--attention-backend", "torch_native", "--tp", "2", "--max-total-tokens", "4096",
        "--mem-fraction-static", "0.2", "--host", "127.0.0.1", "--port", str(port), "--enable-metrics",
    ]  # fmt: skip
    log = (folder / "log").open("wb")
    # NOTE: not in the repository, whose own metadata would hide the entry point of the installed one.
    process = subprocess.Popen(command, env=env, cwd=folder, start_new_session=True, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: process.poll() is None and _healthy(url), 300)
        wait_for(lambda: len([*(folder / "records").glob("*.json")]) == 4, 60)
        yield capture(
            Scope(pids=(process.pid,), servers=(url,)), LiveHost(), only=["worker", "worker_record", "server"]
        )
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(15)
        finally:
            _kill(process.pid)
            log.close()
            for pattern in ("sgl_shm_mq_*", "sglang_loads_*"):
                for left in Path("/dev/shm").glob(pattern):
                    left.unlink(missing_ok=True)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _kill(group: int) -> None:
    try:
        os.killpg(group, 9)
    except ProcessLookupError:
        pass


def below(snapshot: Snapshot, prefix: str) -> dict[str, Any]:
    """Values by the last instance below a path: `env` of a worker by name."""
    return {path[len(prefix) + 1 : -1]: v for path, v in snapshot.values.items() if path.startswith(f"{prefix}[")}


def test_every_process_has_its_record(snapshot: Snapshot) -> None:
    roles = ("main", "detokenizer", *SCHEDULERS)
    assert {role: snapshot.values.get(f"record[{role}].state") for role in roles} == dict.fromkeys(roles, "arrived")
    assert {snapshot.values[f"record[{role}].ready_by"] for role in SCHEDULERS} == {"sglang"}
    assert [snapshot.values[f"record[{role}].rank[tp_rank]"] for role in SCHEDULERS] == [0, 1]
    assert snapshot.sections["worker_record"].errors == {}


def test_the_engines_silent_overrides_are_seen(snapshot: Snapshot) -> None:
    for role in SCHEDULERS:
        found = below(snapshot, f"worker[{role}].env")
        assert found["FROM_SHELL"] == "1"
        assert found["CUDA_DEVICE_MAX_CONNECTIONS"] == "8"
        assert found["NCCL_CUMEM_ENABLE"] == "0"
        assert found["API_TOKEN_OF_MINE"].startswith("<redacted ")


def test_arguments_agree_but_for_what_changed_at_run_time(snapshot: Snapshot) -> None:
    served, held = below(snapshot, "server[0].argument"), below(snapshot, "record[scheduler_TP0].argument")
    runtime = below(snapshot, "server[0].dp[0].runtime_argument")
    assert served["tp_size"] == 2
    assert runtime["disable_chunked_prefix_cache"] is True
    assert {**served, **runtime} == held
    source = snapshot.values["record[scheduler_TP0].argument_source[disable_chunked_prefix_cache]"]
    assert source == snapshot.values["server[0].dp[0].argument_source[disable_chunked_prefix_cache]"]
    assert not below(snapshot, "record[scheduler_TP1].argument")


def test_torch_and_packages(snapshot: Snapshot) -> None:
    values = snapshot.values
    assert values["record[scheduler_TP0].torch.num_threads"] >= 1
    assert values["record[scheduler_TP0].package_origin[sglang]"].startswith(os.path.realpath(VENV))
    hashes = {values[f"record[{role}].package_hash[sglang]"] for role in SCHEDULERS}
    assert len(hashes) == 1


def test_the_server_in_its_own_words(snapshot: Snapshot) -> None:
    values = snapshot.values
    assert values["server[0].engine"] == "sglang"
    assert values["server[0].dp[0].token_capacity_count"] == 4096
    assert values["server[0].models"] == [MODEL]
    assert "server[0].metric[sglang:num_running_reqs]" in values
    assert snapshot.sections["server"].errors == {}
