"""A good snapshot as policy: its identities and tunables must hold.

What the baseline could not read itself is not required. What it could and the snapshot cannot is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from envsnap.change import Because, Diff, NotCompared
from envsnap.check.finding import CheckResult, Finding, Severity, Status
from envsnap.collectors import key_for
from envsnap.diff import diff
from envsnap.fold import Group, fold, grouped
from envsnap.keys import matches
from envsnap.reading import Error, Unavailable, Unknown, Value
from envsnap.snapshot import Snapshot
from envsnap.wording import absence_text, pair_text, plural

_VALUE_WIDTH = 160


def check(snapshot: Snapshot, baseline: Snapshot, *, ignore: Iterable[str] = ()) -> CheckResult:
    """Whether `snapshot` holds what `baseline` held, in the sections that the baseline has.

    `ignore` are patterns of paths (only `*` is special) that are not required.
    """
    required = replace(snapshot, sections={n: s for n, s in snapshot.sections.items() if n in baseline.sections})
    found = _without(diff(baseline, required), tuple(ignore))
    findings = [_changed(group) for group in grouped(found.changes)]
    findings += _unread([n for n in found.not_compared if _is_required(n)], snapshot)
    if found.equal:
        findings.append(
            Finding("baseline.holds", Status.PASS, Severity.LOW, f"{plural(found.equal, 'reading')} as in the baseline")
        )
    return CheckResult.of(findings, found.notes)


def _without(found: Diff, ignore: Sequence[str]) -> Diff:
    if not ignore:
        return found

    def kept(path: str) -> bool:
        return not any(matches(path, pattern) for pattern in ignore)

    return replace(
        found,
        changes=tuple(c for c in found.changes if kept(c.path)),
        not_compared=tuple(n for n in found.not_compared if kept(n.path)),
    )


def _changed(group: Group) -> Finding:
    change = group.first
    was, now = pair_text(change.key, change.before, change.after, _VALUE_WIDTH)
    return Finding(
        code="baseline.changed",
        status=Status.FAIL,
        severity=Severity.of(change.key.prior),
        title=f"{group.title} is {now}, the baseline has {was}",
        evidence=tuple(c.path for c in group.changes),
        advice=change.key.advice,
    )


def _is_required(entry: NotCompared) -> bool:
    """Whether the baseline says something here: a value, *unset*, or a branch or section that it read."""
    return entry.only[0] > 0 or not isinstance(entry.before, (Unavailable, Error, Unknown))


def _unread(entries: Sequence[NotCompared], snapshot: Snapshot) -> list[Finding]:
    alike: dict[str, list[str]] = {}
    for entry in entries:
        alike.setdefault(_why(entry, snapshot), []).append(entry.path)
    return [
        Finding(
            code="baseline.unknown",
            status=Status.UNKNOWN,
            severity=Severity.of(max(key_for(path).prior for path in paths)),
            title=f"{title} could not be compared: {why}",
            evidence=tuple(paths),
        )
        for why, members in alike.items()
        for title, paths in fold(members)
    ]


def _why(entry: NotCompared, snapshot: Snapshot) -> str:
    match entry.because:
        case Because.HASHES:
            return "its secret was hashed with another key"
        case Because.NO_SECTION:
            return "it was not captured"
        case Because.INCOMPLETE:
            section = snapshot.sections[entry.path]
            return "the baseline is incomplete" if section.complete else f"{section.status}, {section.reason}"
        case Because.UNREADABLE if entry.after is not None and not isinstance(entry.after, Value):
            return absence_text(entry.after)
    return entry.detail
