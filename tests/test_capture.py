from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from envsnap import collectors
from envsnap.capture import capture, has_type, is_json
from envsnap.diff import diff
from envsnap.host import Answer, Host
from envsnap.keys import Key, Kind, Type
from envsnap.reading import Found, Json, Missing, Unavailable, Unset, Value, Why
from envsnap.snapshot import STATUSES, dumps, from_json
from tests.fakes import FakeHost

KEYS = (
    Key("made.name", Type.STRING, Kind.IDENTITY, "A name."),
    Key("made.part[].size_bytes", Type.INTEGER, Kind.IDENTITY, "A size."),
    Key("made.config", Type.OBJECT, Kind.IDENTITY, "A structure."),
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes `collect` the only collector there is."""

    def install(collect: Any) -> None:
        module = ModuleType("envsnap.collectors.made")
        vars(module).update(KEYS=KEYS, METHOD="made up", collect=collect)
        monkeypatch.setitem(sys.modules, "envsnap.collectors.made", module)
        monkeypatch.setattr(collectors, "names", lambda: ("made",))
        clear()

    def clear() -> None:
        for cached in (collectors.keys, collectors._sections, collectors.collector):
            cached.cache_clear()

    yield install
    clear()


def yielding(*found: tuple[str, Found], then: Exception | None = None) -> Any:
    def collect(host: Host, scope: object) -> Iterator[tuple[str, Found]]:
        yield from found
        if then:
            raise then

    return collect


def test_what_is_yielded_to_the_end_is_complete(made: Any) -> None:
    made(yielding(("made.name", Value("x")), ("made.part[0].size_bytes", Unavailable(Why.DENIED, "no"))))
    section = capture(host=FakeHost()).sections["made"]
    assert (section.status, section.complete, section.method) == ("ok", True, "made up")
    assert section.values == {"made.name": "x"}
    assert section.reading("made.part[0].size_bytes") == Unavailable(Why.DENIED, "no")
    assert section.reading("made.part[1].size_bytes") == Unset()


@pytest.mark.parametrize(
    ("yielded", "then", "status"),
    [
        (True, Missing(Why.DENIED, "no"), "partial"),
        (False, Missing(Why.ABSENT, "nothing"), "unavailable"),
        (True, collectors.Partial("half"), "partial"),
        (False, collectors.Partial("half"), "partial"),
        (True, ValueError("boom"), "error"),
        (False, RecursionError("deep"), "error"),
    ],
)
def test_what_stops_a_collector_is_its_section_s_reason(made: Any, yielded: bool, then: Exception, status: str) -> None:
    made(yielding(*[("made.name", Value("x"))] * yielded, then=then))
    section = capture(host=FakeHost()).sections["made"]
    assert (section.status, section.complete) == (status, False)
    assert str(then) in section.reason
    assert section.values == ({"made.name": "x"} if yielded else {})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("made.name", 5, "expected string, found int"),
        ("made.part[0].size_bytes", True, "expected integer, found bool"),
        ("made.part[0].size_bytes", "5", "expected integer, found str"),
        ("made.config", {"x": float("inf")}, "expected object, found dict"),
        ("made.config", {"x": {1, 2}}, "expected object, found dict"),
        ("made.config", {1: "x"}, "expected object, found dict"),
        ("made.other", "x", "no key is declared for made.other"),
        ("made.na", "x", "no key is declared for made.na"),
        ("made.part", "x", "no key is declared for made.part"),
    ],
)
def test_what_breaks_its_declaration_is_an_error_of_that_reading_alone(
    made: Any, path: str, value: Json, message: str
) -> None:
    made(yielding((path, Value(value)), ("made.part[7].size_bytes", Value(1))))
    section = capture(host=FakeHost()).sections["made"]
    assert section.values == {"made.part[7].size_bytes": 1}
    assert section.errors == {path: message}
    assert section.status == "ok"


@pytest.mark.parametrize("path", ["made.part[\x1b].size_bytes", "made.part[]", "Made.name", ""])
def test_what_is_no_path_is_an_error_that_can_be_written(made: Any, path: str) -> None:
    made(yielding((path, Value(5)), ("made.name", Value("x"))))
    taken = capture(host=FakeHost())
    assert taken.sections["made"].errors == {"made": f"not a path: {path!r}"}
    assert from_json(taken.as_json()).values == {"made.name": "x"}


def test_a_branch_may_be_unavailable_as_a_whole(made: Any) -> None:
    made(yielding(("made.part[0]", Unavailable(Why.GONE, "lost"))))
    assert capture(host=FakeHost()).sections["made"].unavailable == {"made.part[0]": Unavailable(Why.GONE, "lost")}


def test_a_collector_that_hangs_costs_its_own_section(made: Any) -> None:
    released = threading.Event()

    def collect(host: Host, scope: object) -> Iterator[tuple[str, Found]]:
        yield "made.name", Value("x")
        released.wait(60)

    made(collect)
    seen: list[tuple[list[str], float]] = []
    started = time.monotonic()
    snapshot = capture(host=FakeHost(), deadline=1.2, progress=lambda *a: seen.append(a))
    released.set()
    assert time.monotonic() - started < 30
    section = snapshot.sections["made"]
    assert (section.status, section.complete, section.values) == ("timeout", False, {"made.name": "x"})
    assert section.reason.startswith("did not finish within 1.2")
    assert seen[0][0] == ["made"]
    assert seen[0][1] >= 1.0


def test_only_the_sections_that_are_asked_for() -> None:
    assert list(capture(host=FakeHost(), only=["kernel"]).sections) == ["kernel"]


def test_a_capture_says_what_it_cost() -> None:
    cost = capture(host=FakeHost(), only=["kernel"]).cost
    assert set(cost) == {"wall_seconds", "cpu_seconds", "peak_rss_bytes"}
    assert cost["peak_rss_bytes"] > 1 << 20


@pytest.mark.parametrize(
    ("value", "kind", "right"),
    [
        ("x", Type.STRING, True), (1, Type.STRING, False), ("x", Type.TEXT, True), (1, Type.INTEGER, True),
        (1.0, Type.INTEGER, False), (True, Type.INTEGER, False), (1, Type.NUMBER, True), (1.5, Type.NUMBER, True),
        (float("nan"), Type.NUMBER, False), (float("inf"), Type.NUMBER, False), (True, Type.NUMBER, False),
        (1, Type.BOOLEAN, False), (False, Type.BOOLEAN, True), (["x"], Type.STRINGS, True),
        (("x",), Type.STRINGS, False), (["x", 1], Type.STRINGS, False), ([1], Type.INTEGERS, True),
        ([True], Type.INTEGERS, False), ({}, Type.OBJECT, True), ([], Type.OBJECT, False), (None, Type.STRING, False),
        (None, Type.NUMBER, False), ([None], Type.ANY, True), (None, Type.ANY, False), ({"x": {1}}, Type.ANY, False),
    ],
)  # fmt: skip
def test_types(value: Json, kind: Type, right: bool) -> None:
    assert has_type(value, kind) is right


def test_a_structure_nested_without_end_is_no_json() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert not is_json({"x": endless})


# -- laws over every collector ----------------------------------------------------------------------------------------


def test_law_on_the_empty_machine_nothing_is_in_error() -> None:
    taken = capture(host=FakeHost(), deadline=60)
    wrong = {n: (s.reason, s.errors) for n, s in taken.sections.items() if s.status in ("error", "timeout") or s.errors}
    assert wrong == {}
    assert set(taken.sections) == set(collectors.names())
    assert diff(taken, from_json(taken.as_json())).changes == ()


class Hostile(Host):
    """Answers every request with the same nonsense, or raises."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    def ask(self, requests: Any) -> list[Answer]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return [self._answer for _ in requests]


NONSENSE: list[Any] = [
    RuntimeError("boom"), ["error", "boom"], ["ok", None], ["ok", "\x00\x1b[31m\udcff" * 50], ["ok", -1], ["ok", 1e308],
    ["ok", []], ["ok", {}], ["ok", [[]]], ["ok", [{"x": 1}]], ["ok", {"x": []}], ["missing", "denied", "no"],
    ["missing", "absent", ""], [], None, ["ok"], ["ok", True], ["ok", ["\udcff", 1, None]], ["missing", "bored", "no"],
]  # fmt: skip


@pytest.mark.parametrize("answer", NONSENSE, ids=lambda answer: repr(answer)[:24])
def test_law_a_hostile_machine_costs_readings_never_the_capture(answer: Any) -> None:
    taken = capture(host=Hostile(answer), deadline=60)
    assert set(taken.sections) == set(collectors.names())
    assert {s.status for s in taken.sections.values()} <= {*STATUSES} - {"timeout"}
    assert from_json(taken.as_json()).content_hash == taken.content_hash
    dumps(taken)


class Hanging(FakeHost):
    """Never answers what it is asked first; the rest it would answer."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def ask(self, requests: Any) -> list[Answer]:
        self.released.wait(60)
        return super().ask(requests)


def test_law_a_hanging_machine_is_left_at_the_deadline() -> None:
    host = Hanging()
    taken = capture(host=host, deadline=0.5)
    host.released.set()
    assert set(taken.sections) == set(collectors.names())
    assert "timeout" in {s.status for s in taken.sections.values()}
    assert not [s for s in taken.sections.values() if s.complete and s.status != "ok"]
