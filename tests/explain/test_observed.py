"""What is only observed is not named where the one setting changed that brings it about."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from envsnap.explain import Side, Suspect, explain
from envsnap.reading import Json
from tests.explain.pairs import run

BASE: Mapping[str, Json] = {"server[0].argument[tp_size]": 1, "worker[scheduler].env[PATH]": "/usr/bin"}
MEMORY = "server[0].argument[mem_fraction_static]"
RETRACTED = "during.server.retraction_count"


def suspects(fast: Mapping[str, Json], slow: Mapping[str, Json]) -> dict[str, Suspect]:
    sides = []
    for arm, values, seconds in (("a", fast, 0.010), ("b", slow, 0.015)):
        times = (seconds, seconds * 1.01, seconds * 0.99)
        sides.append([run({**BASE, **values}, "s", i, arm=arm, step_seconds=t) for i, t in enumerate(times)])
    return {s.id: s for s in explain(*map(Side.of_runs, sides)).suspects}


def test_requests_are_put_back_since_there_is_less_memory() -> None:
    found = suspects({MEMORY: 0.88, RETRACTED: 0}, {MEMORY: 0.7, RETRACTED: 120})
    assert RETRACTED not in found
    memory = found["argument:mem_fraction_static"]
    assert {c.path for c in memory.changes} == {MEMORY, RETRACTED}
    assert memory.probability == max(s.probability for s in found.values())
    assert memory.next, "it can be tried"


@pytest.mark.parametrize(
    "other",
    [{}, {"server[0].argument[page_size]": (1, 64)}],
    ids=["nothing that sets it changed", "two settings that could have"],
)
def test_it_stands_by_itself_where_no_one_setting_is_known_to_be_it(other: Mapping[str, tuple[Json, Json]]) -> None:
    pairs = {**other, **({MEMORY: (0.88, 0.7)} if other else {}), RETRACTED: (0, 120)}
    found = suspects(*({p: v[side] for p, v in pairs.items()} for side in (0, 1)))
    assert RETRACTED in found


def test_a_quota_that_is_used_up_is_the_threads_and_a_changed_quota_is_itself() -> None:
    limited = {"cgroup.cpu_limited": True, "cgroup.cpu_quota_cpus": 16.0}
    threads, counter = "worker[scheduler].env[OMP_NUM_THREADS]", "cgroup.cpu_throttled_count"
    fast, slow = ({**limited, threads: n, counter: stopped} for n, stopped in (("4", 10), ("64", 90_000)))
    found = suspects(fast, slow)
    assert "cgroup:cpu" not in found
    assert counter in {c.path for c in found["env:OMP_NUM_THREADS"].changes}
    assert "cgroup:cpu" in suspects(fast, {**slow, "cgroup.cpu_quota_cpus": 4.0})
