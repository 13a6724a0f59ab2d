"""Changes between two snapshots, and what of them could not be compared.

Two values are compared by their key. A value against *unset* is a change. Whatever is unavailable, in error or
unknown on a side is *not compared*: counted and listed, never equal and never silently absent. What covers many
readings (a branch, a section that stopped early) is one entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from envsnap.change import Because, Change, Diff, NotCompared
from envsnap.collectors import key_for, keys
from envsnap.gpu_pairing import aligned
from envsnap.keys import Kind, parents_of, pattern_of
from envsnap.leaves import leaves
from envsnap.reading import Error, Json, Reading, Unavailable, Unknown, Unset, Value, Why
from envsnap.redact import comparable
from envsnap.snapshot import Section, Snapshot

HOSTNAME = "os.hostname"
BOOT_ID = "kernel.boot_id"

ALWAYS = frozenset({Kind.IDENTITY, Kind.TUNABLE})
ON_REQUEST = frozenset({Kind.COUNTER, Kind.VOLATILE, Kind.LABEL})


def diff(a: Snapshot, b: Snapshot, *, also: Iterable[Kind] = ()) -> Diff:
    """Compare two snapshots: identities and tunables, and conditions where both were taken under load.

    `also` asks for counters (as they stand; their growth is a matter of runs), volatile readings (within their
    tolerance) and labels. Conditions of an idle machine mean nothing and cannot be asked for. GPUs are paired by the
    rank that held them, and paths name them as in `a`.
    """
    b, pairing = aligned(a, b)
    kinds = ALWAYS | (ON_REQUEST & frozenset(also))
    if a.moment == b.moment == "during":
        kinds |= {Kind.CONDITION}
    work = _Comparison(a, b, kinds)
    for name in sorted({*a.sections, *b.sections}):
        work.section(name)
    return Diff(
        changes=tuple(sorted(work.changes, key=lambda c: (-c.key.prior, c.path, c.leaf))),
        not_compared=tuple(sorted(work.not_compared, key=lambda n: (n.settled, n.path))),
        same=tuple(work.same),
        left_out=dict(work.left_out),
        notes=(*_notes(a, b), *([pairing] if pairing else [])),
    )


class _Comparison:
    """The work of one diff."""

    def __init__(self, a: Snapshot, b: Snapshot, kinds: frozenset[Kind]) -> None:
        self.a, self.b, self.kinds = a, b, kinds
        self.changes: list[Change] = []
        self.not_compared: list[NotCompared] = []
        self.same: list[str] = []
        self.left_out: Counter[Kind] = Counter()

    def section(self, name: str) -> None:
        one, two = self.a.sections.get(name), self.b.sections.get(name)
        if one is None or two is None:
            only = self._count(one), self._count(two)
            self._skip(name, Because.NO_SECTION, _state(one), _state(two), only, f"only in {'A' if one else 'B'}")
            return
        for path, value in one.values.items():
            if path in two.values:
                self._values(path, value, two.values[path])
        gaps = _Gaps(self._one_sided(one, two, mirrored=False), self._one_sided(two, one, mirrored=True))
        self._unreadable(one, two, gaps)
        self._incomplete(name, one, two, gaps)
        only = gaps.a.unknown_keys, gaps.b.unknown_keys
        if any(only):
            detail = f"written by envsnap {self.a.envsnap} and {self.b.envsnap}"
            a, b = (Unknown() if count else None for count in reversed(only))
            self._skip(name, Because.UNKNOWN_KEY, a, b, only, detail)

    def _is_asked_for(self, path: str) -> bool:
        kind = key_for(path).kind
        if kind in self.kinds:
            return True
        self.left_out[kind] += 1
        return False

    def _count(self, section: Section | None) -> int:
        return sum(self._is_asked_for(path) for path in section.values) if section else 0

    def _skip(
        self,
        path: str,
        because: Because,
        a: Reading | None,
        b: Reading | None,
        only: tuple[int, int] = (0, 0),
        detail: str = "",
    ) -> None:
        self.not_compared.append(NotCompared(path, because, a, b, only, detail))

    def _values(self, path: str, a: Json, b: Json) -> None:
        if not self._is_asked_for(path):
            return
        if _identical(a, b):
            self.same.append(path)
            return
        key = key_for(path)
        if isinstance(a, dict) and isinstance(b, dict):
            found = [Change(path, key, before, after, leaf) for leaf, before, after in leaves(key, a, b)]
        else:
            found = [] if key.same(a, b) else [Change(path, key, Value(a), Value(b))]
        if not found:
            self.same.append(path)
        for change in found:
            if _comparable(change):
                self.changes.append(change)
            else:
                self._skip(path + change.leaf, Because.HASHES, change.before, change.after)

    def _one_sided(self, holder: Section, other: Section, mirrored: bool) -> _Gap:
        """Values that only `holder` has: changes where the other side says *unset*, gaps otherwise."""
        gap = _Gap()
        for path, value in holder.values.items():
            if path in other.values or not self._is_asked_for(path):
                continue
            cover = _cover(path, other)
            if cover:
                gap.covered[cover] += 1
            elif not other.complete:
                gap.unknown += 1
            elif self.a.envsnap != self.b.envsnap and pattern_of(path) not in gap.patterns_of(other):
                gap.unknown_keys += 1
            else:
                pair = (Unset(), Value(value)) if mirrored else (Value(value), Unset())
                self.changes.append(Change(path, key_for(path), *pair))
        return gap

    def _unreadable(self, one: Section, two: Section, gaps: _Gaps) -> None:
        for path in sorted({*one.unavailable, *one.errors, *two.unavailable, *two.errors}):
            held = path in one.values, path in two.values
            if all(held) or not self._may_matter(path, counted=any(held)):
                continue
            a = None if gaps.a.covered[path] and not held[0] else one.reading(path)
            b = None if gaps.b.covered[path] and not held[1] else two.reading(path)
            self._skip(path, Because.UNREADABLE, a, b, (gaps.a.covered[path], gaps.b.covered[path]))

    def _may_matter(self, path: str, counted: bool) -> bool:
        """Whether a path, or for a branch any path below it, is of a kind that is compared."""
        pattern = pattern_of(path)
        if pattern in keys():
            return key_for(path).kind in self.kinds if counted else self._is_asked_for(path)
        below = [k for p, k in keys().items() if p.startswith((f"{pattern}.", f"{pattern}["))]
        return not below or any(k.kind in self.kinds or any(at.kind in self.kinds for at in k.at) for k in below)

    def _incomplete(self, name: str, one: Section, two: Section, gaps: _Gaps) -> None:
        if one.complete and two.complete:
            return
        detail = "; ".join(
            f"{side}: {section.status}{f', {section.reason}' if section.reason else ''}"
            for side, section in (("A", one), ("B", two))
            if not section.complete
        )
        only = gaps.a.unknown, gaps.b.unknown
        self._skip(name, Because.INCOMPLETE, _state(one), _state(two), only, detail)


class _Gap:
    """What one side has that the other cannot answer: by covering branch, and counts."""

    def __init__(self) -> None:
        self.covered: Counter[str] = Counter()
        self.unknown = 0
        self.unknown_keys = 0
        self._patterns: set[str] | None = None

    def patterns_of(self, other: Section) -> set[str]:
        if self._patterns is None:
            self._patterns = {pattern_of(path) for path in other.values}
        return self._patterns


@dataclass(frozen=True)
class _Gaps:
    """Side A's values without counterpart in B, and the reverse."""

    a: _Gap
    b: _Gap


_WHYS = {why.value for why in Why}


def _identical(a: Json, b: Json) -> bool:
    """Quick and exact: `1 == True` in Python, so containers have to look alike too."""
    if a is b:
        return True
    return type(a) is type(b) and a == b and (not isinstance(a, (dict, list)) or repr(a) == repr(b))


def _comparable(change: Change) -> bool:
    if isinstance(change.before, Value) and isinstance(change.after, Value):
        return comparable(change.before.value, change.after.value)
    return True


def _cover(path: str, section: Section) -> str:
    """The path or branch for which the section says why it holds nothing there; empty if none."""
    held = section.unavailable, section.errors
    if not any(held):
        return ""
    return next((p for p in (path, *parents_of(path)) if any(p in h for h in held)), "")


def _state(section: Section | None) -> Reading | None:
    """What a section as a whole says: None where it was read, at least in part of what there is."""
    if section is None:
        return Unknown()
    if section.complete:
        return None
    if section.status == "error":
        return Error(section.reason)
    if section.status == "timeout":
        return Unavailable(Why.TIMEOUT, section.reason)
    why, _, detail = section.reason.partition(": ")
    if section.status == "unavailable" and why in _WHYS:
        return Unavailable(Why(why), detail)
    return Unknown()


def _differ(a: Snapshot, b: Snapshot, path: str) -> bool:
    return path in a.values and path in b.values and a.values[path] != b.values[path]


def _without_pids(scope: Mapping[str, Json]) -> dict[str, Json]:
    """What was asked for: neither which processes that were, nor the dumps that something was imported from."""
    return {name: value for name, value in scope.items() if name not in ("pids", "imported")}


def _notes(a: Snapshot, b: Snapshot) -> Iterable[str]:
    if a.envsnap != b.envsnap:
        yield f"A was written by envsnap {a.envsnap}, B by {b.envsnap}: keys that only one of them knows stay out."
    if _differ(a, b, HOSTNAME):
        yield f"A and B are of different hosts: {a.values[HOSTNAME]} and {b.values[HOSTNAME]}."
    elif _differ(a, b, BOOT_ID):
        yield "The machine was rebooted in between."
    if a.moment != b.moment:
        yield f"A was taken at the moment {a.moment!r}, B at {b.moment!r}."
    asked = _without_pids(a.scope), _without_pids(b.scope)
    if asked[0] != asked[1] and not ("imported" in a.scope or "imported" in b.scope):
        yield "A and B were captured with different scopes (processes, repositories, models)."
    one, two = a.redaction.get("key_id"), b.redaction.get("key_id")
    if one != two and one and two:
        yield "Secrets were hashed with different keys, so whether one changed is not known."
