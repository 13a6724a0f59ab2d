"""Law 5: whatever a machine does, capture returns, with every section present, and what it yields can be loaded."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from envsnap.capture import capture
from envsnap.collectors import names
from envsnap.host import Answer, Host, Request
from envsnap.jsonfile import parse_json
from envsnap.reading import Json
from envsnap.recording import MACHINE, load
from envsnap.scope import Scope
from envsnap.snapshot import Snapshot, dumps, from_json

MACHINES = Path(__file__).parent / "machines"
EVERYTHING = Scope(
    pids=(2, 4_000_000), match=("sglang", "python"), repos=("/r",), models=("m", "/m"), servers=("http://127.0.0.1:9",),
    nccl_logs=("/l",), records="/d", python="/usr/bin/python3", cache=False,
)  # fmt: skip
SCOPES = pytest.mark.parametrize("scope", [Scope(cache=False), EVERYTHING], ids=["nothing", "everything"])


def _sound(snapshot: Snapshot) -> None:
    """Every section is there, and the file loads to what was written."""
    assert set(snapshot.sections) == set(names())
    text = dumps(snapshot)
    assert dumps(from_json(parse_json(text.encode(), "snapshot"))) == text


class Raising(Host):
    """Every access raises."""

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        raise RuntimeError("the bus is on fire")


class Hanging(Host):
    """No access returns before the event is set."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        self.released.wait()
        raise RuntimeError("too late")


class Denying(Host):
    """Nothing may be read, everything else is not there."""

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        return [["missing", "denied", f"Permission denied: {r[1] if len(r) > 1 else r[0]}"] for r in requests]


class Babbling(Host):
    """Every answer is some JSON, by chance."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        answers = [self._answer() for _ in requests]
        if self._random.random() < 0.02:
            answers = answers[:-1] if self._random.random() < 0.5 else [*answers, ["ok", 1]]
        return answers

    def _answer(self) -> Answer:
        if self._random.random() < 0.05:
            odd: Json = self._random.choice([None, 3, "ok", [], ["ok"], ["no"], ["missing", "whim", ""], {"ok": 1}])
            return odd  # type: ignore[no-any-return]
        return ["ok", self.json()]

    def json(self, depth: int = 3) -> Json:
        kind = self._random.randrange(8 if depth else 6)
        if kind < 2:
            return "".join(self._random.choice('ab01 \n\t\0:=/[],"-x\udcff') for _ in range(self._random.randrange(60)))
        if kind == 2:
            return self._random.choice(
                ["", "0", "-1", "max", "[always] never", "0-3,8", "{}", "/", "1 2 3 4", "eth0: 1 2"]
            )
        if kind == 3:
            return self._random.choice([0, -1, 1, 2**31, 2**64, 10**40, 7])
        if kind == 4:
            return self._random.choice([0.5, -1e308, float("inf"), float("nan")])
        if kind == 5:
            return self._random.choice([None, True, False])
        if kind == 6:
            return [self.json(depth - 1) for _ in range(self._random.randrange(5))]
        names = [
            "pid",
            "code",
            "out",
            "err",
            "type",
            "size",
            "cwd",
            "argv",
            "version_info",
            "files",
            "x",
            "status",
            "body",
        ]
        return {self._random.choice(names): self.json(depth - 1) for _ in range(self._random.randrange(6))}


class Mangled(Babbling):
    """A recorded machine, each of whose answers may be cut, emptied, swapped for another or turned into nonsense."""

    def __init__(self, inner: Host, seed: int) -> None:
        super().__init__(seed)
        self._inner = inner
        self._rate = (0.01, 0.1, 0.4)[seed % 3]

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        answers = self._inner.ask(requests)
        return [["ok", self._bent(a[1])] if a[0] == "ok" and self._random.random() < self._rate else a for a in answers]

    def _bent(self, value: Json) -> Json:
        how = self._random.randrange(4)
        if how == 0 or not isinstance(value, (str, list, dict)):
            return self.json()
        if isinstance(value, str):
            cut = self._random.randrange(len(value) + 1)
            return (value[:cut], value[cut:], value[:cut] + "\udcff\0 -" + value[cut:])[how - 1]
        if isinstance(value, list):
            return [self._bent(v) if self._random.random() < 0.3 else v for v in value[: self._random.randrange(50)]]
        return {
            k: self._bent(v) if self._random.random() < 0.3 else v
            for k, v in value.items()
            if self._random.random() < 0.9
        }


@SCOPES
def test_law_the_empty_machine_has_no_error(scope: Scope) -> None:
    snapshot = capture(scope, load(MACHINES / "empty"), deadline=60)
    _sound(snapshot)
    for name, section in snapshot.sections.items():
        assert section.status in ("ok", "partial", "unavailable"), f"{name}: {section.reason}"
        assert not section.errors, name


@SCOPES
def test_law_no_permission_is_no_error(scope: Scope) -> None:
    snapshot = capture(scope, Denying(), deadline=60)
    _sound(snapshot)
    for name, section in snapshot.sections.items():
        assert section.status in ("ok", "partial", "unavailable"), f"{name}: {section.reason}"
        assert not section.errors, name


@SCOPES
def test_law_a_machine_that_raises(scope: Scope) -> None:
    snapshot = capture(scope, Raising(), deadline=60)
    _sound(snapshot)
    for name, section in snapshot.sections.items():
        assert section.status == "error" or section.errors or not section.values, name


@SCOPES
def test_law_a_machine_that_hangs(scope: Scope) -> None:
    host = Hanging()
    try:
        # NOTE: nothing is released before capture has returned: if it waited, this would never end.
        snapshot = capture(scope, host, deadline=0.3)
    finally:
        host.released.set()
    _sound(snapshot)
    assert sum(section.status == "timeout" for section in snapshot.sections.values()) >= len(snapshot.sections) - 6


@SCOPES
@pytest.mark.parametrize("seed", range(12))
def test_law_a_machine_that_babbles(scope: Scope, seed: int) -> None:
    snapshot = capture(scope, Babbling(seed), deadline=60)
    _sound(snapshot)
    for name, section in snapshot.sections.items():
        assert section.status != "timeout", name


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("machine", sorted(p.name for p in MACHINES.iterdir() if p.name != "empty"))
def test_law_a_machine_that_lies(machine: str, seed: int) -> None:
    folder = MACHINES / machine
    scope = Scope.from_json(json.loads((folder / MACHINE).read_text())["scope"])
    snapshot = capture(scope, Mangled(load(folder), seed), deadline=60)
    _sound(snapshot)
    for name, section in snapshot.sections.items():
        assert section.status != "timeout", name
