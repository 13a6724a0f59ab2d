"""Which value is the slow one."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from envsnap.collectors import keys
from envsnap.explain.harm import HARMLESS, Harm, Known, Towards, clearest, known, told_apart
from envsnap.explain.harm_tables import HARMS
from envsnap.explain.setting import Setting
from envsnap.reading import Json
from tests.explain.test_candidates import change

SETTING = Setting({}, {}, ranks=8, hosts=1, speculative=True, graphs=True, nvlink=True, gpus=8)


def towards(path: str, before: Json, after: Json, setting: Setting = SETTING, leaf: str = "") -> Towards:
    return known(change(path, before, after, leaf), setting).towards


@pytest.mark.parametrize(
    ("path", "fast", "slow"),
    [
        ("env[NCCL_P2P_DISABLE]", None, "1"),
        ("env[NCCL_P2P_DISABLE]", "0", "1"),
        ("worker[scheduler_TP0].env[NCCL_PROTO]", "LL", "Simple"),
        ("worker[scheduler_TP0].env[NCCL_MAX_NCHANNELS]", None, "2"),
        ("worker[scheduler_TP0].env[NCCL_MAX_NCHANNELS]", "16", "2"),
        ("env[PYTORCH_CUDA_ALLOC_CONF]", None, "expandable_segments:True,max_split_size_mb:512"),
        ("env[CUDA_LAUNCH_BLOCKING]", None, "1"),
        ("server[0].argument[disable_cuda_graph]", False, True),
        ("server[0].argument[parallel_config.disable_custom_all_reduce]", False, True),
        ("server[0].argument[cuda_graph_max_bs]", 64, 8),
        ("nccl.rank[0].transport[1]", ["P2P/CUMEM"], ["SHM/direct/direct"]),
        ("nccl.rank[0].transport[1]", ["P2P/CUMEM"], ["NET/Socket/0"]),
        ("pci[gpu0/up1].acs_enabled", [], ["request_redirect", "source_validation"]),
        ("pci[gpu0].iommu_type", "identity", "DMA-FQ"),
        ("kernel.parameter[isolcpus]", None, ["0-3"]),
        ("kernel.clock_source", "tsc", "hpet"),
        ("cpu.governor", "performance", "powersave"),
        ("gpu[0].nvlink_active_count", 18, 0),
        ("inherited.nice", 0, 10),
        ("during.gpu[0].foreign_processes", [], ["python"]),
        # words in order, from fast to slow
        ("server[0].argument[attention_backend]", "fa3", "triton"),
        ("server[0].argument[attention_config.backend]", "FLASH_ATTN", "XFORMERS"),
        ("server[0].argument[compilation_config.cudagraph_mode]", "FULL_AND_PIECEWISE", "NONE"),
        ("server[0].argument[quantization]", "awq_marlin", "awq"),
        ("worker[scheduler_TP0].env[LD_PRELOAD]", "/usr/lib/libjemalloc.so.2", None),
        ("storage[models].file_system", "ext4", "nfs4"),
        ("cpu.energy_preference", "performance", "balance_power"),
        ("memory.transparent_huge_pages", "madvise", "never"),
        # single instances
        ("nvidia.daemon[dcgm-exporter].running", False, True),
        ("nvidia.daemon[nv-fabricmanager].running", True, False),
    ],
)
def test_towards_the_slow_value_and_back(path: str, fast: Json, slow: Json) -> None:
    assert towards(path, fast, slow) is Towards.SLOW
    assert towards(path, slow, fast) is Towards.FAST


def test_fewer_adapters_are_named() -> None:
    several = Setting({}, {}, ranks=16, hosts=2, speculative=None, graphs=None, nvlink=None, gpus=8)
    assert towards("env[NCCL_IB_HCA]", "mlx5_0,mlx5_1", "mlx5_0", several) is Towards.SLOW
    assert towards("env[NCCL_IB_HCA]", "mlx5_0", "=mlx5_0,mlx5_1", several) is Towards.FAST
    assert towards("env[NCCL_IB_HCA]", "mlx5", "mlx5_0", several) is Towards.UNKNOWN  # a prefix names them all


def test_what_nobody_changes_who_wants_the_same_speed() -> None:
    assert towards("gpu[0].name", "NVIDIA H200", "NVIDIA H100") is Towards.SLOW
    assert towards("gpu[0].name", "NVIDIA H100", "NVIDIA H200") is Towards.SLOW
    assert towards("gpu[0].name", None, "NVIDIA H200") is Towards.UNKNOWN


def test_a_value_may_be_slow_for_one_term_alone() -> None:
    """A deeper draft makes a step longer, a shallower one has less to accept."""
    deeper = change("server[0].argument[speculative_num_steps]", 2, 7)
    assert known(deeper, SETTING, frozenset({"step"})).towards is Towards.SLOW
    assert known(deeper, SETTING, frozenset({"acceptance"})).towards is Towards.FAST


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("env[NCCL_DEBUG]", None, "WARN"),
        ("env[NCCL_DEBUG_FILE]", None, "/tmp/x"),
        ("env[TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC]", "600", "1800"),
        ("env[SGLANG_LOG_MS]", None, "1"),
        ("env[HF_HOME]", "/a", "/b"),
        ("server[0].argument[served_model_name]", "a", "b"),
        ("env[NCCL_IB_HCA]", None, "mlx5_0"),
        ("rdma[mlx5_0].firmware", "1", "2"),
        ("memory.swappiness", 60, 10),
    ],
)
def test_what_does_not_act_here(path: str, before: Json, after: Json) -> None:
    """The network's settings among them, where all ranks are on one machine."""
    assert towards(path, before, after) is Towards.NEITHER


def test_a_setting_of_the_network_matters_between_machines() -> None:
    several = Setting({}, {}, ranks=16, hosts=2, speculative=None, graphs=None, nvlink=None, gpus=8)
    assert towards("env[NCCL_IB_DISABLE]", None, "1", several) is Towards.SLOW
    assert towards("env[NCCL_IB_HCA]", None, "mlx5_0", several) is Towards.UNKNOWN


def test_what_acts_between_ranks_needs_more_than_one() -> None:
    one = Setting({}, {}, ranks=1, hosts=1, speculative=False, graphs=None, nvlink=None, gpus=1)
    assert towards("env[NCCL_P2P_DISABLE]", None, "1", one) is Towards.NEITHER
    assert towards("server[0].argument[speculative_num_steps]", 2, 3, one) is Towards.NEITHER


def test_by_name_alone_it_is_a_guess() -> None:
    found = known(change("env[SGLANG_DISABLE_SOMETHING_NEW]", None, "1"), SETTING)
    assert (found.towards, found.guessed) == (Towards.SLOW, True)
    assert towards("env[VLLM_USE_SOMETHING_NEW]", "1", "0") is Towards.SLOW
    assert towards("env[VLLM_USE_SOMETHING_NEW]", "0", "1") is Towards.FAST


def test_what_somebody_had_set_and_is_gone() -> None:
    assert towards("worker[scheduler_TP0].env[NCCL_ALGO]", "Tree", None) is Towards.SLOW
    assert towards("worker[scheduler_TP0].env[NCCL_P2P_DISABLE]", "1", None) is Towards.FAST
    assert towards("worker[scheduler_TP0].env[EDITOR]", "vi", None) is Towards.UNKNOWN


def test_of_several_the_most_telling_counts() -> None:
    severe, slow = Known(Towards.SLOW, severe=True), Known(Towards.SLOW)
    assert clearest([Known(Towards.FAST), slow, severe, Known(Towards.NEITHER)]) is severe
    assert clearest([Known(Towards.NEITHER), Known(Towards.UNKNOWN)]).towards is Towards.UNKNOWN
    assert clearest([]).towards is Towards.UNKNOWN


def test_law_every_entry_is_well_formed() -> None:
    known_keys = list(keys())
    for harm in HARMS:
        assert harm.says == "" or harm.says.endswith("."), harm
        assert harm.slow != HARMLESS or not harm.severe, harm
        for name in harm.names.split():
            if "." not in name or name.startswith("--"):
                continue
            pattern = re.sub(r"\[[^\]]*\]", "[]", name)
            found = [k for k in known_keys if fnmatchcase(k.replace("[", "("), pattern.replace("[", "("))]
            assert found, f"no key is called {name}"
        if harm.makes:
            assert 1 <= harm.makes[0] <= harm.makes[1], harm


def test_what_is_unset_is_not_anything() -> None:
    assert towards("worker[scheduler_TP0].env[NCCL_TOPO_FILE]", "/etc/topo.xml", None) is Towards.SLOW
    assert towards("server[0].argument[speculative_draft_model_path]", "/models/draft", None) is Towards.SLOW
    assert towards("env[VLLM_USE_BREAKABLE_CUDAGRAPH]", "1", "0") is Towards.SLOW
    assert towards("worker[scheduler_TP0].env[LD_PRELOAD]", "libtcmalloc.so", "libother.so") is Towards.SLOW
    assert towards("container.kind", "none", None) is Towards.UNKNOWN


_SAMPLES: dict[str, tuple[Json, Json]] = {
    "<": (40, 10), ">": (10, 40), "limit": (40, 10),
    "fewer": ("a_0,a_1", "a_0"), "any": (None, "1"), "other": ("a", "b"),
}  # fmt: skip


def _sample(word: str) -> Json:
    return None if word == "unset" else word.replace("*", "x1")


@pytest.mark.parametrize("harm", [h for h in HARMS if h.slow not in ("", HARMLESS)], ids=lambda h: h.names[:40])
def test_law_every_line_tells_its_values_apart(harm: Harm) -> None:
    """Each word from that of every group to its right; where there is no order, each word from a value that is none."""
    places = [group.split() for group in harm.slow.split(" > ")]
    pairs = [(_sample(x), _sample(y)) for i, g in enumerate(places) for h in places[i + 1 :] for x in g for y in h]
    if harm.slow in _SAMPLES:
        pairs = [_SAMPLES[harm.slow]]
    elif len(places) == 1:
        pairs = [("other than these", _sample(word)) for word in places[0]]
    for before, after in pairs:
        moved = change("env[X]", before, after)
        assert told_apart(harm, moved.before, moved.after).towards is Towards.SLOW, (before, after)


def test_a_limit_that_the_requests_do_not_reach() -> None:
    few, many = (Setting({}, {}, 8, 1, True, True, True, 8, concurrency=n) for n in (2, 64))
    limit, share = "server[0].argument[max_running_requests]", "server[0].argument[mem_fraction_static]"
    assert towards(limit, 64, 32, few) is Towards.NEITHER
    assert towards(limit, 64, 32, many) is Towards.SLOW
    assert towards(limit, 64, 1, few) is Towards.SLOW
    assert towards(share, 0.9, 0.8, few) is Towards.NEITHER
    assert towards(share, 0.9, 0.8, many) is Towards.SLOW
    assert towards(limit, 64, 32) is Towards.SLOW  # where nobody recorded how many there were


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", 10**400, [float("inf"), 1.0], [10**400, 2], {"a": 1}, "", None])
def test_what_is_no_number_has_no_direction_by_its_size(odd: Json) -> None:
    for pair in ((odd, 8), (8, odd)):
        found = known(change("cgroup.cpu_weight", *pair), SETTING)
        assert found.makes is None or found.makes[1] < float("inf")
