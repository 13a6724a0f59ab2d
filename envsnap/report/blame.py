"""When a reading changed, as text and JSON: one line a value, oldest first."""

from __future__ import annotations

import json
from collections.abc import Sequence

from envsnap.explain.blame import Blame, Span
from envsnap.fold import fold
from envsnap.reading import Json
from envsnap.report.lines import Line, cut
from envsnap.states import UNSET
from envsnap.wording import plural, printable, shorten

ROWS = 12
_VALUE = 40


def text(found: Sequence[Blame], metric: str | None, everything: bool = False) -> list[Line]:
    """Paths that changed the same way together; those that never did in one line."""
    alike: dict[tuple[Span, ...], list[str]] = {}
    for each in found:
        if each.changed:
            alike.setdefault(each.spans, []).append(each.path)
    rows = [(title, spans) for spans, paths in alike.items() for title, _ in fold(paths)]
    shown = rows if everything else rows[:ROWS]
    lines: list[Line] = []
    for title, spans in shown:
        lines.append([(title, "path"), (f"  {metric}" if metric else "", "dim")])
        before: float | None = None
        for span in spans:
            lines.append(_span(span, before))
            before = span.median if span.median is not None else before
    lines += filter(None, [cut(len(rows), len(shown))])
    still = [each for each in found if not each.changed]
    if still:
        titles = ", ".join(title for title, _ in fold([b.path for b in still])[:3])
        lines.append([(f"never changed: {plural(len(still), 'path')} ({shorten(titles, 80)})", "dim")])
    return lines


def _span(span: Span, before: float | None) -> Line:
    figure = "" if span.median is None else f"{span.median:.4g}"
    moved = f"  ×{span.median / before:.3f}" if span.median is not None and before else ""
    labels = f"  {', '.join(span.labels[:3])}" if span.labels else ""
    return [
        (f"  {span.start[:16].replace('T', ' ')}  ", "dim"),
        (f"{shorten(value_text(span.value), _VALUE):{_VALUE}}  ", "" if span.value is not None else "warn"),
        (f"{figure:>8}{moved:10}", ""),
        (f"  {plural(len(span.runs), 'run')}{labels}", "dim"),
    ]


def value_text(signature: str | None) -> str:
    """A signature for people."""
    if signature is None:
        return "not known"
    if signature == UNSET or signature.startswith("sha256:"):
        return signature[:16]
    value = json.loads(signature)
    return printable(value if isinstance(value, str) and value else signature)


def as_json(pattern: str, found: Sequence[Blame], metric: str | None) -> dict[str, Json]:
    """The JSON form."""
    return {
        "format": "envsnap.blame",
        "version": 1,
        "pattern": pattern,
        "metric": metric,
        "paths": [
            {
                "path": each.path,
                "spans": [
                    {"value": s.value, "from": s.start, "to": s.end, "runs": list(s.runs), "median": s.median}
                    for s in each.spans
                ],
            }
            for each in found
        ],
    }
