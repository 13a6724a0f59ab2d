"""A check's result as text, markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from envsnap.check import CheckResult, Finding, Status
from envsnap.reading import Json
from envsnap.report.lines import Line, cut
from envsnap.report.markdown import code, table
from envsnap.wording import plural, printable

ROWS = 25
_NEXT = 3
_STYLES = {Status.PASS: "good", Status.FAIL: "bad", Status.UNKNOWN: "warn"}


def text(result: CheckResult, everything: bool = False) -> list[Line]:
    """One line per finding, failures first; a last line that says it all."""
    shown = result.findings if everything else result.findings[:ROWS]
    lines: list[Line] = [[(f"! {note}", "warn")] for note in result.notes]
    lines += [_line(finding) for finding in shown]
    lines += filter(None, [cut(len(result.findings), len(shown))])
    lines.append([(headline(result), "title")])
    return lines


def _line(finding: Finding) -> Line:
    weight = f"{finding.severity.value:<8}" if finding.status is Status.FAIL else " " * 8
    advice = f"  {finding.advice}" if finding.advice else ""
    return [
        (f"{finding.status.value.upper():<9}", _STYLES[finding.status]),
        (weight, ""),
        (finding.title, ""),
        (advice, "dim"),
    ]


def headline(result: CheckResult) -> str:
    """The result in one line."""
    if result.failed:
        return f"fail: {plural(len(result.failed), 'requirement')} not met, {len(result.unknown):,} unknown"
    return f"unknown: {plural(len(result.unknown), 'requirement')} could not be checked" if result.unknown else "pass"


def markdown(result: CheckResult, everything: bool = False) -> str:
    """The result to paste into an issue."""
    shown: Sequence[Finding] = result.findings if everything else result.findings[:ROWS]
    rows = [[f.status.value, f.severity.value, code(f.title), printable(f.advice).replace("|", "\\|")] for f in shown]
    out = [f"**{headline(result)}**", "", *(f"- {printable(note)}" for note in result.notes), ""]
    out += table(["status", "severity", "finding", "advice"], rows)
    if len(shown) < len(result.findings):
        out += ["", f"… and {len(result.findings) - len(shown)} more"]
    return "\n".join(out) + "\n"


def as_json(result: CheckResult, snapshot: str, baseline: str) -> dict[str, Json]:
    """The result's JSON form."""
    status = Status.FAIL if result.failed else Status.UNKNOWN if result.unknown else Status.PASS
    paths = [f.evidence[0] for f in (*result.failed, *result.unknown) if f.evidence]
    return {
        "format": "envsnap.check",
        "version": 1,
        "snapshot": snapshot,
        "baseline": baseline,
        "status": status.value,
        "notes": list(result.notes),
        "findings": [
            {
                "code": f.code,
                "status": f.status.value,
                "severity": f.severity.value,
                "title": f.title,
                "evidence": list(f.evidence),
                "advice": f.advice,
            }
            for f in result.findings
        ],
        "next": [["envsnap", "key", path] for path in paths[:_NEXT]],
    }
