"""What changed, what is not known, and on demand everything that is equal; of one side all its readings."""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Diff
from envsnap.collectors import key_for, section_of
from envsnap.fold import Group, grouped
from envsnap.report import diff as report
from envsnap.report import show
from envsnap.report.page.content import Content
from envsnap.report.page.parts import bullets, code, fold, mark, row, section, spans, table
from envsnap.report.page.tree import Child, Node, el
from envsnap.report.page.values import is_text, pair
from envsnap.snapshot import Section, Snapshot
from envsnap.wording import plural, reading_text


def changes(content: Content) -> Node | None:
    """The section about what changed; None for one side."""
    if (found := content.diff) is None:
        return None
    body: list[Child] = [el("p", f"{report.headline(found)}."), bullets(found.notes, "warn")]
    for heading, groups in report.by_effect(grouped(found.changes)):
        told: set[str] = set()
        rows = [_change(group, told) for group in groups]
        body += [el("h3", heading), table(f"Changes: {heading}", ["reading", mark("a"), mark("b")], rows, "pairs")]
    if left_out := report.left_out_text(found):
        body.append(el("p", f"{left_out}. The options are those of envsnap diff.", class_="dim"))
    return section("changes", "Changes", *body, note=plural(len(grouped(found.changes)), "change"))


def _change(group: Group, told: set[str]) -> Node:
    """A change; what its key means is told where it comes first."""
    change = group.first
    meaning = el("span", change.key.meaning, class_="meaning") if change.key.meaning not in told else None
    told.add(change.key.meaning)
    name = [code(group.title, "path"), meaning]
    if not is_text(change):
        return row(name, *pair(change))
    excerpt = [el("div", *spans(line), class_="excerpt") for line in report.excerpt(group)]
    one, two = (
        el("td", reading_text(change.key, r), class_="value", data_side=letter)
        for r, letter in ((change.before, "A"), (change.after, "B"))
    )
    if excerpt:
        two.append(el("details", el("summary", "lines"), *excerpt))
    return row(name, one, two)


def unknown(content: Content) -> Node | None:
    """The section about what could not be compared, or for one side not read."""
    if content.diff is None:
        return _not_read(content.sides[0].snapshot)
    rows = [row(code(title, "path"), words) for title, words in report.gap_rows(content.diff.not_compared)]
    settled = report.settled_rows(content.diff)
    if not rows and not settled:
        return None
    body: list[Child] = []
    if rows:
        body.append(table("What may hide a change", ["reading", "why"], rows, "sentences"))
    if settled:
        body.append(fold("Not there on either side", bullets(settled)))
    return section("unknown", "Unknown", *body, note="never equal, never a pass")


def _not_read(snapshot: Snapshot) -> Node | None:
    rows = [
        row(code(title, "path"), words)
        for _, s in sorted(snapshot.sections.items())
        for title, words, _ in show.absent_rows(s)
    ]
    short = [
        row(code(name, "path"), f"{s.status}{f': {s.reason}' if s.reason else ''}")
        for name, s in sorted(snapshot.sections.items())
        if s.status != "ok"
    ]
    if not rows and not short:
        return None
    return section(
        "unknown", "Not read", table("What could not be read", ["reading", "why"], [*short, *rows], "sentences")
    )


def equal(content: Content) -> Node | None:
    """The section with what is the same on both sides, or for one side with all that was read, by collector."""
    if content.diff is None:
        sections = content.sides[0].snapshot.sections
        folds = [_fold(name, _values(s), len(s.values)) for name, s in sorted(sections.items()) if s.values]
        return section("readings", "Readings", *folds) if folds else None
    a, b = content.states
    by_section: dict[str, list[str]] = {}
    for path in content.diff.same:
        by_section.setdefault(section_of(path), []).append(path)
    folds = [_fold(name, _same(paths, a, b), len(paths)) for name, paths in sorted(by_section.items())]
    if not folds:
        return None
    return section("equal", "Equal", *folds, note=_equal_note(content.diff))


def _equal_note(diff: Diff) -> str:
    return f"{plural(diff.equal, 'reading')}, the same on both sides"


def _fold(name: str, rows: Iterator[Node], count: int) -> Node:
    summary = [
        code(name),
        el("span", show.section_title(name).rstrip("."), class_="dim"),
        el("span", f"{count:,}", class_="count"),
    ]
    return fold(summary, table(f"Readings of {name}", ["reading", "value"], rows, "readings"), class_="collector")


def _values(held: Section) -> Iterator[Node]:
    return (row(code(title, "path"), code(words)) for title, words in show.folded(held.values))


def _same(paths: list[str], a: Snapshot, b: Snapshot) -> Iterator[Node]:
    """Values that are the same, and in full those that are so within the tolerance of their key."""
    exact = {p: a.values[p] for p in paths if a.values[p] == b.values[p]}
    for title, words in show.folded(exact):
        yield row(code(title, "path"), code(words))
    for path in paths:
        if path not in exact:
            key = key_for(path)
            one, two = (reading_text(key, side.reading(path)) for side in (a, b))
            yield row(code(path, "path"), [mark("a"), " ", code(one), " ", mark("b"), " ", code(two)])
