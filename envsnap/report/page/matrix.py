"""Did it reach the workers: variables by processes, both sides in one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from envsnap.report import workers as report
from envsnap.report.page.content import Content
from envsnap.report.page.parts import code, fold, mark, section
from envsnap.report.page.tree import Child, Node, el
from envsnap.wording import plural, quoted, shorten
from envsnap.workers.propagation import Cell, Propagation, Row, State, propagation, variables_of

_LONGEST = 160
_CLASSES = {State.CHANGED: "warn", State.MISSING: "bad", State.SET: "good", State.UNKNOWN: "warn"}


@dataclass(frozen=True)
class _Line:
    """One variable or attribute: its row on each side, None where a side does not have it."""

    name: str
    rows: tuple[Row | None, ...]

    @property
    def alike(self) -> bool:
        """Whether both sides show the same in every process, be it that nothing of it is known."""
        return len({_shown_row(row) for row in self.rows}) == 1

    @property
    def unknown(self) -> bool:
        """Whether nothing at all is known of it."""
        return all(c.state is State.UNKNOWN for row in self.rows if row for c in row.cells.values())


def _shown_row(row: Row | None) -> tuple[tuple[str, tuple[str, str]], ...]:
    return tuple((process, _shown(cell)) for process, cell in row.cells.items()) if row else ()


def matrix(content: Content) -> Node | None:
    """The section about variables in processes; None where no processes were captured."""
    names = {name for side in content.sides for name in variables_of(side.snapshot)}
    found = [propagation(side.snapshot, names) for side in content.sides]
    if not any(p.processes for p in found):
        return None
    processes = list(dict.fromkeys(process for p in found for process in p.processes))
    letters = [letter for letter, _, _ in content.lettered()]
    wanted = {r.name for p in found for r in report.chosen(p, ())}
    variables = [_Line(name, rows) for name, rows in _joined([p.variables for p in found])]
    attributes = [_Line(name, rows) for name, rows in _joined([p.attributes for p in found])]
    first = [v for v in variables if not v.unknown and (v.name in wanted or not v.alike)]
    dark = [v for v in variables if v.unknown]
    rest = [v for v in variables if v not in first and v not in dark]
    odd = [a for a in attributes if not a.alike or any(r and not r.uniform for r in a.rows)]
    body: list[Child] = [el("p", " → ".join(processes), class_="dim path-line")]
    body += [_gaps(found, letters)]
    if first:
        body.append(
            _table(
                "Variables that were set, changed or lost on the way, or differ between the sides",
                first,
                processes,
                letters,
            )
        )
    if odd:
        body += [el("h3", "Not the same in every process"), _table("Other attributes", odd, processes, letters)]
    if dark:
        summary = f"{plural(len(dark), 'variable')} of unknown value"
        body.append(fold(summary, _table("Variables of unknown value", dark, processes, letters)))
    if rest:
        summary = f"{plural(len(rest), 'further variable')}, the same on the way and on every side"
        body.append(fold(summary, _table("Further variables", rest, processes, letters)))
    return section("environment", "Environment of the processes", *body, note=plural(len(variables), "variable"))


def _joined(sides: Sequence[Sequence[Row]]) -> list[tuple[str, tuple[Row | None, ...]]]:
    """Rows of both sides by name, in the order of the first side that has them."""
    by_name = [{row.name: row for row in rows} for rows in sides]
    names = dict.fromkeys(row.name for rows in sides for row in rows)
    return [(name, tuple(held.get(name) for held in by_name)) for name in names]


def _gaps(found: Sequence[Propagation], letters: Sequence[str]) -> Node | None:
    """Why cells are unknown, once a side."""
    items = []
    for letter, one in zip(letters, found):
        reasons = {c.why for r in one.variables for c in r.cells.values() if c.state is State.UNKNOWN and c.why}
        if not one.processes:
            reasons = {"no processes were captured"}
        items += [el("li", _marks(letter, letters), " unknown: ", "; ".join(sorted(reasons)))] if reasons else []
    return el("ul", *items, class_="warn") if items else None


def _marks(shown: Iterable[str], letters: Sequence[str]) -> list[Node]:
    """The marks of some sides; none where there is one side alone."""
    return [mark(letter) for letter in shown] if len(letters) > 1 else []


def _side(shown: Iterable[str], letters: Sequence[str]) -> Node | None:
    return el("td", *_marks(shown, letters), class_="side") if len(letters) > 1 else None


def _table(caption: str, lines: Sequence[_Line], processes: Sequence[str], letters: Sequence[str]) -> Node:
    head = el(
        "thead",
        el(
            "tr",
            el("th", "variable", scope="col"),
            el("th", "side", scope="col") if len(letters) > 1 else None,
            *(el("th", p, scope="col") for p in processes),
        ),
    )
    bodies = [el("tbody", *_rows(line, processes, letters)) for line in lines]
    return el(
        "div",
        el("table", el("caption", caption), head, *bodies, class_="find matrix"),
        class_="wide",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def _rows(line: _Line, processes: Sequence[str], letters: Sequence[str]) -> list[Node]:
    """One row where both sides show the same, else one for each."""
    sides = (
        [(letters, line.rows[0])]
        if line.alike and line.rows[0]
        else [((letter,), one) for letter, one in zip(letters, line.rows)]
    )
    odd = any(row.odd for row in line.rows if row)
    rows = []
    for i, (marks, one) in enumerate(sides):
        name = (
            el(
                "th",
                code(line.name, "path"),
                el("span", "differs between siblings", class_="bad note") if odd else None,
                scope="rowgroup" if len(sides) > 1 else "row",
                rowspan=len(sides),
            )
            if i == 0
            else None
        )
        rows.append(el("tr", name, _side(marks, letters), *_cells(one, processes)))
    return rows


def _cells(one: Row | None, processes: Sequence[str]) -> list[Node]:
    """Neighbouring processes with the same value share a cell."""
    cells = [one.cells.get(p) if one else None for p in processes]
    found = []
    for _, group in groupby(zip(processes, cells), lambda pair: _shown(pair[1])):
        members = list(group)
        found.append(_cell([cell for _, cell in members if cell], len(members), [p for p, _ in members], one))
    return found


def _shown(cell: Cell | None) -> tuple[str, str]:
    if cell is None:
        return "none", ""
    if cell.state is State.UNKNOWN:
        return "unknown", cell.why
    return ("unset", "") if cell.value is None else ("value", cell.value)


def _cell(cells: Sequence[Cell], span: int, processes: Sequence[str], one: Row | None) -> Node:
    kind, value = _shown(cells[0] if cells else None)
    by = "; ".join(dict.fromkeys(c.by for c in cells if c.by))
    class_ = next((s for c in cells if (s := _CLASSES.get(c.state, ""))), "")
    if one and any(p in one.odd for p in processes):
        class_ = "bad"
    words: Child = {"unknown": "unknown", "unset": "–", "none": "no such process"}.get(kind) or code(
        shorten(quoted(value), _LONGEST)
    )
    return el(
        "td",
        words,
        el("span", by, class_="by") if by else None,
        colspan=span if span > 1 else None,
        class_=f"{kind} {class_}".strip(),
    )
