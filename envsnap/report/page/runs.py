"""The runs themselves: what was called, what it came to, what envsnap cost."""

from __future__ import annotations

from envsnap.report import run as report
from envsnap.report.page.content import Content
from envsnap.report.page.parts import bullets, code, fold, mark, row, section, table
from envsnap.report.page.tree import Node, el
from envsnap.runs.run import Run
from envsnap.wording import plural


def runs(content: Content) -> Node | None:
    """The section about single runs; None where there are none."""
    held = content.runs
    if not held:
        return None
    two = len(content.sides) > 1
    return section(
        "runs", "Runs", *(_run(letter if two else "", run) for letter, run in held), note=plural(len(held), "run")
    )


def _run(letter: str, run: Run) -> Node:
    style = {"ok": "good", "interrupted": "warn"}.get(run.status, "bad")
    summary = [
        mark(letter) if letter else None,
        el("b", run.id),
        el("span", run.label),
        el("span", run.status, class_=style),
        el("span", f"{run.started_at[:19].replace('T', ' ')}  {run.seconds:.1f} s", class_="dim"),
    ]
    rows = [row(name, code(words)) for name, words in report.rows(run)]
    return fold(
        summary,
        el("p", run.reason, class_="bad") if run.reason else None,
        table(f"Run {run.id}", ["", ""], rows, "readings"),
        bullets(run.warnings, "warn"),
        class_="run",
    )
