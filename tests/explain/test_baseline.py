"""How far the fast side can be trusted, and what is the same on both sides."""

from __future__ import annotations

from dataclasses import replace

from envsnap.explain import Explanation, Side, explain
from envsnap.explain.sameness import the_same
from envsnap.explain.story import Facts
from envsnap.reading import Json
from tests.explain.pairs import SERVER, run, snapshot


def measured(values: dict[str, Json], group: str, at: str, speed: float, count: int = 1) -> Side:
    return Side.of_runs([run(values, group, i, at=at, stream_tokens_per_second=speed) for i in range(count)], group)


def said(fast: Side, slow: Side, *history: Side) -> str:
    found: Explanation = explain(fast, slow, history=history)
    return " ".join(found.contamination)


FULL: dict[str, Json] = {**SERVER, "nvml.driver_version": "590", "repo[sglang].head": "a" * 40, "env[PATH]": "/bin",
                         "package[torch].version": "2.8"}  # fmt: skip
VARIABLE = "worker[scheduler_TP0].env[NCCL_ALGO]"


def test_variables_that_nobody_exports_today() -> None:
    fast = measured({**FULL, VARIABLE: "Ring"}, "a", "2026-01-01T00:00:00+00:00", 94.0)
    slow = measured(FULL, "b", "2026-01-01T01:00:00+00:00", 60.0)
    assert "had a variable that nobody exports today: NCCL_ALGO" in said(fast, slow)
    exported = measured({**FULL, "env[NCCL_ALGO]": "Ring"}, "b", "2026-01-01T01:00:00+00:00", 60.0)
    assert "nobody exports" not in said(fast, exported)


def test_what_only_the_slow_side_recorded() -> None:
    fast = measured(SERVER, "a", "2026-01-01T00:00:00+00:00", 94.0)
    slow = measured(FULL, "b", "2026-01-01T01:00:00+00:00", 60.0)
    assert "record lacks the driver, the code and packages, which the slow side's holds" in said(fast, slow)
    assert "record lacks" not in said(measured(FULL, "a", "2026-01-01T00:00:00+00:00", 94.0), slow)


def test_age_and_repetition() -> None:
    fast = measured(FULL, "a", "2026-01-01T00:00:00+00:00", 94.0)
    old = said(fast, measured(FULL, "b", "2026-01-10T00:00:00+00:00", 60.0))
    assert "9 days before" in old
    assert "Both sides were measured once." in old
    assert "once" not in said(measured(FULL, "a", "2026-01-01T00:00:00+00:00", 94.0, 3),
                              measured(FULL, "b", "2026-01-01T01:00:00+00:00", 60.0, 3))  # fmt: skip


def test_whether_it_was_ever_reproduced() -> None:
    fast = measured(FULL, "a", "2026-01-02T00:00:00+00:00", 94.0)
    slow = measured({**FULL, "nvml.driver_version": "580"}, "b", "2026-01-03T00:00:00+00:00", 60.0)
    again = measured(FULL, "c", "2026-01-01T00:00:00+00:00", 93.5)
    never = measured(FULL, "d", "2026-01-01T00:00:00+00:00", 61.0)
    assert "nothing shows that its speed comes back" in said(fast, slow)
    assert "Of 1 other session of the fast side's configuration, 1 came out as fast." in said(fast, slow, again)
    assert "Of 2 other sessions of the fast side's configuration, 1 came out as fast." in said(fast, slow, again, never)


def test_warnings_of_the_fast_side_are_told() -> None:
    fast = measured(FULL, "a", "2026-01-02T00:00:00+00:00", 94.0)
    hits = replace(fast, runs=tuple(replace(r, warnings=("3 requests failed",)) for r in fast.runs))
    assert "Of the fast side: 3 requests failed." in said(hits, measured(FULL, "b", "2026-01-02T00:00:00+00:00", 60.0))


# -- what is the same -----------------------------------------------------------------------------------------------


def same(a: dict[str, Json], b: dict[str, Json], moment: str = "during") -> dict[str, str]:
    found = the_same(Facts(Side(snapshot(a, moment))), Facts(Side(snapshot(b, moment))))
    return {r.title: r.reason for r in found}


def test_topics_with_their_values() -> None:
    state: dict[str, Json] = {
        "nvml.driver_version": "590.48.01",
        **{f"during.gpu[{i}].pcie_speed_median_gts": 32.0 for i in range(8)},
        **{f"during.gpu[{i}].pcie_width_median_lanes": 16 for i in range(8)},
        **{f"gpu[{i}].performance_state": 0 for i in range(8)},
        "server[0].argument[attention_backend]": "triton",
        "package[torch].version": "2.9.1",
    }
    assert same(state, state) == {
        "NVIDIA driver": "the same: 590.48.01",
        "PCIe links": "the same under load: 32.0 GT/s × 16 lanes on 8 GPUs",
        "P-states": "the same under load: P0 on 8 GPUs",
        "attention backend": "the same: triton",
        "torch": "the same: 2.9.1",
    }


def test_what_differs_or_is_known_of_one_side_alone_is_not_the_same() -> None:
    state: dict[str, Json] = {f"gpu[{i}].power_limit_watts": 600.0 for i in range(2)}
    assert same(state, {**state, "gpu[1].power_limit_watts": 500.0}) == {}
    assert same(state, {"gpu[0].power_limit_watts": 600.0}) == {}
    assert same(state, {}) == {}


def test_a_figure_within_its_tolerance_is_the_same() -> None:
    clock = "during.gpu[0].sm_clock_median_mhz"
    assert list(same({clock: 1980.0}, {clock: 1965.0})) == ["SM clocks"]
    assert same({clock: 1980.0}, {clock: 1800.0}) == {}


def test_an_idle_link_is_not_compared() -> None:
    state: dict[str, Json] = {"gpu[0].pcie_generation": 5, "gpu[0].pcie_width_lanes": 16}
    assert same(state, state, moment="before") == {"PCIe links": "the same: 16 lanes"}
