from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.change import Because, Change, Diff, NotCompared
from envsnap.diff import diff
from envsnap.keys import Key, Kind, Type
from envsnap.leaves import leaves
from envsnap.reading import Error, Reading, Unavailable, Unknown, Unset, Value, Why
from envsnap.redact import Redactor
from envsnap.snapshot import Snapshot
from tests.probe import absent, denied, section, snapshot

pytestmark = pytest.mark.usefixtures("probe_keys")


def pairs(found: Diff) -> dict[str, tuple[Reading, Reading]]:
    return {c.path + c.leaf: (c.before, c.after) for c in found.changes}


def gaps(found: Diff) -> dict[str, NotCompared]:
    return {n.path: n for n in found.not_compared}


# -- values ---------------------------------------------------------------------------------------------------


def test_a_changed_value_is_a_change_and_an_equal_one_is_counted() -> None:
    found = diff(
        snapshot({"probe.model": "x", "probe.limit_watts": 700}),
        snapshot({"probe.model": "x", "probe.limit_watts": 600}),
    )
    assert pairs(found) == {"probe.limit_watts": (Value(700), Value(600))}
    assert (found.equal, found.not_compared, found.left_out) == (1, (), {})


@pytest.mark.parametrize(("b", "changed"), [(100.9, False), (101.1, True), (100, False)])
def test_numbers_are_the_same_within_the_tolerance_of_their_key(b: float, changed: bool) -> None:
    assert bool(diff(snapshot({"probe.ratio": 100.0}), snapshot({"probe.ratio": b})).changes) is changed


def test_true_is_not_one() -> None:
    found = diff(snapshot({"probe.enabled": True}), snapshot({"probe.enabled": 1}))
    assert pairs(found) == {"probe.enabled": (Value(True), Value(1))}


def test_an_integer_and_its_float_are_the_same_number() -> None:
    assert diff(snapshot({"probe.limit_watts": 5}), snapshot({"probe.limit_watts": 5.0})).equal == 1


# -- kinds ----------------------------------------------------------------------------------------------------

MOVING_A = {"probe.clock_mhz": 1, "probe.errors_count": 1, "probe.temperature_celsius": 40, "probe.serial": "a"}
MOVING_B = {"probe.clock_mhz": 2, "probe.errors_count": 2, "probe.temperature_celsius": 60, "probe.serial": "b"}


def test_what_moves_by_itself_is_left_out_and_counted() -> None:
    found = diff(snapshot(MOVING_A), snapshot(MOVING_B))
    assert not found.changes
    assert found.left_out == {Kind.CONDITION: 1, Kind.COUNTER: 1, Kind.VOLATILE: 1, Kind.LABEL: 1}


def test_what_moves_by_itself_is_compared_on_request_but_conditions_never_between_idle_readings() -> None:
    found = diff(snapshot(MOVING_A), snapshot(MOVING_B), also=list(Kind))
    assert set(pairs(found)) == {"probe.errors_count", "probe.temperature_celsius", "probe.serial"}
    assert found.left_out == {Kind.CONDITION: 1}


def test_volatile_readings_have_a_tolerance() -> None:
    a, b = snapshot({"probe.temperature_celsius": 40}), snapshot({"probe.temperature_celsius": 45})
    assert not diff(a, b, also=[Kind.VOLATILE]).changes


@pytest.mark.parametrize(("moments", "compared"), [(("during", "during"), True), (("during", "after"), False)])
def test_conditions_are_compared_between_snapshots_under_load(moments: tuple[str, str], compared: bool) -> None:
    a, b = (snapshot(values, moment=m) for values, m in zip((MOVING_A, MOVING_B), moments))
    assert ("probe.clock_mhz" in pairs(diff(a, b))) is compared


def test_an_instance_can_be_of_another_kind_than_its_key() -> None:
    a = snapshot({"role[TP0].env[PWD]": "/a", "role[TP0].env[X]": "1"})
    b = snapshot({"role[TP0].env[PWD]": "/b", "role[TP0].env[X]": "1"})
    found = diff(a, b)
    assert (found.changes, found.equal, found.left_out) == ((), 1, {Kind.VOLATILE: 1})


def test_a_path_of_a_newer_writer_is_compared_as_an_identity() -> None:
    assert "probe.news" in pairs(diff(snapshot({"probe.news": 1}), snapshot({"probe.news": 2})))


# -- what is not there ------------------------------------------------------------------------------------------


def test_added_and_removed_are_changes_where_the_section_is_complete() -> None:
    found = diff(snapshot({"role[TP0].env[A]": "1"}), snapshot({"role[TP0].env[B]": "1"}))
    assert pairs(found) == {
        "role[TP0].env[A]": (Value("1"), Unset()),
        "role[TP0].env[B]": (Unset(), Value("1")),
    }


def test_a_section_that_stopped_early_is_one_gap_and_hides_no_change() -> None:
    values = {f"card[{i}].driver": "580" for i in range(8)}
    b = snapshot({"card[0].driver": "570"}, complete=False, status="partial", reason="the bus hung")
    found = diff(snapshot(values), b)
    assert pairs(found) == {"card[0].driver": (Value("580"), Value("570"))}
    assert gaps(found) == {
        "probe": NotCompared("probe", Because.INCOMPLETE, None, Unknown(), (7, 0), "B: partial, the bus hung")
    }
    assert found.unknown == 1


def test_a_section_that_only_one_side_has_is_one_gap() -> None:
    a = snapshot({"probe.model": "x", "probe.limit_watts": 1, "probe.serial": "s"})
    found = diff(a, Snapshot(a.captured_at, {}, "1"))
    assert gaps(found)["probe"] == NotCompared("probe", Because.NO_SECTION, None, Unknown(), (2, 0), "only in A")
    assert found.left_out == {Kind.LABEL: 1}


def test_a_section_absent_on_both_sides_is_listed_and_settled() -> None:
    a = snapshot(complete=False, status="unavailable", reason="absent: no driver library")
    found = diff(a, a)
    (entry,) = found.not_compared
    assert entry.before == Unavailable(Why.ABSENT, "no driver library")
    assert entry.settled
    assert found.unknown == 0


@pytest.mark.parametrize("other", [Unavailable(Why.DENIED), Unavailable(Why.ABSENT), Error("boom")])
@pytest.mark.parametrize("value", [{"probe.model": "x"}, {}])
def test_unreadable_is_never_equal_and_never_a_change(other: Any, value: dict[str, str]) -> None:
    held = (
        {"errors": {"probe.model": other.message}}
        if isinstance(other, Error)
        else {"unavailable": {"probe.model": other}}
    )
    found = diff(snapshot(value), snapshot(**held))
    assert (found.changes, found.equal) == ((), 0)
    entry = gaps(found)["probe.model"]
    assert entry.because is Because.UNREADABLE
    assert (entry.before, entry.after) == (Value("x") if value else Unset(), other)
    assert found.unknown == 1


@pytest.mark.parametrize(
    ("a", "b", "settled"),
    [
        (absent("here"), absent("there"), True),
        (Unavailable(Why.NOT_SUPPORTED), Unavailable(Why.NOT_SUPPORTED), True),
        (Unavailable(Why.OFF), Unavailable(Why.OFF), True),
        (absent(), Unavailable(Why.NOT_SUPPORTED), False),
        (denied(), denied(), False),
        (Unavailable(Why.TIMEOUT), Unavailable(Why.TIMEOUT), False),
        (absent(), denied(), False),
    ],
)
def test_unreadable_on_both_sides_is_settled_where_nothing_is_there_or_was_asked_for(
    a: Unavailable, b: Unavailable, settled: bool
) -> None:
    found = diff(snapshot(unavailable={"probe.model": a}), snapshot(unavailable={"probe.model": b}))
    assert [(n.settled, found.unknown, found.equal) for n in found.not_compared] == [(settled, int(not settled), 0)]


def test_a_branch_is_one_gap_for_all_below_it() -> None:
    values: dict[str, Any] = {f"card[0].link[{i}].speed_gts": 25.0 for i in range(18)}
    found = diff(
        snapshot({**values, "card[0].driver": "580"}),
        snapshot({"card[0].driver": "580"}, unavailable={"card[0].link": denied()}),
    )
    assert gaps(found) == {"card[0].link": NotCompared("card[0].link", Because.UNREADABLE, None, denied(), (18, 0))}
    assert (found.changes, found.equal) == ((), 1)


def test_gaps_of_kinds_that_are_not_compared_are_left_out() -> None:
    a = snapshot({"probe.clock_mhz": 5})
    b = snapshot(unavailable={"probe.clock_mhz": denied(), "probe.serial": denied()})
    found = diff(a, b)
    assert not found.not_compared
    assert found.left_out == {Kind.CONDITION: 1, Kind.LABEL: 1}


def test_a_key_that_one_version_does_not_know_is_a_gap_not_a_change() -> None:
    a = snapshot({"probe.model": "x"}, envsnap="1")
    b = snapshot({"probe.model": "x", "card[0].driver": "580", "card[1].driver": "580"}, envsnap="2")
    found = diff(a, b)
    assert not found.changes
    assert gaps(found)["probe"].because is Because.UNKNOWN_KEY
    assert gaps(found)["probe"].only == (0, 2)
    assert any("envsnap 1" in note for note in found.notes)


def test_secrets_hashed_with_different_keys_are_unknown(tmp_path: Path) -> None:
    path, tokens = "role[TP0].env[HF_TOKEN]", [f"hf_{letter * 34}" for letter in "abb"]
    mine, other = Redactor(tmp_path / "mine"), Redactor(tmp_path / "other")
    a, b = (snapshot({path: mine.clean_value(path, token)}) for token in tokens[:2])
    c = snapshot({path: other.clean_value(path, tokens[2])})
    assert pairs(diff(a, b)).keys() == {path}
    assert diff(b, c).changes == ()
    assert gaps(diff(b, c))[path].because is Because.HASHES


# -- structured values --------------------------------------------------------------------------------------------

OBJECT = Key("probe.arguments", Type.OBJECT, Kind.TUNABLE, "Arguments.")


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ({"x": 1, "y": 2}, {"x": 1, "y": 3}, {".y": (Value(2), Value(3))}),
        ({"x": None}, {}, {".x": (Value(None), Unset())}),
        ({}, {"x": {"y": 1}}, {".x": (Unset(), Value({"y": 1}))}),
        ({"x": {"y": {"z": 1}}}, {"x": {"y": {"z": 2}}}, {".x.y.z": (Value(1), Value(2))}),
        ({"l": [1, 2]}, {"l": [0, 1, 2]}, {".l": (Value([1, 2]), Value([0, 1, 2]))}),
        ({"l": [{"a": 1}, {"a": 2}]}, {"l": [{"a": 1}, {"a": 3}]}, {".l[1].a": (Value(2), Value(3))}),
        ({"l": [{"a": 1}]}, {"l": [{"a": 1}, {"a": 2}]}, {".l[1]": (Unset(), Value({"a": 2}))}),
        ({"__private": 1}, {"__private": 2}, {".__private": (Value(1), Value(2))}),
        ({"a b": 1}, {"a b": 2}, {'["a b"]': (Value(1), Value(2))}),
        ({"x": True}, {"x": 1}, {".x": (Value(True), Value(1))}),
        ({"x": "1"}, {"x": 1}, {".x": (Value("1"), Value(1))}),
        ({"x": 1, "l": [1, 2]}, {"x": 1.0, "l": [1.0, 2]}, {}),
        ({"a": 1, "b": 2}, {"a": 4, "b": 5}, {".a": (Value(1), Value(4)), ".b": (Value(2), Value(5))}),
    ],
)  # fmt: skip
def test_structured_values_are_compared_leaf_by_leaf(a: Any, b: Any, found: Any) -> None:
    assert {place: (before, after) for place, before, after in leaves(OBJECT, a, b)} == found


def test_an_object_with_no_leaf_changed_is_equal() -> None:
    found = diff(snapshot({"probe.arguments": {"a": 1, "b": 2}}), snapshot({"probe.arguments": {"b": 2, "a": 1.0}}))
    assert (found.changes, found.equal) == ((), 1)


def test_changes_of_an_object_carry_path_and_leaf() -> None:
    found = diff(snapshot({"probe.arguments": {"tp": 8}}), snapshot({"probe.arguments": {"tp": 4}}))
    (change,) = found.changes
    assert (change.path, change.leaf, change.before, change.after) == ("probe.arguments", ".tp", Value(8), Value(4))


# -- order, notes, laws ---------------------------------------------------------------------------------------------


def test_the_likeliest_cause_comes_first() -> None:
    a = snapshot({"probe.limit_watts": 1, "role[TP0].env[NCCL_PROTO]": "LL", "card[0].driver": "1"})
    b = snapshot({"probe.limit_watts": 2, "card[0].driver": "2"})
    assert [c.path for c in diff(a, b).changes] == ["role[TP0].env[NCCL_PROTO]", "card[0].driver", "probe.limit_watts"]


def test_notes_say_what_limits_the_comparison() -> None:
    a = snapshot()
    b = Snapshot(a.captured_at, a.sections, "2", "during", scope={"match": ["x"]}, redaction={"key_id": "k2"})
    a = Snapshot(a.captured_at, a.sections, "1", redaction={"key_id": "k1"})
    notes = " ".join(diff(a, b).notes)
    for word in ("envsnap 1", "'during'", "scopes", "hashed"):
        assert word in notes
    assert diff(a, a).notes == ()


PATHS = {
    "probe.model": st.sampled_from(["x", "y"]),
    "probe.limit_watts": st.integers(0, 2),
    "probe.ratio": st.sampled_from([1.0, 1.005, 2.0, 1]),
    "probe.serial": st.sampled_from(["s", "t"]),
    "probe.arguments": st.dictionaries(st.sampled_from(["a", "b c"]), st.recursive(
        st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([1.0, "t"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "__y"]), inner, max_size=2),
        max_leaves=6,
    )),
    "card[0].driver": st.sampled_from(["580", "570"]),
    "card[0].link[0].speed_gts": st.sampled_from([16.0, 32.0]),
    "card[0].link[1].speed_gts": st.sampled_from([16.0, 32.0]),
    "role[\"a b\"].env[NCCL_PROTO]": st.sampled_from(["LL", "Simple"]),
}  # fmt: skip


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    values, unavailable, errors = {}, {}, {}
    for path, strategy in PATHS.items():
        match draw(st.sampled_from(["value", "value", "unset", "unavailable", "error"])):
            case "value":
                values[path] = draw(strategy)
            case "unavailable":
                unavailable[path] = draw(st.sampled_from([denied(), absent()]))
            case "error":
                errors[path] = "boom"
    if draw(st.booleans()) and not any(path.startswith("card[0].link") for path in values):
        unavailable["card[0].link"] = denied()
    status, complete = draw(st.sampled_from([("ok", True), ("ok", True), ("partial", False), ("timeout", False)]))
    held = section(values, unavailable=unavailable, errors=errors, status=status, complete=complete)
    sections = {"probe": held} if draw(st.integers(0, 9)) else {}
    return Snapshot("2026-01-01T00:00:00.000+00:00", sections, draw(st.sampled_from(["1", "2"])))


@given(snapshots())
def test_law_a_snapshot_does_not_differ_from_itself(a: Snapshot) -> None:
    assert diff(a, a, also=list(Kind)).changes == ()


@given(snapshots(), snapshots())
@settings(max_examples=300)
def test_law_a_diff_mirrors_the_reverse_diff(a: Snapshot, b: Snapshot) -> None:
    there, back = diff(a, b), diff(b, a)
    assert {(c.path, c.leaf, repr(c.before), repr(c.after)) for c in there.changes} == {
        (c.path, c.leaf, repr(c.after), repr(c.before)) for c in back.changes
    }
    assert (there.equal, there.left_out, there.unknown) == (back.equal, back.left_out, back.unknown)
    assert {(n.path, n.because, repr(n.before), repr(n.after), n.only) for n in there.not_compared} == {
        (n.path, n.because, repr(n.after), repr(n.before), n.only[::-1]) for n in back.not_compared
    }


@given(snapshots(), snapshots())
@settings(max_examples=300)
def test_law_no_reading_is_silently_absent(a: Snapshot, b: Snapshot) -> None:
    found = diff(a, b)
    accounted = {c.path for c in found.changes} | {n.path for n in found.not_compared}
    for path in {p for p in (*a.values, *b.values) if p != "probe.serial"}:
        one, two = a.reading(path), b.reading(path)
        if isinstance(one, Value) and isinstance(two, Value):
            if one.value != two.value and path != "probe.ratio" and path != "probe.arguments":
                assert path in accounted
        elif isinstance(one, Unset) or isinstance(two, Unset):
            assert path in accounted or (a.envsnap != b.envsnap and "probe" in accounted)
        else:
            assert accounted & {path, "card[0].link", "probe"}
            assert path not in {c.path for c in found.changes}


def test_changes_are_frozen() -> None:
    change = Change("probe.model", OBJECT, Unset(), Value(1))
    with pytest.raises(AttributeError):
        change.path = "x"  # type: ignore[misc]
