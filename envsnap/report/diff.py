"""A diff as text, markdown and JSON."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from envsnap.change import Because, Diff, NotCompared
from envsnap.fold import Group, fold, grouped
from envsnap.keys import Kind, Type
from envsnap.reading import Json, Reading, Unavailable, Value
from envsnap.report.lines import Line, cut
from envsnap.report.markdown import code, table
from envsnap.snapshot import Snapshot
from envsnap.wording import absence_text, clip, pair_text, plural, printable, reading_json, shorten

ROWS = 25
GAP_ROWS = 8
_PATH_COLUMN = 44
_EXCERPT_LINES = 12
_EXCERPT_LIMIT = 4000
_NEXT = 3

_HOW = {
    Kind.VOLATILE: "--volatile",
    Kind.LABEL: "--labels",
    Kind.COUNTER: "--counters",
    Kind.CONDITION: "only between snapshots taken under load",
}


@dataclass(frozen=True)
class Sides:
    """The two snapshots of a diff and what the user calls them."""

    names: tuple[str, str]
    snapshots: tuple[Snapshot, Snapshot]

    def lines(self) -> list[str]:
        """One line about each side."""
        return [
            "  ".join(filter(None, (letter, name, snapshot.captured_at, _reached(snapshot, name), snapshot.note)))
            for letter, name, snapshot in zip("AB", self.names, self.snapshots)
        ]


def _reached(snapshot: Snapshot, name: str) -> str:
    """The way to another machine, unless the side is called by it."""
    prefix = snapshot.via.get("prefix")
    return f"via {prefix}" if isinstance(prefix, str) and prefix not in name else ""


def text(diff: Diff, sides: Sides, width: int, everything: bool = False, excerpts: bool = False) -> list[Line]:
    """The diff for people: what is likeliest to matter first, cut to a screen unless `everything`."""
    lines: list[Line] = [[(line, "dim")] for line in sides.lines()]
    lines.append([(headline(diff), "title")])
    lines += [[(f"! {note}", "warn")] for note in diff.notes]
    groups = grouped(diff.changes)
    shown = groups if everything else groups[:ROWS]
    column = min(_PATH_COLUMN, max((len(g.title) for g in shown), default=0))
    for heading, members in by_effect(shown):
        lines += [[], [(heading, "title")]]
        for group in members:
            lines += _row(group, column, 1 << 20 if everything else width)
            if excerpts:
                lines += excerpt(group)
    lines += filter(None, [cut(len(groups), len(shown))])
    lines += _gaps(diff, width, everything)
    if left_out := left_out_text(diff):
        lines += [[], [(left_out, "dim")]]
    if groups:
        lines.append([(f"What a reading means: envsnap key {shlex.quote(groups[0].first.path)}", "dim")])
    return lines


def headline(diff: Diff) -> str:
    """The diff in one line."""
    groups = grouped(diff.changes)
    paths = f" at {len(diff.changes):,} paths" if len(groups) < len(diff.changes) else ""
    changes = plural(len(groups), "change") + paths if groups else "No change"
    absent = len(diff.not_compared) - diff.unknown
    return f"{changes}, {diff.equal:,} readings equal, {diff.unknown:,} unknown, {absent:,} absent or off on both sides"


def by_effect(groups: Sequence[Group]) -> list[tuple[str, list[Group]]]:
    """Groups under the first effect of their keys; the effect with the likeliest cause first."""
    headings: dict[str, list[Group]] = {}
    for group in groups:
        effects = group.first.key.effects
        headings.setdefault(effects[0].value.replace("_", " ") if effects else "other", []).append(group)
    return list(headings.items())


def _row(group: Group, column: int, width: int) -> list[Line]:
    change = group.first
    title = shorten(printable(group.title), width - 2)
    room = width - column - 7
    before, after = pair_text(change.key, change.before, change.after, room)
    values: Line = [(before, "bad"), (" → ", "dim"), (after, "good")]
    if len(title) <= column:
        return [[("  " + title.ljust(column + 2), "path"), *values]]
    return [[("  " + title, "path")], [(" " * (column + 4), ""), *values]]


def excerpt(group: Group) -> list[Line]:
    """The first lines of a unified diff of long text."""
    change = group.first
    if change.key.type is not Type.TEXT:
        return []
    a, b = (str(r.value).splitlines() if isinstance(r, Value) else [] for r in (change.before, change.after))
    a, b = _middles(a, b)
    if len(a) + len(b) > _EXCERPT_LIMIT:
        return [[(f"      too long for an excerpt ({plural(len(a) + len(b), 'line')})", "dim")]]
    found = list(difflib.unified_diff(a, b, "A", "B", lineterm="", n=1))[2:]
    styles = {"+": "good", "-": "bad", "@": "dim"}
    lines: list[Line] = [[("      " + line, styles.get(line[:1], ""))] for line in found[:_EXCERPT_LINES]]
    if len(found) > _EXCERPT_LINES:
        lines.append([(f"      … {plural(len(found) - _EXCERPT_LINES, 'more line')}", "dim")])
    return lines


def _middles(a: list[str], b: list[str]) -> tuple[list[str], list[str]]:
    """Both without the lines that they begin and end with in common, but for one of context: difflib is slow."""
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    tail = next((i for i in range(shorter - head) if a[-1 - i] != b[-1 - i]), shorter - head)
    head, tail = max(0, head - 1), max(0, tail - 1)
    return a[head : len(a) - tail], b[head : len(b) - tail]


def _gaps(diff: Diff, width: int, everything: bool) -> list[Line]:
    rows = gap_rows(diff.not_compared)
    shown = rows if everything else rows[:GAP_ROWS]
    lines: list[Line] = []
    if rows:
        lines += [[], [("unknown", "title")]]
    for title, words in shown:
        line = f"  {printable(title)}  {words}"
        lines.append([(line if everything else clip(line, width), "warn")])
    lines += filter(None, [cut(len(rows), len(shown))])
    settled = [line if everything else clip(line, width) for line in settled_rows(diff)]
    return lines + ([[]] if settled else []) + [[(line, "dim")] for line in settled]


def settled_rows(diff: Diff) -> list[str]:
    """What neither side has, in a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for entry in diff.not_compared:
        if entry.settled and isinstance(entry.before, Unavailable):
            by_reason.setdefault(entry.before.why.value.replace("_", " "), []).append(entry.path)
    return [
        f"{reason.capitalize()} on both sides: {', '.join(printable(title) for title, _ in fold(paths))}"
        for reason, paths in sorted(by_reason.items())
    ]


def gap_rows(entries: Sequence[NotCompared]) -> list[tuple[str, str]]:
    """What may hide a change, folded: (title, reason in words)."""
    alike: dict[str, list[str]] = {}
    for entry in entries:
        if entry.settled:
            continue
        alike.setdefault(_words(entry), []).append(entry.path)
    return [(title, words) for words, paths in alike.items() for title, _ in fold(paths)]


def _words(entry: NotCompared) -> str:
    count = sum(entry.only)
    standing = f"; {plural(count, 'reading')} without a counterpart" if count > 1 else ""
    if entry.because is Because.HASHES:
        return "secrets that were hashed with different keys"
    a, b = _side(entry.before), _side(entry.after)
    if entry.because is not Because.UNREADABLE and not (a == b and isinstance(entry.before, Unavailable)):
        return printable(entry.detail) + standing
    return (f"{a} on both sides" if a == b else f"A: {a}; B: {b}") + standing


def _side(reading: Reading | None) -> str:
    return "read" if reading is None or isinstance(reading, Value) else absence_text(reading)


def left_out_text(diff: Diff) -> str:
    """What was not compared because nobody asked for it, and how to ask."""
    parts = [f"{count:,} {kind.value} ({_HOW[kind]})" for kind, count in diff.left_out.items() if count]
    return f"Not asked for: {', '.join(sorted(parts))}" if parts else ""


def markdown(diff: Diff, sides: Sides, everything: bool = False) -> str:
    """The diff to paste into an issue."""
    out = [f"**{headline(diff)}**", "", *(f"- {code(line)}" for line in sides.lines())]
    out += [f"- {printable(note)}" for note in diff.notes]
    groups = grouped(diff.changes)
    shown = groups if everything else groups[:ROWS]
    for heading, members in by_effect(shown):
        rows = []
        for group in members:
            change = group.first
            pair = pair_text(change.key, change.before, change.after, 1 << 20 if everything else 100)
            rows.append([code(group.title), code(pair[0]), code(pair[1])])
        out += ["", *table([heading, "A", "B"], rows)]
    if len(groups) > len(shown):
        out += ["", f"… and {len(groups) - len(shown)} more"]
    if unknown := gap_rows(diff.not_compared):
        rest = unknown if everything else unknown[:GAP_ROWS]
        out += ["", *table(["unknown", "why"], [[code(title), code(words)] for title, words in rest])]
        if len(unknown) > len(rest):
            out += ["", f"… and {len(unknown) - len(rest)} more"]
    return "\n".join(out) + "\n"


def as_json(diff: Diff, sides: Sides) -> dict[str, Json]:
    """The diff's JSON form: paths are stable ids, `next` holds commands as argument arrays."""
    first = [group.first.path for group in grouped(diff.changes)[:_NEXT]]
    return {
        "format": "envsnap.diff",
        "version": 1,
        "a": _side_json(sides, 0),
        "b": _side_json(sides, 1),
        "equal": diff.equal,
        "unknown": diff.unknown,
        "left_out": {kind.value: count for kind, count in diff.left_out.items()},
        "notes": list(diff.notes),
        "changes": [
            {
                "path": c.path,
                "leaf": c.leaf,
                "kind": c.key.kind.value,
                "effects": [effect.value for effect in c.key.effects],
                "prior": c.key.prior,
                "before": reading_json(c.before, c.key),
                "after": reading_json(c.after, c.key),
            }
            for c in diff.changes
        ],
        "not_compared": [
            {
                "path": n.path,
                "because": n.because.value,
                "before": None if n.before is None else reading_json(n.before),
                "after": None if n.after is None else reading_json(n.after),
                "only": list(n.only),
                "settled": n.settled,
                "detail": n.detail,
            }
            for n in diff.not_compared
        ],
        "next": [["envsnap", "key", path] for path in first],
    }


def _side_json(sides: Sides, index: int) -> dict[str, Json]:
    snapshot = sides.snapshots[index]
    return {
        "name": sides.names[index],
        "captured_at": snapshot.captured_at,
        "moment": snapshot.moment,
        "envsnap": snapshot.envsnap,
        "configuration": snapshot.configuration_hash,
    }
