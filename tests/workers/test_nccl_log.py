"""NCCL's own word, from a log of a real two-rank all-reduce on two H200 GPUs."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from envsnap.workers.nccl_log import parse

DATA = Path(__file__).parents[1] / "data" / "h200x2"


def _lines() -> list[str]:
    return [line for rank in (0, 1) for line in (DATA / f"nccl.rank{rank}.log").read_text().splitlines()]


def test_a_real_log_of_two_ranks() -> None:
    log = parse(_lines())
    assert sorted(log.ranks) == [0, 1]
    rank = log.ranks[0]
    assert rank.version == "2.28.9+cuda13.0"
    assert rank.cuda_driver == 13000
    assert rank.ranks == 2
    assert rank.network == "Socket"
    assert rank.set_by_environment == {"NCCL_NVLS_ENABLE": "0", "NCCL_PROTO": "Simple"}
    assert rank.transports == {1: {"P2P/CUMEM"}}
    assert log.ranks[1].transports == {0: {"P2P/CUMEM"}}
    assert rank.channels == {"collective": 24, "collnet": 24, "nvls": 0, "p2p": 32}
    assert rank.protocols["AllReduce"] == ["Simple"]
    assert "Ring" in rank.algorithms["AllReduce"]
    assert len(rank.algorithms) == 5
    assert rank.gpu_direct_rdma is True
    assert rank.all_direct_p2p is True
    assert rank.plugins == set()
    assert log.other_lines == 0


def test_ranks_mixed_in_one_file_are_told_apart_by_process() -> None:
    first, second = ((DATA / f"nccl.rank{r}.log").read_text().splitlines() for r in (0, 1))
    heads = [line for line in first if "NCCL INFO" in line], [line for line in second if "NCCL INFO" in line]
    mixed = [line for pair in zip(*heads) for line in pair]
    log = parse(mixed)
    assert log.ranks[0].transports == {1: {"P2P/CUMEM"}}
    assert log.ranks[1].set_by_environment["NCCL_PROTO"] == "Simple"


def test_other_lines_are_counted_and_change_nothing() -> None:
    log = parse([*_lines(), "[2026-11-01 10:00:00 TP0] Decode batch, #running-req: 1", "garbage"])
    assert log.other_lines == 2
    assert log.ranks[0].version == "2.28.9+cuda13.0"


def test_the_largest_communicator_counts() -> None:
    lines = [
        "h:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 3 nranks 8 cudaDev 3 - Init COMPLETE",
        "h:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x2 rank 0 nranks 1 cudaDev 3 - Init COMPLETE",
    ]
    assert list(parse(lines).ranks) == [3]


def test_cut_and_mangled_logs() -> None:
    lines = _lines()
    whole = parse(lines).ranks[0]
    for end in range(0, len(lines), 7):
        rank = parse(lines[:end]).ranks.get(0)
        assert rank is None or rank.version in ("", whole.version)
        assert rank is None or all(names == whole.protocols[f] for f, names in rank.protocols.items())


@given(st.lists(st.text(max_size=80) | st.sampled_from(_lines()), max_size=30))
def test_never_raises(lines: list[str]) -> None:
    log = parse(lines)
    assert log.nccl_lines + log.other_lines <= len(lines)
