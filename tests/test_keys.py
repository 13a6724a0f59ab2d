from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.keys import (
    At,
    Effect,
    Key,
    Kind,
    Type,
    instances_of,
    is_path,
    matches,
    parents_of,
    path_of,
    pattern_of,
)

NAMES = st.text(max_size=20)


@given(NAMES, NAMES)
def test_any_instance_comes_back_from_its_path(a: str, b: str) -> None:
    path = path_of("worker[].env[]", a, b)
    assert is_path(path)
    assert pattern_of(path) == "worker[].env[]"
    assert instances_of(path) == [a, b]
    assert path.isprintable() or re.search(r'\["', path)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (0, "gpu[0].name"),
        ("0000:01:00.0", "gpu[0000:01:00.0].name"),
        ("a b", 'gpu["a b"].name'),
        ("]", 'gpu["]"].name'),
        ("", 'gpu[""].name'),
        ("\x1b", 'gpu["\\u001b"].name'),
    ],
)  # fmt: skip
def test_instances_stand_bare_or_as_json(name: str | int, path: str) -> None:
    assert path_of("gpu[].name", name) == path


def test_path_of_takes_as_many_instances_as_the_pattern_has() -> None:
    with pytest.raises(ValueError, match="takes 1 instances, not 2"):
        path_of("gpu[].name", 0, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Gpu",
        "gpu[]",
        "gpu[0",
        "gpu.",
        ".gpu",
        "gpu..x",
        "gpu[a b]",
        'gpu["\\q"]',
        'gpu["a\nb"]',
        "gpu[0]x",
        "gpu\n",
        "1x",
    ],
)
def test_what_is_no_path(text: str) -> None:
    assert not is_path(text)


def test_parents_nearest_first() -> None:
    assert parents_of('a[0].b["x.y[z"].c') == ['a[0].b["x.y[z"]', "a[0].b", "a[0]", "a"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("gpu[0].name", True),
        ("gpu[].name", True),
        ("gpu[0]", True),
        ("gpu", True),
        ("gpu[*].name", True),
        ("*name", True),
        ("gp", False),
        ("gpu[0].nam", False),
        ("gpu[0].name.more", False),
        ("gpu[?].name", False),
        ("gpu[1]", False),
        ("gpu*x", False),
    ],
)
def test_matches(pattern: str, matched: bool) -> None:
    assert matches("gpu[0].name", pattern) is matched


def test_the_last_instance_specialises_a_key() -> None:
    key = Key("w[].env[]", Type.STRING, Kind.TUNABLE, "A variable.", prior=0.1, at=(
        At("NCCL_*", prior=0.8, effects=(Effect.COMMUNICATION,), kind=Kind.IDENTITY),
        At("*", meaning="Another."),
    ))  # fmt: skip
    nccl, other = key.for_path("w[TP0].env[NCCL_X]"), key.for_path("w[NCCL_X].env[A]")
    assert (nccl.prior, nccl.effects, nccl.kind, nccl.meaning) == (
        0.8,
        (Effect.COMMUNICATION,),
        Kind.IDENTITY,
        "A variable.",
    )
    assert (other.prior, other.meaning) == (0.1, "Another.")


@pytest.mark.parametrize(
    ("pattern", "kind", "unit"),
    [
        ("gpu[].power_watts", Type.INTEGER, "W"),
        ("gpu[].size_bytes", Type.NUMBER, "bytes"),
        ("env[]", Type.STRING, ""),
        ("x.name_watts", Type.STRING, ""),
        ("x.sizes_mhz", Type.INTEGERS, "MHz"),
        ("x.cpus_count", Type.INTEGER, ""),
    ],
)
def test_the_unit_is_the_last_word_of_a_number_s_name(pattern: str, kind: Type, unit: str) -> None:
    assert Key(pattern, kind, Kind.IDENTITY, "A.").unit == unit


@pytest.mark.parametrize(
    ("a", "b", "tolerances", "same"),
    [
        (1, 1, {}, True),
        (1, 1.0, {}, True),
        (1, True, {}, False),
        (0, False, {}, False),
        (100, 104, {"rel_tol": 0.05}, True),
        (100, 106, {"rel_tol": 0.05}, False),
        (0, 3, {"abs_tol": 3}, True),
        (0, 4, {"abs_tol": 3, "rel_tol": 0.5}, False),
        ("1", 1, {}, False),
        (None, None, {}, True),
        (None, 0, {}, False),
    ],
)
def test_same(a: object, b: object, tolerances: dict[str, float], same: bool) -> None:
    key = Key(
        "x.y",
        Type.NUMBER,
        Kind.IDENTITY,
        "A.",
        rel_tol=tolerances.get("rel_tol", 0),
        abs_tol=tolerances.get("abs_tol", 0),
    )
    assert key.same(a, b) is same
    assert key.same(b, a) is same
