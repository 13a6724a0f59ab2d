"""Roles: what each process is called."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from envsnap.keys import instance
from envsnap.scope import Scope
from envsnap.workers import roles
from envsnap.workers.tree import of_interest
from tests.workers.test_tree import SERVER, machine

SPAWN = (
    "python3\0-c\0from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)\0"
    "--multiprocessing-fork\0"
)
TRACKER = "python3\0-c\0from multiprocessing.resource_tracker import main;main(5)\0"
FORKSERVER = "python3\0-c\0from multiprocessing.forkserver import main; main(3, 4, ['__main__'])\0"


def names(
    *processes: tuple[int, int, str], pids: tuple[int, ...] = (10,), env: Mapping[int, Mapping[str, str]] | None = None
) -> dict[int, str]:
    groups = of_interest(machine((1, 0, "init\0"), (9, 1, "bash\0"), *processes), Scope(pids=pids))
    found = roles.assign(roles.serving(groups), env or {})
    assert len(set(found.values())) == len(found)
    return {pid: role for pid, role in found.items() if pid != 9}


def test_sglang_with_two_ranks() -> None:
    """As seen on a real run of 0.5.16."""
    assert names(
        (10, 9, SERVER),
        (11, 10, TRACKER),
        (12, 10, "sglang::scheduler_TP0\0\0\0"),
        (13, 10, "sglang::scheduler_TP1\0\0\0"),
        (14, 10, "sglang::detokenizer\0\0\0"),
    ) == {10: "main", 11: "resource_tracker", 12: "scheduler_TP0", 13: "scheduler_TP1", 14: "detokenizer"}


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("sglang::scheduler", "scheduler"),
        ("sglang::scheduler_DP0_TP1_EP1", "scheduler_DP0_TP1_EP1"),
        ("sglang::scheduler_PP1_ATTN_CP0_MOE_DP2_TP3", "scheduler_PP1_ATTN_CP0_MOE_DP2_TP3"),
        ("sglang::scheduler::a/model", "scheduler"),
        ("sglang::detokenizer_router", "detokenizer_router"),
        ("sglang::data_parallel_controller", "data_parallel_controller"),
        ("sglang::tokenizer_worker:4711", "tokenizer_worker0"),
        ("sgl_diffusion::scheduler_TP0", "diffusion_scheduler_TP0"),
        ("VLLM::EngineCore", "EngineCore"),
        ("VLLM::EngineCore_DP1", "EngineCore_DP1"),
        ("VLLM::Worker_TP0", "Worker_TP0"),
        ("VLLM::APIServer_0", "APIServer_0"),
        ("VLLM::DPCoordinator", "DPCoordinator"),
        ("my-name::Worker_TP0", "Worker_TP0"),
        ("ray::RayWorkerWrapper.execute_method", "ray_RayWorkerWrapper"),
        ("ray::IDLE", "ray_IDLE"),
        ("ray::Worker", "ray_Worker"),
        ("some worker 3", "some_worker_3"),
        ("worker of process 20", "worker_of_process"),
    ],
)
def test_titles(title: str, role: str) -> None:
    assert names((10, 9, "python3\0x.py\0"), (20, 10, title + "\0\0\0"))[20] == role


@pytest.mark.parametrize(
    "command",
    [
        "python3\0-m\0sglang.launch_server\0--tp\0002\0",
        "/venv/bin/python\0-u\0-X\0dev\0-m\0sglang.launch_server\0",
        "/venv/bin/python3.12\0/venv/bin/sglang\0serve\0--model\0x\0",
        "python3\0/src/sglang/python/sglang/launch_server.py\0",
        "python3\0/venv/bin/vllm\0serve\0x\0",
        "python3\0-m\0vllm.entrypoints.openai.api_server\0",
        "/venv/bin/python3\0/venv/bin/trtllm-serve\0x\0",
        "python3\0-m\0sglang.bench_one_batch\0",
        "python3\0my_engine.py\0",
    ],
)
def test_the_main_process_is_found_below_what_wraps_it(command: str) -> None:
    wrapped = "timeout\x00600\0" + command
    found = names((10, 9, "bash\0start.sh\0"), (11, 10, wrapped), (12, 11, command), (13, 12, command))
    assert found == {10: "shell", 11: "timeout", 12: "main", 13: "fork0"}


def test_multiprocessing_children_by_argv_and_parentage_in_order_of_start() -> None:
    assert names(
        (10, 9, "python3\0train.py\0"),
        (11, 10, TRACKER),
        (13, 10, SPAWN),
        (12, 10, SPAWN),
        (14, 10, FORKSERVER),
        (15, 14, FORKSERVER),
        (16, 14, FORKSERVER),
        (17, 10, "python3\0train.py\0"),
        (18, 10, "python3\0-c\0pass\0"),
        (19, 10, "/usr/bin/ninja\0-v\0"),
    ) == {
        10: "main",
        11: "resource_tracker",
        12: "spawn0",
        13: "spawn1",
        14: "forkserver",
        15: "forkserver_child0",
        16: "forkserver_child1",
        17: "fork0",
        18: "child0",
        19: "ninja",
    }  # fmt: skip


def test_torchrun_workers_by_rank_and_their_own_children_by_parentage() -> None:
    script = "python3\0-u\0train.py\0"
    env = {10: {}, 11: {"RANK": "0", "LOCAL_RANK": "0"}, 12: {"RANK": "1"}, 13: {"RANK": "1"}, 14: {"RANK": "1"}}
    assert names(
        (10, 9, "python3\0/venv/bin/torchrun\0--nproc-per-node=2\0train.py\0"),
        (11, 10, script),
        (12, 10, script),
        (13, 12, script),
        (14, 12, SPAWN),
        env=env,
    ) == {10: "agent", 11: "rank0", 12: "rank1", 13: "fork0", 14: "spawn0"}


def test_a_rank_that_the_whole_pod_has_is_none() -> None:
    everywhere = {"RANK": "0"}
    found = names((10, 9, SERVER), (11, 10, SPAWN), env={10: everywhere, 11: everywhere})
    assert found == {10: "main", 11: "spawn0"}


def test_mpi_workers_by_rank() -> None:
    server = "python3\0-m\0mpi4py.futures.server\0"
    found = names(
        (10, 9, "python3\0/venv/bin/trtllm-serve\0x\0"),
        (11, 10, "prte\0"),
        (12, 11, server),
        (13, 11, server),
        env={12: {"OMPI_COMM_WORLD_RANK": "0"}, 13: {"OMPI_COMM_WORLD_RANK": "1"}},
    )
    assert found == {10: "main", 11: "prte", 12: "rank0", 13: "rank1"}


def test_several_servers_by_port() -> None:
    found = names(
        (10, 9, SERVER + "--port\00030001\0"),
        (11, 10, "sglang::scheduler\0\0"),
        (20, 9, SERVER + "--port=30002\0"),
        (21, 20, "sglang::scheduler\0\0"),
        pids=(10, 20),
    )
    assert found == {10: "port30001/main", 11: "port30001/scheduler", 20: "port30002/main", 21: "port30002/scheduler"}


def test_several_servers_by_position_where_ports_do_not_tell() -> None:
    found = names(
        (20, 9, SERVER), (10, 9, SERVER + "--port\00030001\0"), (11, 10, "sglang::scheduler\0\0"), pids=(10, 20)
    )
    assert found == {10: "server0/main", 11: "server0/scheduler", 20: "server1/main"}


def test_what_only_matched_the_pattern_is_no_server() -> None:
    """An editor, a log viewer and the benchmark's client match "sglang" too."""
    host = machine(
        (1, 0, "init\0"),
        (10, 1, SERVER),
        (11, 10, "sglang::scheduler\0\0"),
        (20, 1, "tail\0-f\0sglang.log\0"),
        (30, 1, "python3\0-m\0sglang.bench_serving\0--port\00030000\0"),
    )
    groups = roles.serving(of_interest(host, Scope(match=("sglang",))))
    assert roles.assign(groups, {}) == {10: "main", 11: "scheduler"}


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("python3 -m sglang.launch_server --tp 2", True),
        ("/venv/bin/python /src/python/sglang/launch_server.py --port 1", True),
        ("sglang::scheduler_TP1", True),
        ("vllm serve model", True),
        ("VLLM::Worker_TP0", True),
        ("trtllm-serve model", True),
        ("torchrun --nproc-per-node 8 train.py", True),
        ("ray::RayWorker.execute", True),
        ("python3 -m sglang.bench_serving --port 30000", False),
        ("vllm bench serve", False),
        ("python3 train.py --name sglang", False),
        ("bash", False),
    ],
)
def test_a_running_engine_is_found_by_one_pattern(command: str, engine: bool) -> None:
    assert bool(re.search(roles.ANY, command)) is engine


def test_without_an_engine_everything_that_matched_counts() -> None:
    host = machine((1, 0, "init\0"), (10, 1, "python3\0job.py\0a\0"), (20, 1, "python3\0job.py\0b\0"))
    groups = roles.serving(of_interest(host, Scope(match=("job",))))
    assert roles.assign(groups, {}) == {10: "server0/main", 20: "server1/main"}


def test_the_chain_down_to_a_worker_named_by_pid() -> None:
    groups = of_interest(
        machine((1, 0, "init\0"), (9, 1, "bash\0"), (10, 9, SERVER), (11, 10, "sglang::scheduler_TP0\0\0")),
        Scope(pids=(11,)),
    )
    assert roles.assign(groups, {}) == {9: "shell", 10: "main", 11: "scheduler_TP0"}


def test_inductors_compile_pool_is_known() -> None:
    pool = "python3\0/venv/lib/python3.12/site-packages/torch/_inductor/compile_worker/__main__.py\0--workers=32\0"
    (group,) = of_interest(
        machine((1, 0, "init\0"), (10, 1, SERVER), (11, 10, pool), (12, 11, pool), (13, 10, SPAWN)), Scope(pids=(10,))
    )
    assert roles.compile_pool(group) == {11: 10, 12: 10}


def test_titles_that_occur_twice_are_numbered() -> None:
    found = names(
        (10, 9, "python3\0x.py\0"),
        (11, 10, "VLLM::Worker\0\0"),
        (12, 10, "VLLM::Worker\0\0"),
        (13, 10, "a::Worker_TP0\0\0"),
        (14, 10, "b::Worker_TP0\0\0"),
    )
    assert found == {10: "main", 11: "Worker0", 12: "Worker1", 13: "Worker_TP0.0", 14: "Worker_TP0.1"}


def test_roles_stand_bare_between_brackets() -> None:
    found = names((10, 9, "python3\0x.py\0"), (11, 10, 'a "title" [with] brackets\n\0\0'), (12, 10, "\udcff\udcfe\0\0"))
    assert all(instance(role) == role for role in found.values())
