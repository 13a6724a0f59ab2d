"""Settings that act in several ways, of which a setting can close one."""

from __future__ import annotations

from envsnap.explain.harm import Towards
from envsnap.explain.setting import Setting
from tests.explain.test_harm import towards

ALONE, MANY = (Setting({}, {}, ranks, 1, False, True, True, 8) for ranks in (1, 8))


def test_threads_of_one_rank_are_not_harmless_since_several_ranks_would_share_cpus() -> None:
    variable = "worker[scheduler].env[OMP_NUM_THREADS]"
    assert towards(variable, "4", "1", ALONE) is Towards.SLOW
    assert towards(variable, "1", "4", ALONE) is Towards.FAST
    assert towards(variable, "4", None, MANY) is Towards.SLOW


def test_what_acts_between_ranks_alone_is_harmless_to_one() -> None:
    for name, before, after in (("NCCL_PROTO", "LL", "Simple"), ("NCCL_P2P_DISABLE", None, "1")):
        assert towards(f"worker[scheduler].env[{name}]", before, after, ALONE) is Towards.NEITHER
        assert towards(f"worker[scheduler].env[{name}]", before, after, MANY) is not Towards.NEITHER
