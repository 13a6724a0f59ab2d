"""Single runs as text: what they came to, what they cost, where their logs are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from envsnap.report.lines import Line
from envsnap.runs.run import Run
from envsnap.wording import shorten

_COLUMN = 28


def text(runs: Sequence[Run], folder: Path, width: int) -> list[Line]:
    """Each run by itself; `folder` is where the store keeps their logs."""
    lines: list[Line] = []
    for run in runs:
        lines += [[]] if lines else []
        lines += _run(run, folder / run.id, width)
    return lines


def _run(run: Run, logs: Path, width: int) -> list[Line]:
    words = {"ok": "good", "interrupted": "warn"}.get(run.status, "bad")
    lines: list[Line] = [
        [(run.id, "title"), (f"  {run.label}" if run.label else "", "title"), (f"  {run.status}", words),
         (f"  {run.started_at[:19].replace('T', ' ')}  {run.seconds:.1f} s", "dim")]
    ]  # fmt: skip
    if run.reason:
        lines.append([(f"  {run.reason}", "bad")])
    lines += [
        [(f"  {name:{_COLUMN}}", "path"), (shorten(value, max(20, width - _COLUMN - 2)), "")]
        for name, value in rows(run, logs)
    ]
    return lines + [[(f"  ! {warning}", "warn")] for warning in run.warnings]


def rows(run: Run, logs: Path | None = None) -> list[tuple[str, str]]:
    """What is known of a run, but for its outcome: (name, words) pairs; `logs` is the folder of its logs."""
    rows = [("benchmark", shlex.join(run.command)), ("server", shlex.join(run.server))]
    rows += [(f"arm {run.arm}", " ".join(_changed(n, v) for n, v in run.arm_environment.items()))]
    rows += [("added to the environment", " ".join(f"{n}={v}" for n, v in run.added.items()))]
    if run.exit_code:
        rows.append(("exit code", str(run.exit_code)))
    if run.window:
        rows.append(("measured", f"{run.window[1] - run.window[0]:.2f} s"))
    rows += [(m.name, f"{m.value:.6g} {m.unit}".rstrip() + f"  ({m.source})") for m in run.metrics]
    rows += [(f"asked: {name}", str(value)) for name, value in run.request.items()]
    rows += [("cost of envsnap", ", ".join(f"{n.removesuffix('_seconds')} {v:.2f} s" for n, v in run.costs.items()))]
    kept = sorted(logs.iterdir()) if logs and logs.is_dir() else []
    rows += [("logs" if i == 0 else "", str(p)) for i, p in enumerate(kept)]
    return [(name, value) for name, value in rows if value]


def _changed(name: str, value: str | None) -> str:
    return f"-u:{name}" if value is None else f"{name}={shlex.quote(value)}"
