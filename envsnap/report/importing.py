"""What an import found, and the kinds of dumps that are known."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from envsnap.importers import kinds as known
from envsnap.reading import Json
from envsnap.report.lines import Line, cut
from envsnap.wording import clip, plural, printable

if TYPE_CHECKING:
    from envsnap.importers._assembly import Imported, Source

SHOWN = 5


def text(found: Imported, written: Sequence[str], width: int, everything: bool = False) -> list[Line]:
    """The dumps with what each gave, the figures, and what was not understood."""
    lines = [line for source in found.sources for line in _source(source)]
    values = sum(len(section.values) for section in found.snapshot.sections.values())
    sections = found.snapshot.sections.values()
    about = f"{plural(values, 'reading')} in {plural(len(sections), 'section')}"
    lines += [[], [(about, "title"), (", all partial: what a dump does not say is unknown, never a difference", "dim")]]
    lines += [[(f"  {path}  {message}", "warn")] for s in sections for path, message in s.errors.items()]
    for number, run in enumerate(found.runs, 1):
        figures = ", ".join(f"{m.name}\N{NO-BREAK SPACE}{m.value:.4g}\N{NO-BREAK SPACE}{m.unit}" for m in run.metrics)
        rows = textwrap.wrap(f"run {number} of {len(found.runs)}  {figures}", width, subsequent_indent="  ")
        if run.reason:
            lines.append([(f"run {number} of {len(found.runs)}  {run.status}: {run.reason}", "bad")])
            continue
        lines += [[(row.replace("\N{NO-BREAK SPACE}", " "), "")] for row in rows]
        lines += [[(f"  {warning}", "warn")] for warning in run.warnings]
    lines += _unknown(found, width, everything)
    lines += [[("written: ", "dim"), (path, "path")] for path in written]
    return lines


def _source(source: Source) -> Iterator[Line]:
    where = f"{source.file}:{source.first}-{source.last}"
    about = " ".join(filter(None, (source.tool, source.version)))
    yield [(where, "path"), (f"  {about}", "title"), (f"  {source.date}" if source.date else "", "dim")]
    said = [f"{plural(source.readings, 'reading')} from {plural(source.lines, 'line')}"]
    if source.figures:
        said.append(plural(source.figures, "figure"))
    if source.dropped:
        said.append(f"{plural(source.dropped, 'value')} left out")
    if source.not_understood:
        said.append(f"{source.not_understood:,} of {plural(source.lines, 'line')} not understood")
    yield [(f"  {', '.join(said)}", "")]
    for note in source.notes:
        yield [(f"  {note}", "warn")]


def _unknown(found: Imported, width: int, everything: bool) -> Iterator[Line]:
    if not found.not_understood:
        return
    yield []
    yield [(f"{found.not_understood:,} of {plural(found.lines, 'line')} not understood", "warn")]
    shown = found.unknown if everything else found.unknown[:SHOWN]
    for file, number, line in shown:
        yield [(f"  {file}:{number}  ", "path"), (clip(printable(line.strip()), max(20, width - 24)), "dim")]
    more = cut(found.not_understood, len(shown), "--all" if not everything else "see the file")
    if more:
        yield more


def as_json(found: Imported, written: Sequence[str]) -> dict[str, Json]:
    """The same as a document."""
    return {
        "format": "envsnap.import",
        "version": 1,
        "captured_at": found.snapshot.captured_at,
        "readings": sum(len(section.values) for section in found.snapshot.sections.values()),
        "disputed": {p: m for section in found.snapshot.sections.values() for p, m in section.errors.items()},
        "lines": found.lines,
        "not_understood": found.not_understood,
        "sources": [source.as_json() for source in found.sources],
        "runs": [[metric.as_json() for metric in run.metrics] for run in found.runs],
        "unknown": [{"file": file, "line": number, "text": line} for file, number, line in found.unknown],
        "written": list(written),
    }


def kinds(width: int, everything: bool = False) -> list[Line]:
    """The kinds of dumps, and of which versions samples were seen."""
    lines: list[Line] = []
    for kind in known():
        lines.append([(kind.name, "path"), (f"  {kind.tool}", "title")])
        for word, sentence in (("seen", kind.seen), ("untested", kind.untested)):
            rows = textwrap.wrap(f"{word}: {sentence}", width - 2)
            lines += [[(f"  {row}", "dim")] for row in rows]
    return lines


def kinds_json() -> dict[str, Json]:
    """The same as a document."""
    listed = [{"name": k.name, "tool": k.tool, "seen": k.seen, "untested": k.untested} for k in known()]
    return {"format": "envsnap.import_kinds", "version": 1, "kinds": listed}
