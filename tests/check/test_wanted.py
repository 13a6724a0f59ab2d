from __future__ import annotations

import pytest

from envsnap.check.facts import Index
from envsnap.check.wanted import NoCommand, Wanted, read_command
from tests.check.made import gpus, snapshot

SERVER = "python -m sglang.launch_server --model-path meta-llama/L --tp-size 4"


@pytest.mark.parametrize(
    ("command", "gpus"),
    [
        (SERVER, 4),
        ("python3 -m sglang.launch_server --model m", 1),
        ("sglang serve --model-path m --tp=8 --pp 2 --nnodes 2", 8),
        (f"{SERVER} --dp 2", 8),
        (f"{SERVER} --dp 4 --enable-dp-attention", 4),
        ("vllm serve m --tensor-parallel-size 2 --data-parallel-size 4", 8),
        ("vllm serve m -tp 2 --data-parallel-size 16 --data-parallel-size-local 2", 4),
        (f"{SERVER} --device cpu", 0),
        (f"SGLANG_USE_CPU_ENGINE=1 {SERVER}", 0),
        ("python -m sglang.bench_serving --tp 8", 0),
        ("python train.py --tp 8", 0),
        (f"{SERVER.replace('4', 'many')}", 1),
        ("", 0),
    ],
)
def test_gpus_that_a_command_takes_on_this_machine(command: str, gpus: int) -> None:
    assert read_command(command).gpus == gpus


def test_what_a_server_s_command_says() -> None:
    wanted = read_command(
        "env -u NCCL_ALGO NCCL_PROTO=LL CUDA_VISIBLE_DEVICES=0,1 nohup python -m sglang.launch_server "
        "--model-path /m/L --tp 2 --speculative-algorithm EAGLE3 --speculative-draft-model-path /m/head "
        "--tokenizer-path /m/T --attention-backend=fa3 --port 31000 --disable-radix-cache"
    )
    assert (wanted.engine, wanted.tensor_parallel, wanted.port) == ("sglang", 2, 31000)
    assert (wanted.model, wanted.draft, wanted.algorithm) == ("/m/L", "/m/head", "EAGLE3")
    assert wanted.models == ("/m/head", "/m/T", "/m/L") or set(wanted.models) == {"/m/L", "/m/head", "/m/T"}
    assert wanted.environment == {"NCCL_ALGO": None, "NCCL_PROTO": "LL", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert (wanted.option("attention_backend"), wanted.option("disable_radix_cache")) == ("fa3", "")
    assert wanted.python == "python"


def test_vllm_names_its_draft_in_json() -> None:
    wanted = read_command(
        """/opt/v/bin/vllm serve Qwen/Q --speculative-config '{"method": "eagle3", "model": "a/head"}'"""
    )
    assert (wanted.engine, wanted.model, wanted.draft, wanted.algorithm) == ("vllm", "Qwen/Q", "a/head", "EAGLE3")
    assert (wanted.port, wanted.python) == (8000, "/opt/v/bin/vllm")
    assert read_command("vllm serve m --speculative-config '{broken'").algorithm == ""


def test_a_command_of_something_else_wants_nothing() -> None:
    wanted = read_command(["bash", "start.sh"])
    assert (wanted.engine, wanted.tensor_parallel, wanted.port, wanted.model, wanted.python) == ("", None, None, "", "")


def test_a_command_that_cannot_be_taken_apart() -> None:
    with pytest.raises(NoCommand, match="No closing quotation"):
        read_command("python -m 'sglang")


@pytest.mark.parametrize(
    ("visible", "command", "used"),
    [
        (None, "", "0123"),
        ("", "", ""),
        ("2,3", "", "23"),
        ("3,2,-1,0", "", "32"),
        ("GPU-c", "", "2"),
        ("GPU-d, 1", "", "31"),
        ("9", "", ""),
        (None, "vllm serve m -tp 2", "01"),
        ("1,2,3", "vllm serve m -tp 2", "12"),
        (None, f"{SERVER.replace('4', '2')} --base-gpu-id 2", "23"),
    ],
)
def test_gpus_in_use(visible: str | None, command: str, used: str) -> None:
    values = gpus(4, uuid=("GPU-aa", "GPU-bb", "GPU-cc", "GPU-dd"))
    if visible is not None:
        values["env[CUDA_VISIBLE_DEVICES]"] = visible
    wanted: Wanted = read_command(command)
    assert "".join(Index(snapshot(values)).gpus(wanted)) == used
