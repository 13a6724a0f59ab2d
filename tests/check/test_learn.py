from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from envsnap.capture import capture
from envsnap.check import Status
from envsnap.check.learn import policy_from
from envsnap.check.policy_file import load
from envsnap.check.requirements import judge
from envsnap.check.toml import inline
from envsnap.check.wanted import Wanted
from envsnap.collectors import keys, names, section_of
from envsnap.keys import Kind, Type, path_of
from envsnap.snapshot import Snapshot
from tests.check.made import TODAY, gpus, snapshot
from tests.fakes import FakeHost
from tests.nvml_fixture import replies


def lines(*snapshots: Snapshot, prior: float = 0.3) -> list[str]:
    """The requirements of the policy made from snapshots."""
    return [line for line in policy_from(snapshots, prior).splitlines() if line.startswith('"')]


def passes(folder: Path, text: str, *snapshots: Snapshot) -> None:
    (folder / "p.toml").write_text(text, encoding="utf-8")
    policy = load(folder / "p.toml")
    for made in snapshots:
        found = judge(made, policy.requirements, Wanted(), None, TODAY)
        assert {f.status for f in found} <= {Status.PASS}, [f.title for f in found]


def test_what_agrees_is_required_once_for_all_gpus() -> None:
    made = snapshot(gpus(2, power_limit_watts=700.0, max_sm_clock_mhz=1980, uuid=("a", "b"), sm_clock_mhz=345))
    assert lines(made, prior=0.2) == [
        '"gpu[].name" = "NVIDIA H200"',
        '"nvml.gpu_count" = 2',
        '"gpu[].max_sm_clock_mhz" = { equals = 1980, severity = "warning" }',
        '"gpu[].power_limit_watts" = { equals = 700.0, severity = "warning" }',
    ]


def test_gpus_that_differ_are_required_one_by_one() -> None:
    assert [x for x in lines(snapshot(gpus(2, name=("A", "B")))) if "name" in x] == [
        '"gpu[0].name" = "A"', '"gpu[1].name" = "B"',
    ]  # fmt: skip


def test_what_varies_between_snapshots_is_not_required_and_numbers_that_vary_a_little_are_a_range() -> None:
    one = snapshot({"nvml.driver_version": "580.1", "cpu.model": "X", "gpu[0].enforced_power_limit_watts": 690.0})
    two = snapshot({"nvml.driver_version": "580.2", "cpu.model": "X", "gpu[0].enforced_power_limit_watts": 700.0})
    three = snapshot({"cpu.model": "X", "gpu[0].enforced_power_limit_watts": 400.0, "gpu[0].name": "G"})
    assert lines(one, two) == [
        '"cpu.model" = { equals = "X", severity = "warning" }',
        '"gpu[0].enforced_power_limit_watts" = { range = [685.0, 705.0], severity = "warning" }',
    ]
    assert lines(one, three) == ['"cpu.model" = { equals = "X", severity = "warning" }']


def test_noise_labels_secrets_and_long_texts_stay_out() -> None:
    made = snapshot(
        {
            "env[PWD]": "/home/me", "env[LS_COLORS]": "x", "env[HF_TOKEN]": "<redacted k=1a2b3c4d h=9f86d081884c7d65>",
            "env[NCCL_ALGO]": "Ring", "repo[x].patch": "diff", "repo[x].changed[a.py].blob": "f00",
            "env[LD_LIBRARY_PATH]": "/lib:" * 200, "gpu[0].serial": "1", "model[m].config": {"a": 1},
            "cache[triton].warm": False, "cache[inductor].warm": True, "env[NCCL_X]": "bad \udcff byte",
        }
    )  # fmt: skip
    assert lines(made) == [
        '"cache[inductor].warm" = { equals = true, severity = "warning" }', '"env[NCCL_ALGO]" = "Ring"',
    ]  # fmt: skip


def test_it_is_grouped_and_says_what_each_key_means() -> None:
    text = policy_from([snapshot({"nvml.driver_version": "580.1", "cpu.model": "X"})])
    assert text.startswith("# Made from 1 snapshot of 2026-12-01.\n")
    assert "\n# -- CPU: model, topology" in text
    assert '# Version of the NVIDIA driver.\n"nvml.driver_version" = ' in text


def test_a_real_machine_passes_its_own_policy(tmp_path: Path) -> None:
    live = capture(only=[n for n in names() if n not in ("git", "load")])
    h200 = capture(host=FakeHost({"/proc/cpuinfo": ""}, replies=replies()), only=["gpu", "gpu_pair"])
    for made in (live, h200):
        text = policy_from([made], 0.0)
        assert len([line for line in text.splitlines() if line.startswith('"')]) > 20
        passes(tmp_path, text, made)


_VALUES = {
    Type.STRING: some.text(max_size=20),
    Type.INTEGER: some.integers(-(2**40), 2**40),
    Type.NUMBER: some.floats(allow_nan=False, allow_infinity=False, width=32) | some.integers(0, 99),
    Type.BOOLEAN: some.booleans(),
    Type.STRINGS: some.lists(some.text(max_size=5), max_size=3),
    Type.INTEGERS: some.lists(some.integers(0, 9), max_size=3),
}
_KEYS = [k for k in keys().values() if k.type in _VALUES and k.kind in (Kind.IDENTITY, Kind.TUNABLE)]


@some.composite
def readings(draw: Any) -> dict[str, Any]:
    found = {}
    for key in draw(some.lists(some.sampled_from(_KEYS), min_size=1, max_size=6, unique_by=lambda k: k.pattern)):
        names = some.sampled_from(["0", "1", "a b", "x*y", 'q"', "[z]"]) if "[]" in key.pattern else some.just("")
        for _ in range(draw(some.integers(1, 3))):
            path = path_of(key.pattern, *(draw(names) for _ in range(key.pattern.count("[]"))))
            found[path] = draw(_VALUES[key.type])
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=readings(), second=readings(), share=some.booleans())
def test_property_a_policy_loads_and_passes_on_the_snapshots_it_was_made_from(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], share: bool
) -> None:
    if share:
        second = {**first, **{p: v for p, v in second.items() if section_of(p) == "gpu"}}
    snapshots = snapshot(first), snapshot(second)
    passes(tmp_path, policy_from(snapshots, 0.0), *snapshots)


@settings(max_examples=100, deadline=None)
@given(
    some.recursive(
        some.booleans() | some.integers(-(2**62), 2**62) | some.floats(allow_nan=False)
        | some.text(some.characters(exclude_categories=["Cs"]), max_size=20),
        lambda inner: some.lists(inner, max_size=3)
        | some.dictionaries(some.text(some.characters(exclude_categories=["Cs"]), max_size=9), inner, max_size=3),
        max_leaves=8,
    )
)  # fmt: skip
def test_property_what_is_written_as_toml_is_read_back(value: Any) -> None:
    tomllib = pytest.importorskip("tomllib")
    assert tomllib.loads(f"x = {inline(value)}") == {"x": value}


def test_toml_has_no_null() -> None:
    with pytest.raises(TypeError):
        inline([None])
