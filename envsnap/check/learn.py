"""A policy from known-good snapshots: what they agree on is required, what varies is not.

Identities and tunables that matter become requirements; a number that varies a little becomes a range somewhat wider
than its spread. What is written is checked against the snapshots it came from, so that it passes on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from envsnap.check.comparators import Tests, is_number
from envsnap.check.facts import ERROR, WARNING
from envsnap.check.policy import Requirement
from envsnap.check.requirements import judge
from envsnap.check.selectors import Selector, select
from envsnap.check.toml import inline, quoted
from envsnap.check.wanted import Wanted
from envsnap.collectors import collector, key_for, keys, section_of
from envsnap.keys import Key, Kind, Type, instances_of, path_of, pattern_of
from envsnap.reading import Json
from envsnap.redact import HASH
from envsnap.snapshot import Snapshot
from envsnap.wording import clip, plural, printable

LEAST_PRIOR = 0.3
"""What is less likely a cause of a slowdown is not required."""

_KINDS = (Kind.IDENTITY, Kind.TUNABLE)
_LARGEST_SPREAD = 0.1
_WIDENED_BY = 0.5
_LONGEST = 300
_COMMENT_WIDTH = 110
_ERROR_PRIOR = 0.5
_LEFT_OUT = ("repo[].changed[]", "server[].dp[].runtime_argument[]", "env_names.")
"""Branches that repeat what others say."""
_ONLY_WHERE_TRUE = ("cache[].warm",)
"""That a cache was cold is nothing to be kept so."""


@dataclass(frozen=True)
class Learned:
    """One requirement, with the key that its comment comes from."""

    text: str
    tests: Tests
    key: Key


def policy_from(snapshots: Sequence[Snapshot], least_prior: float = LEAST_PRIOR) -> str:
    """The text of a policy that all of these snapshots meet."""
    found = _learned(snapshots, least_prior)
    days = ", ".join(sorted({s.captured_at[:10] for s in snapshots}))
    head = [
        f"# Made from {plural(len(snapshots), 'snapshot')} of {days}.",
        "# What they agree on is required; delete what need not be, add reason, waiver or applies_when where you know.",
        "version = 1",
        "",
        "[require]",
    ]
    return "\n".join([*head, *_lines(found)]) + "\n"


def _learned(snapshots: Sequence[Snapshot], least_prior: float) -> list[Learned]:
    agreed: dict[str, dict[str, Tests]] = {}
    for path in _common(snapshots):
        key = key_for(path)
        if key.prior >= least_prior and key.kind in _KINDS and not pattern_of(path).startswith(_LEFT_OUT):
            tests = _tests(key, [s.values[path] for s in snapshots])
            if tests and not (tests == {"equals": False} and key.pattern in _ONLY_WHERE_TRUE):
                agreed.setdefault(pattern_of(path), {})[path] = tests
    found = [one for pattern, members in agreed.items() for one in _folded(pattern, members, snapshots)]
    return sorted(found, key=lambda one: (section_of(one.text), -one.key.prior, one.text))


def _common(snapshots: Sequence[Snapshot]) -> list[str]:
    """Paths of which every snapshot holds a value."""
    first, *others = snapshots
    return [path for path in sorted(first.values) if all(path in s.values for s in others)]


def _tests(key: Key, values: Sequence[Json]) -> Tests:
    """What all of these values meet; nothing where they vary too much, or cannot be written down."""
    if any(not _is_plain(key, value) for value in values):
        return {}
    if all(key.same(values[0], value) for value in values):
        return {"equals": values[0]}
    if all(map(is_number, values)):
        least, most = min(values), max(values)
        if most - least <= _LARGEST_SPREAD * max(abs(least), abs(most)):
            margin = _WIDENED_BY * (most - least)
            return {"range": [_as(least, least - margin), _as(most, most + margin)]}
    return {}


def _as(like: Json, number: float) -> Json:
    """A bound of the same type as the values."""
    return round(number) if isinstance(like, int) else round(number, 6)


def _is_plain(key: Key, value: Json) -> bool:
    if key.type in (Type.TEXT, Type.OBJECT) or len(repr(value)) > _LONGEST or HASH.search(repr(value)):
        return False
    items = value if isinstance(value, list) else [value]
    return not isinstance(value, dict) and all(
        not isinstance(i, (dict, list)) and i is not None and not (isinstance(i, str) and _has_surrogates(i))
        for i in items
    )


def _has_surrogates(text: str) -> bool:
    """Whether it holds bytes that were not UTF-8, which no policy can hold."""
    return any("\ud800" <= character <= "\udfff" for character in text)


# -- one line for many instances -----------------------------------------------------------------------------------


def _folded(pattern: str, members: dict[str, Tests], snapshots: Sequence[Snapshot]) -> Iterator[Learned]:
    """One requirement for all instances where they agree, else one for each."""
    tests = list(members.values())
    if len(members) > 1 and all(t == tests[0] for t in tests):
        text = _over_all(pattern, list(members))
        if text and _holds(text, tests[0], snapshots):
            yield Learned(text, tests[0], keys()[pattern])
            return
    for path, own in members.items():
        if _holds(path, own, snapshots):
            yield Learned(path, own, key_for(path))


def _over_all(pattern: str, paths: Sequence[str]) -> str:
    """The pattern with those instances left that all paths share; empty where they differ by a name of their own."""
    columns = list(zip(*map(instances_of, paths)))
    if keys()[pattern].at and len(set(columns[-1])) > 1:
        return ""
    kept = [column[0] if len(set(column)) == 1 else "*" for column in columns]
    return path_of(pattern, *(i if i != "*" else "\0" for i in kept)).replace('["\\u0000"]', "[]")


def _holds(text: str, tests: Tests, snapshots: Iterable[Snapshot]) -> bool:
    selector = select(text)
    return selector is not None and all(_is_met(selector, tests, snapshot) for snapshot in snapshots)


def _is_met(selector: Selector, tests: Tests, snapshot: Snapshot) -> bool:
    found = judge(snapshot, [Requirement(selector, tests)], Wanted(), None, date.min)
    return all(finding.status.value == "pass" for finding in found)


# -- text ------------------------------------------------------------------------------------------------------------


def _lines(found: Sequence[Learned]) -> Iterator[str]:
    section, pattern = "", ""
    for one in found:
        if section_of(one.text) != section:
            section = section_of(one.text)
            title = (collector(section).__doc__ or section).strip().split("\n")[0].rstrip(".")
            yield from ("", f"# -- {clip(title, _COMMENT_WIDTH)}")
        if one.key.pattern != pattern:
            pattern = one.key.pattern
            yield f"# {clip(printable(keys()[pattern].meaning), _COMMENT_WIDTH)}"
        severity = ERROR if one.key.prior >= _ERROR_PRIOR else WARNING
        simple = severity == ERROR and list(one.tests) == ["equals"] and not isinstance(one.tests["equals"], list)
        value = (
            one.tests["equals"] if simple else {**one.tests, **({} if severity == ERROR else {"severity": severity})}
        )
        yield f"{quoted(one.text)} = {inline(value)}"
