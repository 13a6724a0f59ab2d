"""A check's result in the forms that continuous integration reads: JUnit XML and GitHub annotations."""

from __future__ import annotations

from collections import Counter

from envsnap.check import CheckResult, Finding, Status
from envsnap.report.check import headline
from envsnap.wording import printable


def junit(result: CheckResult) -> str:
    """JUnit XML: one test case a finding. A required unknown is an error, what does not apply is skipped."""
    counts = Counter(_element(f) for f in result.findings)
    head = (
        f'<testsuite name="envsnap check" tests="{len(result.findings)}" failures="{counts["failure"]}" '
        f'errors="{counts["error"]}" skipped="{counts["skipped"]}">'
    )
    cases = [line for finding in result.findings for line in _case(finding)]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>"]) + "\n"


def _element(finding: Finding) -> str:
    """The element that says how a test case ended; empty for a pass."""
    if finding.status is Status.UNKNOWN and finding.required:
        return "error"
    return {Status.FAIL: "failure", Status.NOT_APPLICABLE: "skipped", Status.WAIVED: "skipped"}.get(finding.status, "")


def _case(finding: Finding) -> list[str]:
    name = f"<testcase classname={_quoted(f'envsnap.{finding.code}')} name={_quoted(finding.title)}"
    element = _element(finding)
    if element:
        inner = f"<{element} message={_quoted(_with_advice(finding))}/>"
    elif finding.status in (Status.WARNING, Status.UNKNOWN):
        inner = f"<system-out>{_escaped(f'{finding.status.value}: {_with_advice(finding)}')}</system-out>"
    else:
        return [f"  {name}/>"]
    return [f"  {name}>", f"    {inner}", "  </testcase>"]


def github(result: CheckResult) -> str:
    """Workflow commands that GitHub shows as annotations, and a last line that says it all."""
    lines = [f"::{level}::{_command(_with_advice(f))}" for f in result.findings if (level := _level(f))]
    return "\n".join([*lines, printable(headline(result))]) + "\n"


def _level(finding: Finding) -> str:
    title = f" title={_command(f'envsnap {finding.code}', ':,')}"
    if finding.status is Status.FAIL or (finding.status is Status.UNKNOWN and finding.required):
        return f"error{title}"
    if finding.status in (Status.WARNING, Status.UNKNOWN):
        return f"warning{title}"
    return f"notice{title}" if finding.status is Status.WAIVED else ""


def _with_advice(finding: Finding) -> str:
    return f"{finding.title}. {finding.advice}" if finding.advice else finding.title


def _command(text: str, also: str = "") -> str:
    """Text as it may stand in a workflow command."""
    plain = printable(text).replace("%", "%25")
    for character in also:
        plain = plain.replace(character, f"%{ord(character):02X}")
    return plain


def _escaped(text: str) -> str:
    return printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _quoted(text: str) -> str:
    return '"' + _escaped(text).replace('"', "&quot;") + '"'
