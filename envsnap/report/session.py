"""What a session came to, as text and JSON."""

from __future__ import annotations

import shlex

from envsnap.reading import Json
from envsnap.report import runs as report
from envsnap.report.lines import Line
from envsnap.runs.compare import Comparison, compare
from envsnap.runs.session import Outcome


def text(outcome: Outcome) -> list[Line]:
    """Where the runs are, what two arms came to, and the next step."""
    runs = outcome.runs
    if not runs:
        return []
    good = sum(r.status == "ok" for r in runs)
    lines: list[Line] = [[(f"{good} of {len(runs)} runs ok", "title"), (f"  group {runs[0].group}", "dim")]]
    if comparison := _arms(outcome):
        lines += report.text(comparison)
    elif good and not any(r.metrics for r in runs):
        lines.append([("No figures were read: name their file with --metrics, or a pattern with --metric.", "warn")])
    lines.append([(f"Next: {shlex.join(_next(outcome))}", "dim")])
    return lines


def as_json(outcome: Outcome) -> dict[str, Json]:
    """The session's JSON form."""
    comparison = _arms(outcome)
    return {
        "format": "envsnap.session",
        "version": 1,
        "exit_code": outcome.exit_code,
        "runs": [
            {
                "id": r.id,
                "group": r.group,
                "arm": r.arm,
                "status": r.status,
                "reason": r.reason,
                "exit_code": r.exit_code,
                "metrics": [m.as_json() for m in r.metrics],
                "warnings": list(r.warnings),
            }
            for r in outcome.runs
        ],
        "comparison": report.as_json(comparison) if comparison else None,
        "next": [_next(outcome)] if outcome.runs else [],
    }


def _arms(outcome: Outcome) -> Comparison | None:
    a, b = ([r for r in outcome.runs if r.arm == arm] for arm in ("a", "b"))
    return compare(a, b) if a and b else None


def _next(outcome: Outcome) -> list[str]:
    first = outcome.runs[0]
    if first.arm:
        return ["envsnap", "diff", f"{first.group}/a", f"{first.group}/b"]
    if first.status != "ok":
        return ["envsnap", "show", first.id]
    return ["envsnap", "diff", first.label or first.group, "last"]
