"""What a session came to, as text and JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import log
from statistics import median, stdev

from envsnap.reading import Json
from envsnap.report import runs as report
from envsnap.report.lines import Line
from envsnap.runs.compare import Comparison, compare
from envsnap.runs.run import Run
from envsnap.runs.session import Outcome

_SHOWN = 8


def text(outcome: Outcome) -> list[Line]:
    """Where the runs are, what they came to, and the next step."""
    runs = outcome.runs
    if not runs:
        return []
    good = [r for r in runs if r.status == "ok"]
    lines: list[Line] = [[(f"{len(good)} of {len(runs)} runs ok", "title"), (f"  group {runs[0].group}", "dim")]]
    if comparison := _arms(outcome):
        lines += report.text(comparison)
    elif good and not any(r.metrics for r in runs):
        lines.append([("No figures were read: name their file with --metrics, or a pattern with --metric.", "warn")])
    else:
        lines += _summary(good) if len(good) > 1 else []
        lines += [[(f"! {warning}", "warn")] for warning in dict.fromkeys(w for r in runs for w in r.warnings)]
    lines.append([(f"Next: {shlex.join(_next(outcome))}", "dim")])
    return lines


def _summary(runs: Sequence[Run]) -> list[Line]:
    """Each figure over the repetitions: median, range, and by how much single runs vary."""
    lines: list[Line] = []
    for metric in runs[0].metrics[:_SHOWN]:
        values = [m.value for r in runs for m in r.metrics if m.name == metric.name]
        unit = f" {metric.unit}" if metric.unit else ""
        line = [(f"  {metric.name:28}", "path"), (f"{median(values):.4g}{unit}", "")]
        if len(values) > 1:
            varies = stdev(map(log, values))
            line.append((f"  {min(values):.4g} to {max(values):.4g}, runs vary by {varies:.1%}", "dim"))
        lines.append(line)
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
    bad = next((r for r in outcome.runs if r.status != "ok"), None)
    return ["envsnap", "show", bad.id if bad else first.group]
