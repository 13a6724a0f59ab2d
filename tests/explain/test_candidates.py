"""Bundles: what moved together is one suspect, with a stable id."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain import Side, Symptom
from envsnap.explain.candidates import Candidate, gather
from envsnap.explain.homes import home_of
from envsnap.explain.story import Facts, View
from envsnap.keys import Effect
from envsnap.reading import Json, Unset, Value
from tests.explain.pairs import snapshot


def change(path: str, before: Json = "a", after: Json = "b", leaf: str = "") -> Change:
    readings = [Unset() if value is None else Value(value) for value in (before, after)]
    return Change(path, key_for(path), readings[0], readings[1], leaf)


def bundles(pairs: Mapping[str, tuple[Json, Json]]) -> dict[str, Candidate]:
    return {c.id: c for c in gather([change(path, *pair) for path, pair in pairs.items()])}


@pytest.mark.parametrize(
    ("path", "home"),
    [
        ("repo[sglang].head", "git:sglang"),
        ("repo[sglang].changed[a.py].blob", "git:sglang"),
        ("env[NCCL_PROTO]", "env:NCCL_PROTO"),
        ("worker[scheduler_TP3].env[NCCL_PROTO]", "env:NCCL_PROTO"),
        ("record[scheduler_TP3].env[NCCL_PROTO]", "env:NCCL_PROTO"),
        ("nccl.conf[system].set[NCCL_PROTO]", "env:NCCL_PROTO"),
        ("server[0].argument[attention_backend]", "argument:attention_backend"),
        ("server[0].dp[0].runtime_argument[attention_backend]", "argument:attention_backend"),
        ("server[0].argument[cuda_graph_max_bs]", "argument:cuda_graph"),
        ("server[0].dp[0].graph_batch_sizes", "argument:cuda_graph"),
        ("nvml.driver_version", "driver"),
        ("nvidia.module_version", "driver"),
        ("worker[scheduler_TP0].library[cuda_driver/0].version", "driver"),
        ("worker[scheduler_TP0].library[nccl/0].version", "library:nccl"),
        ("package[nvidia-nccl-cu12].record_sha256", "library:nccl"),
        ("package[torch].version", "package:torch"),
        ("record[scheduler_TP0].torch.version", "package:torch"),
        ("gpu[3].power_limit_watts", "power_limit"),
        ("gpu[3].ecc_mode", "gpu[].ecc_mode"),
        ("kernel.parameter[isolcpus]", "boot:isolcpus"),
        ("limits.memlock_soft_bytes", "limits:memlock"),
        ("worker[scheduler_TP0].memlock_soft_bytes", "limits:memlock"),
        ("during.gpu[0].sm_clock_p5_mhz", "load:clocks"),
        ("during.gpu[0].pcie_width_median_lanes", "pcie"),
        ("during.worker[scheduler_TP0].run_delay_median_percent", "load:cpu"),
        ("model[draft].index_sha256", "model:draft"),
        ("cache[triton].warm", "cache:triton"),
        ("memory.swappiness", "memory.swappiness"),
        ("numa.nodes", "numa:layout"),
        ("pci[gpu0].numa_node", "numa:layout"),
        ("during.gpu[0].pcie_replay_count", "link_errors"),
        ("gpu[0].nvlink[3].replay_error_count", "link_errors"),
        ("gpu[0].nvlink[3].active", "nvlink"),
        ("gpu[0].ecc_uncorrected_volatile_count", "memory_errors"),
        ("kernel_log.xid_count[79]", "faults"),
    ],
)
def test_homes(path: str, home: str) -> None:
    assert home_of(change(path)) == home


def test_an_option_of_a_command_line_has_the_home_of_its_argument() -> None:
    assert home_of(change("worker[main].argv", leaf="[--attention_backend]")) == "argument:attention_backend"


def test_one_variable_over_all_ranks_is_one_suspect() -> None:
    found = bundles({f"worker[scheduler_TP{i}].env[NCCL_PROTO]": ("LL", "Simple") for i in range(8)})
    assert [len(c.changes) for c in found.values()] == [8]
    assert found["env:NCCL_PROTO"].title == "variable NCCL_PROTO"


def test_what_could_not_have_acted_is_not_lost_with_what_could() -> None:
    names = ("NCCL_PROTO", "NCCL_ALGO", "NCCL_IB_TIMEOUT", "NCCL_IB_HCA")
    changes = [change(f"worker[scheduler_TP0].env[{name}]", "1", None) for name in names]
    one_host = Facts(Side(snapshot({"server[0].argument[tp_size]": 8, "server[0].argument[nnodes]": 1})))
    setting = View(one_host, one_host, changes, Symptom()).setting
    found = {c.id: c for c in gather(changes, setting)}
    assert set(found) == {"lost:NCCL", "env:NCCL_IB_TIMEOUT", "env:NCCL_IB_HCA"}
    assert found["lost:NCCL"].title == "NCCL variables that the workers no longer have: NCCL_ALGO,NCCL_PROTO"
    [alone] = [c for c in gather([changes[0], changes[2]], setting) if "PROTO" in c.id]
    assert alone.id == "env:NCCL_PROTO"


def test_variables_of_a_family_that_are_all_gone_went_together() -> None:
    gone = {f"worker[scheduler_TP{i}].env[{n}]": ("1", None) for i in range(2) for n in ("NCCL_PROTO", "NCCL_ALGO")}
    found = bundles({**gone, "worker[scheduler_TP0].env[NCCL_NTHREADS]": ("256", "512")})
    assert set(found) == {"lost:NCCL", "env:NCCL_NTHREADS"}
    assert len(found["lost:NCCL"].changes) == 4
    assert "NCCL_ALGO" in found["lost:NCCL"].title


def test_torch_brings_along_what_it_requires() -> None:
    pairs = {
        "package[torch].version": ("2.8.0", "2.9.0"),
        "package[nvidia-nccl-cu12].version": ("2.27.3", "2.27.5"),
        "package[triton].version": ("3.4.0", "3.5.0"),
    }
    assert set(bundles(pairs)) == {"package:torch"}
    torch = bundles(pairs)["package:torch"]
    assert torch.principal.path == "package[torch].version"
    assert torch.effects[0] is not Effect.COMMUNICATION  # torch's effects, not those of its NCCL
    alone = {path: pair for path, pair in pairs.items() if "torch" not in path}
    assert set(bundles(alone)) == {"library:nccl", "package:triton"}


def test_a_library_that_is_mapped_from_elsewhere_did_not_come_with_torch() -> None:
    pairs = {"package[torch].version": ("2.8.0", "2.9.0"),
             "worker[scheduler_TP0].library[nccl/0].version": ("2.27.3", "2.18.1")}  # fmt: skip
    assert set(bundles(pairs)) == {"package:torch", "library:nccl"}


def test_packages_of_little_weight_are_one_suspect() -> None:
    names = ("requests", "rich", "certifi", "idna")
    found = bundles({**{f"package[{n}].version": ("1", "2") for n in names}, "package[triton].version": ("3.4", "3.5")})
    assert set(found) == {"packages", "package:triton"}
    assert found["packages"].title == "4 other packages (certifi, idna, requests, … 1 more)"


def test_a_package_from_a_repository_changes_with_it() -> None:
    pairs = {"repo[sglang].head": ("a" * 40, "b" * 40), "package[sglang].version": ("0.5.1", "0.5.2")}
    assert set(bundles(pairs)) == {"git:sglang"}


def test_a_model_that_an_argument_names_comes_and_goes_with_it() -> None:
    argument = "server[0].argument[speculative_draft_model_path]"
    came = {"model[head-2].config": (None, {"a": 1}), "model[head-2].path": (None, "/m/head-2")}
    went = {"model[head-1].config": ({"a": 0}, None), "model[head-1].path": ("/m/head-1", None)}
    found = bundles({argument: ("/m/head-1", "/m/head-2/"), **came, **went})
    assert set(found) == {"argument:speculative_draft_model_path"}
    assert found["argument:speculative_draft_model_path"].principal.path == argument
    assert set(bundles({argument: ("/m/other", "/m/head-2"), **came, **went})) == {
        "argument:speculative_draft_model_path",
        "model:head-1",
    }


def test_a_models_revision_moves_with_the_argument_that_asks_for_it() -> None:
    pairs = {"model[org/a].revision": ("a" * 40, "b" * 40), "model[org/a].weights_bytes": (1, 2)}
    asked = {"server[0].argument[revision]": (None, "b" * 40)}
    assert set(bundles({**pairs, **asked})) == {"argument:revision"}
    other = {"server[0].argument[revision]": (None, "c" * 40)}
    assert set(bundles({**pairs, **other})) == {"argument:revision", "model:org/a"}
    renamed = {"server[0].argument[served_model_name]": ("x", "org/a")}
    assert set(bundles({**pairs, **renamed})) == {"argument:served_model_name", "model:org/a"}


def test_what_is_named_after_the_model_is_named_otherwise_with_it() -> None:
    paths = [f"server[0].argument[{name}]" for name in ("model_path", "served_model_name", "tokenizer_path")]
    assert set(bundles(dict.fromkeys(paths, ("/m/a", "/m/b")))) == {"argument:model_path"}
    given = {**dict.fromkeys(paths[:2], ("/m/a", "/m/b")), paths[2]: ("/m/a", "/m/t")}
    assert set(bundles(given)) == {"argument:model_path", "argument:tokenizer_path"}


def test_a_limit_and_what_it_did_are_one_suspect() -> None:
    pairs = {"gpu[0].power_limit_watts": (700.0, 300.0), "during.gpu[0].sm_clock_median_mhz": (1980.0, 1200.0)}
    assert set(bundles(pairs)) == {"power_limit"}
    assert set(bundles({"during.gpu[0].sm_clock_median_mhz": (1980.0, 1200.0)})) == {"load:clocks"}


def test_every_change_is_in_exactly_one_bundle() -> None:
    pairs = {"repo[sglang].head": ("a", "b"), "env[NCCL_PROTO]": ("a", "b"), "gpu[0].name": ("a", "b"),
             "memory.swappiness": (1, 2), "package[rich].version": ("1", "2")}  # fmt: skip
    found = bundles(pairs)
    assert sorted(c.path for each in found.values() for c in each.changes) == sorted(pairs)


def test_what_a_variable_sets_is_not_called_by_it_where_that_alone_changed() -> None:
    threads = change("record[scheduler_TP0].torch.num_threads", 1, 32)
    [alone] = gather([threads])
    assert "OMP_NUM_THREADS" not in alone.title
    assert "num_threads" in alone.title
    [both] = gather([threads, change("worker[scheduler_TP0].env[OMP_NUM_THREADS]", "1", None)])
    assert both.title == "variable OMP_NUM_THREADS"


def test_of_what_is_drafted_all_numbers_are_one() -> None:
    [found] = gather([change("server[0].argument[speculative_num_steps]", 2, 7),
                      change("server[0].argument[speculative_num_draft_tokens]", 3, 8)])  # fmt: skip
    assert (found.id, found.title) == ("argument:speculative_tree", "how much is drafted in a step")
