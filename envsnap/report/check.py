"""A check's result as text, markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envsnap.check import CheckResult, Finding, Status, rules
from envsnap.check.rules import Rule
from envsnap.reading import Json
from envsnap.report.lines import Line, cut
from envsnap.report.markdown import code, table
from envsnap.wording import plural, printable

ROWS = 25
_NEXT = 3
_STYLES = {
    Status.PASS: "good", Status.FAIL: "bad", Status.UNKNOWN: "warn", Status.WARNING: "warn", Status.WAIVED: "dim",
    Status.NOT_APPLICABLE: "dim",
}  # fmt: skip
_LABELS = {status: status.value.upper() for status in Status} | {Status.NOT_APPLICABLE: "N/A"}
_SHORT_FOR_MANY = {Status.PASS: "found nothing wrong", Status.NOT_APPLICABLE: "do not apply here"}


def is_rule(finding: Finding) -> bool:
    """Whether it comes from a built-in rule; the codes of policy and baseline have a dot."""
    return "." not in finding.code


def text(result: CheckResult, everything: bool = False) -> list[Line]:
    """One line per finding, failures first; a last line that says it all. Rules at rest make one line together."""
    told = list(result.findings if everything else (f for f in result.findings if not _at_rest(f)))
    shown = told if everything else told[:ROWS]
    lines: list[Line] = [[(f"! {note}", "warn")] for note in result.notes]
    lines += [_line(finding) for finding in shown]
    lines += filter(None, [cut(len(told), len(shown))])
    if not everything:
        lines += _at_rest_lines(result.findings)
    lines.append([(headline(result), "title")])
    return lines


def _at_rest(finding: Finding) -> bool:
    return finding.status in _SHORT_FOR_MANY and is_rule(finding)


def _at_rest_lines(findings: Iterable[Finding]) -> list[Line]:
    lines: list[Line] = []
    for status, words in _SHORT_FOR_MANY.items():
        codes = [f.code for f in findings if f.status is status and is_rule(f)]
        if codes:
            title = (
                f"{plural(len(codes), 'built-in rule')} {words if len(codes) > 1 else words.replace('do ', 'does ')}"
            )
            lines.append([(f"{_LABELS[status]:<9}", _STYLES[status]), (" " * 8, ""), (title, "dim")])
    return lines


def _line(finding: Finding) -> Line:
    judged = finding.status in (Status.FAIL, Status.WARNING)
    weight = f"{finding.severity.value:<8}" if judged else " " * 8
    advice = f"  {finding.advice}" if finding.advice else ""
    name = f"  [{finding.code}]" if is_rule(finding) else ""
    return [
        (f"{_LABELS[finding.status]:<9}", _STYLES[finding.status]),
        (weight, ""),
        (finding.title, ""),
        (advice, "dim"),
        (name, "dim"),
    ]


def headline(result: CheckResult) -> str:
    """The result in one line."""
    warnings = f", {plural(len(result.warned), 'warning')}" if result.warned else ""
    if result.failed:
        met = plural(len(result.failed), "requirement")
        return f"fail: {met} not met, {len(result.unknown):,} unknown{warnings}"
    if result.unknown:
        return f"unknown: {plural(len(result.unknown), 'requirement')} could not be checked{warnings}"
    return f"pass{warnings}"


def markdown(result: CheckResult, everything: bool = False) -> str:
    """The result to paste into an issue."""
    told: Sequence[Finding] = [f for f in result.findings if everything or not _at_rest(f)]
    shown = told if everything else told[:ROWS]
    rows = [[f.status.value, f.severity.value, code(f.title), printable(f.advice).replace("|", "\\|")] for f in shown]
    out = [f"**{headline(result)}**", "", *(f"- {printable(note)}" for note in result.notes), ""]
    out += table(["status", "severity", "finding", "advice"], rows)
    if len(shown) < len(told):
        out += ["", f"… and {len(told) - len(shown)} more"]
    return "\n".join(out) + "\n"


def rules_json(found: Iterable[Rule]) -> dict[str, Json]:
    """What built-in rules mean, as JSON."""
    rows = [
        {
            "code": rule.CODE,
            "title": rules.title(rule),
            "severity": rule.SEVERITY,
            "when": rules.moment(rule),
            "needs": list(rule.NEEDS),
            "uses": list(rules.uses(rule)),
            "text": (rule.__doc__ or "").strip(),
        }
        for rule in found
    ]
    return {"format": "envsnap.rules", "version": 1, "rules": rows}


def as_json(result: CheckResult, snapshot: str, baseline: str = "", policy: Sequence[str] = ()) -> dict[str, Json]:
    """The result's JSON form; `snapshot`, `baseline` and `policy` say what was checked against what."""
    told = (*result.failed, *result.unknown, *result.warned)
    explained = [["envsnap", "check", "--explain", c] for c in dict.fromkeys(f.code for f in told if is_rule(f))]
    keys = [["envsnap", "key", f.evidence[0]] for f in told if f.evidence and not is_rule(f)]
    return {
        "format": "envsnap.check",
        "version": 1,
        "snapshot": snapshot,
        "baseline": baseline,
        "policy": list(policy),
        "status": result.status.value,
        "notes": list(result.notes),
        "findings": [
            {
                "code": f.code,
                "status": f.status.value,
                "severity": f.severity.value,
                "required": f.required,
                "title": f.title,
                "evidence": list(f.evidence),
                "advice": f.advice,
            }
            for f in result.findings
        ],
        "next": [*keys, *explained][:_NEXT],
    }
