"""What was effective: what reached the workers, as resolved, as mapped, under load."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from envsnap.explain import Side
from envsnap.explain.effective import Effective, effective
from envsnap.explain.story import Facts
from envsnap.reading import Json, Unset, Value
from tests.explain.pairs import snapshot

RANK = {"worker[scheduler_TP0].env[PATH]": "/bin", "worker[scheduler_TP0].argv": ["python"]}


def compared(fast: Mapping[str, Json], slow: Mapping[str, Json], moment: str = "before") -> Effective:
    return effective(Facts(Side(snapshot(fast, moment))), Facts(Side(snapshot(slow, moment))))


def paths(found: Effective) -> list[str]:
    return [c.path + c.leaf for c in found.changes]


def test_a_variable_of_the_shell_alone_is_ruled_out() -> None:
    found = compared({**RANK, "env[NCCL_ALGO]": "Ring"}, {**RANK, "env[NCCL_ALGO]": "Tree"})
    assert paths(found) == []
    [reason] = found.ruled_out
    assert reason.title == "1 variable of the shell (NCCL_ALGO)"
    assert "every worker has the same value as before" in reason.reason


def test_a_variable_that_reached_a_rank_counts_wherever_it_stands() -> None:
    rank = "worker[scheduler_TP0].env[NCCL_ALGO]"
    found = compared({**RANK, "env[NCCL_ALGO]": "Ring", rank: "Ring"}, {**RANK, "env[NCCL_ALGO]": "Tree", rank: "Tree"})
    assert set(paths(found)) == {"env[NCCL_ALGO]", rank}


def test_without_any_worker_the_shell_is_what_is_known() -> None:
    assert paths(compared({"env[NCCL_ALGO]": "Ring"}, {"env[NCCL_ALGO]": "Tree"})) == ["env[NCCL_ALGO]"]


def test_a_variable_of_the_client_reaches_no_worker() -> None:
    path = "worker[client].env[NCCL_ALGO]"
    assert paths(compared({**RANK, path: "Ring"}, {**RANK, path: "Tree"})) == []


VARIABLE = "worker[scheduler_TP0].env"


@pytest.mark.parametrize(
    ("name", "value", "equal"),
    [
        ("NCCL_IB_RETRY_CNT", "7", True),
        ("NCCL_IB_RETRY_CNT", "10", False),
        ("NCCL_P2P_DISABLE", "0", True),
        ("NCCL_P2P_DISABLE", "1", False),
        ("SGLANG_ENABLE_JIT_DEEPGEMM", "True", True),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "8", True),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "1", False),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "0", False),  # it acts by being set at all
        ("NCCL_ALGO", "Ring", False),
    ],
)
def test_a_variable_that_is_not_set_stands_for_its_documented_default(name: str, value: str, equal: bool) -> None:
    for fast, slow in (({f"{VARIABLE}[{name}]": value}, {}), ({}, {f"{VARIABLE}[{name}]": value})):
        found = compared({**RANK, **fast}, {**RANK, **slow})
        assert paths(found) == ([] if equal else [f"{VARIABLE}[{name}]"])
        assert [r.title for r in found.ruled_out] == ([name] if equal else [])


def test_the_reason_names_the_default() -> None:
    [said] = compared({**RANK, f"{VARIABLE}[NCCL_CROSS_NIC]": "2"}, RANK).ruled_out
    assert said.reason == "unset stands for 2, its documented default, which the other side has"


def test_a_file_of_nccl_stands_in_for_a_variable_that_is_not_set() -> None:
    path = f"{VARIABLE}[NCCL_IB_RETRY_CNT]"
    found = compared({**RANK, path: "7"}, {**RANK, "nccl.conf[user].set[NCCL_IB_RETRY_CNT]": "3"})
    assert path in paths(found)


def test_an_option_that_is_typed_as_its_default_changes_nothing() -> None:
    typed = "server[0].launch_command"
    found = compared({typed: ["serve", "--schedule-policy", "fcfs"]}, {typed: ["serve", "--page-size", "16"]})
    assert paths(found) == [f"{typed}[--page_size]"]
    assert [r.title for r in found.ruled_out] == ["--schedule-policy"]


def test_arguments_as_resolved() -> None:
    argument = "server[0].argument[attention_backend]"
    typed = "server[0].launch_command"
    found = compared(
        {argument: "fa3", typed: ["--attention-backend", "fa3"]},
        {argument: "fa3", typed: ["--attention-backend", "auto"]},
    )
    assert paths(found) == []
    assert [(r.title, r.reason) for r in found.ruled_out] == [
        ("--attention-backend", "typed differently, resolved to the same")
    ]
    assert paths(compared({argument: "fa3", typed: ["x"]}, {argument: "triton", typed: ["y"]})) == [argument]


def test_options_of_a_command_line_where_nobody_resolved_them() -> None:
    path = "worker[main].argv"
    found = compared(
        {path: ["serve", "--tp", "8", "--port", "1"]}, {path: ["serve", "--tp-size=4", "--port", "1", "--xyz"]}
    )
    by_leaf = {c.leaf: (c.before, c.after) for c in found.changes}
    assert by_leaf == {"[--tp_size]": (Value("8"), Value("4")), "[--xyz]": (Unset(), Value(True))}
    [size] = [c for c in found.changes if c.leaf == "[--tp_size]"]
    assert size.key.prior == 0.7  # that of the argument, not of a command line


def test_an_installed_library_that_no_worker_maps_is_ruled_out() -> None:
    mapped = {"worker[scheduler_TP0].library[nccl/0].version": "2.27.5"}
    package = "package[nvidia-nccl-cu12].version"
    found = compared({**mapped, package: "2.27.5"}, {**mapped, package: "2.26.2"})
    assert paths(found) == []
    assert [r.title for r in found.ruled_out] == ["installed nccl"]
    other = {"worker[scheduler_TP0].library[nccl/0].version": "2.26.2"}
    assert package in paths(compared({**mapped, package: "2.27.5"}, {**other, package: "2.26.2"}))


def test_a_repository_with_the_same_files_is_ruled_out() -> None:
    same = {"repo[sglang].tree_id": "a" * 40}
    found = compared({**same, "repo[sglang].branch": "main"}, {**same, "repo[sglang].branch": "fix"})
    assert paths(found) == []
    assert [(r.title, r.reason) for r in found.ruled_out] == [("repository sglang (branch)", "its files are the same")]


def test_an_idle_clock_says_nothing_beside_one_under_load() -> None:
    idle, load = "gpu[0].sm_clock_mhz", "during.gpu[0].sm_clock_median_mhz"
    found = compared({idle: 345, load: 1980.0}, {idle: 1980, load: 1980.0}, moment="during")
    assert paths(found) == []
    assert paths(compared({idle: 345}, {idle: 1980}, moment="during")) == [idle]


def test_figures_are_what_a_cause_shows_in() -> None:
    power = "during.gpu[0].power_median_watts"
    found = compared({power: 500.0}, {power: 300.0}, moment="during")
    assert (paths(found), [c.path for c in found.shown]) == ([], [power])


def test_counters_count_over_a_run_alone() -> None:
    replays = "during.gpu[0].pcie_replay_count"
    assert paths(compared({replays: 0}, {replays: 900})) == [replays]
    assert paths(compared({"gpu[0].pcie_replay_count": 0}, {"gpu[0].pcie_replay_count": 900})) == []
