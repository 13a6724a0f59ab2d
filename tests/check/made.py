"""Snapshots made up of a few values, as every other section had been read and were empty; rules asked about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from envsnap.check import Finding, Status, builtin
from envsnap.check.rules import rule
from envsnap.check.wanted import read_command
from envsnap.collectors import names, section_of
from envsnap.reading import Json, Unavailable, Why
from envsnap.snapshot import Section, Snapshot

TODAY = date(2026, 12, 1)
SGLANG = "python -m sglang.launch_server --model-path meta/model"
DENIED, ABSENT = Unavailable(Why.DENIED, "not for you"), Unavailable(Why.ABSENT, "none here")


def snapshot(
    values: Mapping[str, Json] | None = None,
    unavailable: Mapping[str, Unavailable] | None = None,
    sections: Mapping[str, tuple[str, str]] | None = None,
    captured_at: str = "2026-12-01T12:00:00.000+00:00",
) -> Snapshot:
    """`sections` are those that were not read: name -> status and reason."""
    by_section: dict[str, dict[str, Any]] = {name: {} for name in names()}
    gaps: dict[str, dict[str, Unavailable]] = {name: {} for name in names()}
    for path, value in (values or {}).items():
        by_section[section_of(path)][path] = value
    for path, why in (unavailable or {}).items():
        gaps[section_of(path)][path] = why
    made = {}
    for name in names():
        status, reason = (sections or {}).get(name, ("ok", ""))
        made[name] = Section(status, status == "ok", 0.0, "made up", reason, by_section[name], gaps[name])
    return Snapshot(captured_at, made, "1")


def gpus(count: int = 2, **facts: Json) -> dict[str, Json]:
    """So many GPUs with a name and these facts; a list gives each its own."""
    found: dict[str, Json] = {"nvml.gpu_count": count}
    for index in range(count):
        for name, value in {"name": "NVIDIA H200", **facts}.items():
            found[f"gpu[{index}].{name}"] = value[index] if isinstance(value, tuple) else value
    return found


def judge(code: str, made: Snapshot, command: str = "") -> list[Finding]:
    """What one rule finds."""
    return builtin.judge(made, [rule(code)], read_command(command), {}, TODAY)


@dataclass(frozen=True)
class Case:
    """One rule on one snapshot. `says` are parts of the titles of what it objects to, none where it is silent."""

    code: str
    values: Mapping[str, Json] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    command: str = ""
    status: Status = Status.PASS
    unavailable: Mapping[str, Unavailable] = field(default_factory=dict)
    because: str = ""
    """What makes a silent case one, for the test's name."""

    def __str__(self) -> str:
        return f"{self.code}: {self.because or (self.says[0] if self.says else self.status.value)}"[:80]


def fires(code: str, values: Mapping[str, Json], *says: str, command: str = "", **other: Any) -> Case:
    """A case with an error, or (`status=`) a warning."""
    return Case(code, values, says, command, other.pop("status", Status.FAIL), **other)


def warns(code: str, values: Mapping[str, Json], *says: str, command: str = "", **other: Any) -> Case:
    """A case with a warning."""
    return Case(code, values, says, command, Status.WARNING, **other)


def silent(code: str, values: Mapping[str, Json], because: str, command: str = "", **other: Any) -> Case:
    """A case that passes."""
    return Case(code, values, (), command, because=because, **other)


def apart(code: str, values: Mapping[str, Json], because: str, command: str = "", **other: Any) -> Case:
    """A case that the rule does not speak of."""
    return Case(code, values, (), command, Status.NOT_APPLICABLE, because=because, **other)


def check(case: Case) -> None:
    """Assert what a case expects."""
    found = judge(case.code, snapshot(case.values, case.unavailable), case.command)
    told = [(f.status, f.title) for f in found]
    assert {f.status for f in found} == {case.status}, told
    if case.says:
        assert len(found) == len(case.says), told
    for part, finding in zip(case.says, found):
        assert part in finding.title, told
    for finding in found if case.says else ():
        assert finding.evidence, f"{finding.title} rests on nothing"
