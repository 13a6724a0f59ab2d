from __future__ import annotations

from typing import Any

import pytest

from envsnap.check import Status
from envsnap.reading import Unavailable, Why
from tests.check.made import SGLANG, Case, apart, check, fires, judge, silent, snapshot, warns

TP2 = f"{SGLANG} --tp 2"
COMMAND = ["python", "-m", "sglang.launch_server", "--model-path", "m", "--tp", "2"]
ROLES = ("shell", "main", "scheduler_TP0", "scheduler_TP1")


def workers(*roles: str, **facts: Any) -> dict[str, Any]:
    """A launcher below a shell, and its ranks; a tuple gives each role its own."""
    roles = roles or ROLES
    found: dict[str, Any] = {}
    for place, role in enumerate(roles):
        found[f"worker[{role}].argv"] = ["bash"] if role == "shell" else COMMAND
        found[f"worker[{role}].started_seconds"] = 2e9
        found[f"worker[{role}].env[PATH]"] = "/bin"
        if place:
            found[f"worker[{role}].parent"] = roles[min(place - 1, 1)]
        for name, value in facts.items():
            own = value[place] if isinstance(value, tuple) else value
            if own is not None:
                found[f"worker[{role}].{name.replace('__', '.')}"] = own
    return found


def env(name: str, *values: str | None) -> dict[str, Any]:
    """A variable in the shell, the launcher and both ranks."""
    return {f"worker[{role}].env[{name}]": v for role, v in zip(ROLES, values) if v is not None}


def server(**facts: Any) -> dict[str, Any]:
    """A server with arguments, and with what is written `dp__NAME` of its only data-parallel rank."""
    found: dict[str, Any] = {"server[0].engine": "sglang"}
    for name, value in facts.items():
        path = f"dp[0].{name[4:]}" if name.startswith("dp__") else f"argument[{name.replace('__', '.')}]"
        found[f"server[0].{path}"] = value
    return found


def libraries(name: str, fact: str, *values: Any) -> dict[str, Any]:
    return {f"worker[{role}].library[{name}].{fact}": v for role, v in zip(ROLES[2:], values)}


CASES = [
    fires("workers_found", {}, "no process matches"),
    fires("workers_found", workers("main", "scheduler_TP0"), "2 ranks were asked for, 1 run (scheduler_TP0)"),
    fires("workers_found", workers(ended=(None, None, None, True)), "scheduler_TP1 has ended"),
    silent("workers_found", workers(), "all there"),
    fires("variables_arrived", {**workers(), **env("NCCL_PROTO", "LL", "LL", "LL", None)},
          "NCCL_PROTO=LL of shell did not reach scheduler_TP1"),
    fires("variables_arrived", {**workers(), **env("NCCL_ALGO", "Ring", None, None, None)},
          "NCCL_ALGO=Ring of shell did not reach scheduler_TP0-1"),
    warns("variables_arrived", {**workers(), **env("CUDA_DEVICE_MAX_CONNECTIONS", "1", "8", "8", "8")},
          "is 8 in scheduler_TP0-1, 1 in shell (SGLang's launcher: always 8"),
    fires("variables_arrived", workers(), "NCCL_NTHREADS=512 of the command did not reach scheduler_TP0-1",
          command=f"env NCCL_NTHREADS=512 {TP2}"),
    silent("variables_arrived", {**workers(), **env("NCCL_PROTO", *["LL"] * 4), **env("NCCL_CUMEM_ENABLE", None, "0",
           "0",
                                 "0"), **env("PS1", "$", None, None, None)}, "arrived; set on the way; of the shell"),
    silent("variables_arrived", {**workers(), **env("PYTHONPATH", "/a", "/b", "/b", "/b")}, "set for the server alone"),
    fires("variables_arrived", {**workers(), **env("PYTHONPATH", "/a", "/b", "/b", "/c")},
          "PYTHONPATH is /c in scheduler_TP1, /b in main"),
    silent("variables_arrived", {**workers(), **env("NCCL_PROTO", *["LL"] * 4)}, "of the command",
           f"NCCL_PROTO=LL {TP2}"),
    apart("variables_arrived", workers("shell", "client"), "no ranks"),
    fires("ranks_alike", {**workers(nice=(0, 0, 0, 10)), **libraries("nccl/0", "version", "2.27.5", "2.27.5")},
          "nice is 0 in scheduler_TP0, 10 in scheduler_TP1"),
    fires("ranks_alike", {**workers(), **libraries("nccl/0", "version", "2.27.5", "2.30.4")},
          "nccl/0 is 2.27.5 in scheduler_TP0, 2.30.4 in scheduler_TP1"),
    fires("ranks_alike", {**workers(), **env("NCCL_PROTO", None, None, "LL", None),
                          **libraries("nccl/0", "version", "2", "2")}, "NCCL_PROTO is LL in scheduler_TP0, unset in"),
    silent("ranks_alike", {**workers(cpus=("0-7", "0-7", "0-3", "4-7")), **libraries("nccl/0", "version", "2", "2"),
                           **env("RANK", None, None, "0", "1")}, "bound rank by rank on purpose"),
    warns("ranks_alike", {**workers(), **env("MY_PATCH", None, None, "1", "0"), **env("_PTR", None, None, "1", "2"),
                          **libraries("nccl/0", "version", "2", "2")}, "MY_PATCH is 1 in scheduler_TP0, 0 in"),
    apart("ranks_alike", workers("shell", "main", "scheduler"), "one rank"),
    fires("graphs_on", server(disable_cuda_graph=True), "without CUDA graphs", command=SGLANG),
    fires("graphs_on", server(cuda_graph_config__decode__backend="disabled"), "without CUDA graphs"),
    warns("graphs_on", server(disable_cuda_graph=True), "(by the command)", command=f"{SGLANG} --disable-cuda-graph"),
    fires("graphs_on", server(disable_cuda_graph=False, dp__graph_memory_bytes=0), "no CUDA graph was captured"),
    warns("graphs_on", server(dp__graph_batch_sizes=[1, 2, 32], dp__max_running_requests_count=48),
          "up to 48 requests run at once, graphs go up to 32"),
    silent("graphs_on", server(disable_cuda_graph=False, dp__graph_memory_bytes=9, dp__graph_batch_sizes=[1, 64],
                               dp__max_running_requests_count=48), "on"),
    apart("graphs_on", server(disable_cuda_graph=True, device="cpu"), "on the CPU"),
    apart("graphs_on", {}, "nobody asked"),
    fires("arguments_as_asked", server(attention_backend="triton", tp_size=2),
          "attention_backend is triton, the command asks for fa3", command=f"{TP2} --attention-backend fa3"),
    fires("arguments_as_asked", {**server(tp_size=2, page_size=1),
                                 "server[0].dp[0].runtime_argument[page_size]": 64},
          "page_size is 64 now, the command asks for 1", command=f"{TP2} --page-size 1"),
    fires("arguments_as_asked", server(model_path="other"), "model_path is other, the command asks for meta/model",
          command=SGLANG),
    fires("arguments_as_asked", {**workers(), **server(tp_size=4)}, "tp_size is 4, the command asks for 2"),
    silent("arguments_as_asked", server(tp_size=2, model_path="meta/model", attention_backend="fa3",
           enable_metrics=True,
                                        mem_fraction_static=0.8, kv_cache_dtype="fp8_e4m3", port=1),
           "as asked", f"{TP2} --attention-backend auto --enable-metrics --mem-fraction-static 0.80 --port 2"
                       " --kv-cache-dtype fp8_e4m3"),
    apart("arguments_as_asked", server(tp_size=2), "nobody knows the command"),
    fires("speculation_works", server(tp_size=1), "runs without speculation",
          command=f"{SGLANG} --speculative-algorithm EAGLE3"),
    fires("speculation_works", server(speculative_algorithm="EAGLE", dp__accept_length=1.0), "acceptance length 1.00"),
    silent("speculation_works", server(speculative_algorithm="EAGLE3", dp__accept_length=2.4), "accepted"),
    silent("speculation_works", server(speculative_algorithm="EAGLE3"), "nothing was served yet"),
    apart("speculation_works", server(tp_size=1), "none asked for", SGLANG),
    fires("libraries_as_installed", {**libraries("nccl/0", "version", "2.27.5", "2.27.5"),
                                     "library[nccl/0].version": "2.30.4"},
          "scheduler_TP0-1: nccl 2.27.5 is loaded, 2.30.4 is installed"),
    warns("libraries_as_installed", {**libraries("nccl/0", "version", "2", "2"), **libraries("nccl/1", "version", "3")},
          "scheduler_TP0: a second NCCL is loaded (3)"),
    fires("libraries_as_installed", {**libraries("nccl/0", "version", "2", "2"),
                                     **libraries("nccl/0", "replaced", False, True)}, "scheduler_TP1: nccl/0 was"),
    silent("libraries_as_installed", {**libraries("cudnn/0", "version", "9.10.2", "9.10.2"),
                                      "library[cudnn/0].version": "9.10.2.21"}, "the same, written longer"),
    fires("server_current", {**workers(started_seconds=1_000.0), "repo[sglang].found_by": ["editable:sglang"],
                             "repo[sglang].last_move.time": "2026-01-01T00:00:00+00:00"},
          "sglang was moved to another commit after the start of scheduler_TP0-1,main"),
    fires("server_current", workers(started_seconds=1.0, executable_replaced=(None, True, None, None)), "of main was"),
    silent("server_current", {**workers(started_seconds=1_000.0), "repo[notes].found_by": ["working_directory"],
                              "repo[notes].last_move.time": "2026-01-01T00:00:00+00:00"}, "nothing runs from it"),
    silent("server_current", {**workers(started_seconds=2e9), "repo[sglang].found_by": ["editable:sglang"],
                              "repo[sglang].last_move.time": "2026-01-01T00:00:00+00:00"}, "started later"),
    fires("nccl_job", {"nccl.ras.version": "2.28.9", "nccl.ras.missing_ranks_count": 1}, "1 ranks of the job do not"),
    fires("nccl_job", {"nccl.rank[0].version": "2.27.5", "nccl.rank[1].version": "2.28.9"}, "2.27.5 and 2.28.9"),
    warns("nccl_job", {"nccl.rank[0].version": "2", "nccl.rank[0].network": "Socket", "rdma.verbs_files_count": 4},
          "uses TCP sockets"),
    silent("nccl_job", {"nccl.rank[0].version": "2", "nccl.rank[0].network": "Socket"}, "no RDMA here"),
    apart("nccl_job", {}, "neither log nor service"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_an_environment_that_cannot_be_read_is_not_one_that_arrived() -> None:
    values = {**workers(), **env("NCCL_PROTO", "LL", "LL", "LL", None)}
    blind = {"worker[scheduler_TP1].env": Unavailable(Why.CLOBBERED, "zeroed")}
    values = {path: v for path, v in values.items() if not path.startswith("worker[scheduler_TP1].env[")}
    (finding,) = judge("variables_arrived", snapshot(values, blind))
    assert (finding.status, finding.required) == (Status.UNKNOWN, True)
    assert "worker[scheduler_TP1].env: unavailable (clobbered: zeroed)" in finding.title


def test_nothing_is_said_of_workers_that_nobody_named() -> None:
    made = snapshot(sections={"worker": ("unavailable", "off: name processes with --pid or --match")})
    (finding,) = judge("workers_found", made)
    assert finding.status is Status.NOT_APPLICABLE
