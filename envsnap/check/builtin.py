"""The built-in rules at work: each is asked about a snapshot, within what a policy says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from envsnap.check.facts import ALWAYS, ERROR, WARNING, Facts, Gap, Index, NotApplicable, Problem, gaps
from envsnap.check.finding import Finding, Severity, Status
from envsnap.check.rules import BEFORE, Rule, absence_is_judged, codes, moment, rule, title, uses
from envsnap.check.waivers import Waiver, waived
from envsnap.check.wanted import Wanted
from envsnap.reading import describe
from envsnap.snapshot import Snapshot
from envsnap.wording import clip, plural

OFF = "off"
SEVERITIES = (OFF, WARNING, ERROR)

_WHY_WIDTH = 200


@dataclass(frozen=True)
class Setting:
    """What a policy says of a rule; an empty severity leaves the rule's own."""

    severity: str = ""
    waiver: Waiver | None = None


def chosen(settings: Mapping[str, Setting], when: str = BEFORE) -> list[Rule]:
    """The rules of a moment that are not switched off."""
    rules = (rule(code) for code in codes() if settings.get(code, Setting()).severity != OFF)
    return [each for each in rules if moment(each) == when]


def sections(rules: Iterable[Rule]) -> set[str]:
    """The sections that rules need."""
    from envsnap.collectors import section_of

    patterns = {p for each in rules for p in (*each.NEEDS, *uses(each), *ALWAYS)}
    return {name for name in map(section_of, patterns) if name}


def judge(
    snapshot: Snapshot,
    rules: Iterable[Rule],
    wanted: Wanted,
    settings: Mapping[str, Setting],
    today: date,
) -> list[Finding]:
    """One finding for each problem, unknown, inapplicability and pass."""
    index = Index(snapshot)
    return [f for each in rules for f in _judged(each, index, wanted, settings.get(each.CODE, Setting()), today)]


def _judged(of: Rule, index: Index, wanted: Wanted, setting: Setting, today: date) -> list[Finding]:
    missing = {pattern: gaps(index.snapshot, pattern) for pattern in of.NEEDS}
    blind = [gap for found in missing.values() for gap in found if not gap.absent]
    severity = setting.severity or of.SEVERITY
    nothing = None if absence_is_judged(of) else _subject_missing(index, missing)
    problems: list[Problem] = []
    if nothing is None and not (blind and _lacks_all(index, of)):
        try:
            problems = list(of.judge(Facts(index, wanted, of.NEEDS, uses(of))))
        except NotApplicable as reason:
            nothing = str(reason)
        except Exception as error:  # a snapshot can hold anything; a rule that trips over it has not passed
            blind.append(Gap(of.CODE, f"the rule itself failed: {describe(error)}", absent=False))
    found = [_finding(of, problem, setting, today) for problem in problems]
    if blind:
        return [*found, _unknown(of, blind, severity)]
    if found:
        return found
    if nothing is not None:
        return [Finding(of.CODE, Status.NOT_APPLICABLE, Severity.LOW, nothing)]
    return [Finding(of.CODE, Status.PASS, Severity.LOW, f"not the case: {title(of)}")]


def _subject_missing(index: Index, missing: Mapping[str, list[Gap]]) -> str | None:
    """Why there is nothing to judge: some need has no value, and the reason is that there is no such thing."""
    for pattern, found in missing.items():
        if found and not index.values.get(pattern) and all(gap.absent for gap in found):
            return clip(f"{found[0].path}: {found[0].why}", _WHY_WIDTH)
    return None


def _lacks_all(index: Index, of: Rule) -> bool:
    """Whether a single fact that it needs has no value: then there is nothing to ask it."""
    return not absence_is_judged(of) and any("[]" not in p and p not in index.values for p in of.NEEDS)


def _finding(of: Rule, problem: Problem, setting: Setting, today: date) -> Finding:
    severity = setting.severity or problem.severity or of.SEVERITY
    return waived(
        Finding(
            code=of.CODE,
            status=Status.FAIL if severity == ERROR else Status.WARNING,
            severity=Severity.HIGH if severity == ERROR else _cost(of, problem.evidence),
            title=problem.title,
            evidence=problem.evidence,
            advice=problem.advice,
        ),
        setting.waiver,
        today,
    )


def _unknown(of: Rule, blind: list[Gap], severity: str) -> Finding:
    more = f", and {plural(len(blind) - 1, 'more gap')}" if len(blind) > 1 else ""
    why = clip(f"{blind[0].path}: {blind[0].why}", _WHY_WIDTH)
    return Finding(
        code=of.CODE,
        status=Status.UNKNOWN,
        severity=_cost(of, of.NEEDS),
        title=f"not judged ({title(of).rstrip('.')}): {why}{more}",
        evidence=tuple(dict.fromkeys(gap.path for gap in blind)),
        required=severity == ERROR,
    )


def _cost(of: Rule, paths: Iterable[str]) -> Severity:
    """As much as the likeliest cause among what it rests on."""
    from envsnap.collectors import key_for

    return Severity.of(max((key_for(path).prior for path in paths or of.NEEDS), default=0.0))
