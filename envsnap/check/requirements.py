"""Requirements of a policy at work: what a snapshot says of the paths that each of them means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, cast

from envsnap.check.comparators import holds, words
from envsnap.check.contradictions import contradictions
from envsnap.check.facts import ERROR, GPU_INDEX, Index, gaps
from envsnap.check.finding import Finding, Severity, Status
from envsnap.check.policy import RANKS, Condition, PolicyError, Requirement
from envsnap.check.selectors import alike_but_for_the_first_instance
from envsnap.check.waivers import waived
from envsnap.check.wanted import Wanted
from envsnap.collectors import key_for, keys, section_of
from envsnap.fold import fold
from envsnap.keys import Key, Kind, Type, pattern_of
from envsnap.reading import Error, Json, Reading, Unavailable, Unknown, Unset, Value, Why
from envsnap.redact import comparable
from envsnap.snapshot import Snapshot
from envsnap.wording import absence_text, plural, printable, shorten, value_text

BROKEN, UNKNOWN, HOLDS, APART = "policy.broken", "policy.unknown", "policy.holds", "policy.not_applicable"

_VALUE_WIDTH = 120
_RANK = re.compile(r".*\d\Z")

Verdict = tuple[Status, str]
"""A status with the words that follow the path."""


def sections(requirements: Iterable[Requirement]) -> set[str]:
    """The sections that requirements need."""
    found = {section_of(p) for r in requirements for p in r.selector.patterns}
    return found | ({section_of(GPU_INDEX), "environ"} if any(r.applies_when for r in requirements) else set())


def judge(
    snapshot: Snapshot,
    requirements: Sequence[Requirement],
    wanted: Wanted,
    baseline: Snapshot | None,
    today: date,
) -> list[Finding]:
    """A finding for whatever does not hold or is unknown, and one for all that holds.

    Raises: PolicyError where requirements that apply here contradict each other.
    """
    index = Index(snapshot)
    applying: list[Requirement] = []
    findings: list[Finding] = []
    for requirement in requirements:
        answers = [_applies(condition, index, wanted) for condition in requirement.applies_when]
        if False in answers:
            findings.append(_of(requirement, Status.NOT_APPLICABLE, f"{requirement.selector.text}: for other machines"))
        elif None in answers:
            title = f"whether {requirement.selector.text} is required here is not known: name the command with --for"
            findings.append(_of(requirement, Status.UNKNOWN, title))
        else:
            applying.append(requirement)
    applying = _strongest(applying)
    if broken := contradictions([replace(r, applies_when=()) for r in applying]):
        raise PolicyError(broken)
    held = 0
    for requirement in applying:
        found = list(_judged(requirement, snapshot, baseline))
        held += not found
        findings += [waived(finding, requirement.waiver, today) for finding in found]
    if held:
        findings.append(Finding(HOLDS, Status.PASS, Severity.LOW, f"{plural(held, 'requirement')} of the policy met"))
    return findings


def _strongest(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Of those on the same key, what holds under more conditions takes the place of what holds under fewer."""
    most: dict[str, int] = {}
    for r in requirements:
        most[r.selector.text] = max(most.get(r.selector.text, 0), len(r.applies_when))
    return [r for r in requirements if len(r.applies_when) == most[r.selector.text]]


# -- when it applies -----------------------------------------------------------------------------------------------


def _applies(condition: Condition, index: Index, wanted: Wanted) -> bool | None:
    """Whether a condition holds; None where that cannot be known."""
    answers: list[bool | None] = [True]
    if condition.gpu:
        names = [index.snapshot.values[f"gpu[{i}].name"] for i in index.gpus(wanted)]
        unread = not names and any(not gap.absent for gap in gaps(index.snapshot, GPU_INDEX))
        answers.append(None if unread else _any(names, condition.gpu))
    if condition.model:
        models = [*wanted.models, *(m.rstrip("/").rpartition("/")[2] for m in wanted.models)]
        answers.append(_any(models, condition.model) if models else None)
    if condition.tensor_parallel:
        size = wanted.tensor_parallel
        answers.append(None if size is None else holds(_COUNT, size, dict(condition.tensor_parallel)))
    return False if False in answers else None if None in answers else True


_COUNT = Key("x", Type.INTEGER, Kind.TUNABLE, "A number.")


def _any(texts: Iterable[Json], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(str(text), pattern) for text in texts for pattern in patterns)


# -- what it finds --------------------------------------------------------------------------------------------------


def _judged(requirement: Requirement, snapshot: Snapshot, baseline: Snapshot | None) -> Iterator[Finding]:
    """Nothing where it holds; paths about which the same is to be said make one finding."""
    paths = requirement.selector.paths(snapshot)
    if not paths:
        yield from _nothing(requirement, snapshot)
    if requirement.same_across:
        yield from _across(requirement, snapshot, paths)
    if not (requirement.tests or requirement.present or requirement.absent or requirement.same_as_baseline):
        return
    alike: dict[Verdict, list[str]] = {}
    for path in paths:
        if verdict := _of_path(requirement, path, snapshot, baseline):
            alike.setdefault(verdict, []).append(path)
    for (status, text), members in alike.items():
        for title, held in fold(members, by_name=not keys()[pattern_of(members[0])].at):
            yield _of(requirement, status, f"{printable(title)} {text}", held)


def _nothing(requirement: Requirement, snapshot: Snapshot) -> Iterator[Finding]:
    """No path fits the key: that is what `absent` wants, unless something could not be looked at."""
    text = requirement.selector.text
    found = [gap for pattern in requirement.selector.patterns for gap in gaps(snapshot, pattern)]
    if requirement.absent and all(gap.absent for gap in found):
        return
    if found:
        yield _of(requirement, Status.UNKNOWN, f"{text} could not be read: {found[0].path}: {found[0].why}")
    elif not requirement.absent:
        yield _of(requirement, _broken(requirement), f"nothing here has {text}")


def _of_path(requirement: Requirement, path: str, snapshot: Snapshot, baseline: Snapshot | None) -> Verdict | None:
    key, reading = key_for(path), snapshot.reading(path)
    if requirement.absent:
        if isinstance(reading, Value):
            return _broken(requirement), f"is {_shown(key, reading)}, required to be unset"
        gone = isinstance(reading, Unset) or (isinstance(reading, Unavailable) and reading.why is Why.ABSENT)
        return None if gone else (Status.UNKNOWN, f"could not be read: {_why(path, reading, snapshot)}")
    if requirement.same_as_baseline and (verdict := _as_before(requirement, path, reading, baseline)):
        return verdict
    if not (requirement.tests or requirement.present):
        return None
    if isinstance(reading, Value):
        if holds(key, reading.value, requirement.tests, requirement.tolerance):
            return None
        return _broken(requirement), f"is {_shown(key, reading)}, required {words(key, requirement.tests)}"
    wanted = words(key, requirement.tests) or "a value"
    if isinstance(reading, Unset):
        return _broken(requirement), f"is unset, required {wanted}"
    return Status.UNKNOWN, f"could not be read, required {wanted}: {_why(path, reading, snapshot)}"


def _why(path: str, reading: Unavailable | Error | Unset | Unknown, snapshot: Snapshot) -> str:
    """Why there is no value; of a section that was not read, the section's reason."""
    found = gaps(snapshot, pattern_of(path)) if isinstance(reading, Unknown) else []
    return found[0].why if found else absence_text(reading)


def _as_before(requirement: Requirement, path: str, now: Reading, baseline: Snapshot | None) -> Verdict | None:
    if baseline is None:
        return Status.UNKNOWN, "is required as in the baseline, and none was named (--baseline)"
    key, then = key_for(path), baseline.reading(path)
    if not isinstance(then, (Value, Unset)):
        return Status.UNKNOWN, f"could not be compared: the baseline has it {absence_text(then)}"
    if not isinstance(now, (Value, Unset)):
        return Status.UNKNOWN, f"could not be compared: {absence_text(now)}"
    if isinstance(then, Value) and isinstance(now, Value):
        if not comparable(then.value, now.value):
            return Status.UNKNOWN, "could not be compared: its secret was hashed with another key"
        same = holds(key, now.value, {"equals": then.value}, requirement.tolerance)
    else:
        same = type(then) is type(now)
    return None if same else (_broken(requirement), f"is {_shown(key, now)}, the baseline has {_shown(key, then)}")


def _across(requirement: Requirement, snapshot: Snapshot, paths: Sequence[str]) -> Iterator[Finding]:
    """One finding for each fact that its GPUs or ranks do not all have alike."""
    for group in alike_but_for_the_first_instance(paths).values():
        members = [p for i, p in group.items() if requirement.same_across != RANKS or _RANK.match(i)]
        readings = {path: snapshot.reading(path) for path in members}
        unread = [p for p, r in readings.items() if not isinstance(r, (Value, Unset))]
        if unread:
            why = absence_text(cast(Any, readings[unread[0]]))
            yield _of(requirement, Status.UNKNOWN, f"{fold(unread)[0][0]} could not be compared: {why}", unread)
        told: dict[str, list[str]] = {}
        for path in members:
            if path not in unread:
                told.setdefault(_shown(key_for(path), readings[path]), []).append(path)
        if len(told) > 1:
            said = ", ".join(f"{fold(held)[0][0]} is {value}" for value, held in list(told.items())[:4])
            yield _of(requirement, _broken(requirement), f"{said}; required alike for all {requirement.same_across}",
                      members)  # fmt: skip


def _shown(key: Key, reading: Reading) -> str:
    if isinstance(reading, Value):
        return shorten(value_text(key, reading.value), _VALUE_WIDTH)
    return absence_text(cast(Any, reading))


def _broken(requirement: Requirement) -> Status:
    return Status.FAIL if requirement.severity == ERROR else Status.WARNING


def _of(requirement: Requirement, status: Status, title: str, paths: Sequence[str] = ()) -> Finding:
    patterns = requirement.selector.patterns
    shown = [key_for(path) for path in paths] or [keys()[pattern] for pattern in patterns]
    return Finding(
        code={Status.UNKNOWN: UNKNOWN, Status.NOT_APPLICABLE: APART}.get(status, BROKEN),
        status=status,
        severity=Severity.of(max(key.prior for key in shown)),
        title=f"{title} ({requirement.reason})" if requirement.reason else title,
        evidence=tuple(paths) or (() if requirement.selector.path is None else (requirement.selector.path,)),
        advice=shown[0].advice if status in (Status.FAIL, Status.WARNING) else "",
        required=requirement.severity == ERROR,
    )
