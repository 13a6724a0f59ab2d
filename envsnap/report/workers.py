"""Did it reach the workers: the table of variables by processes, as text, markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from envsnap.fold import listed
from envsnap.reading import Json
from envsnap.report.lines import Line, cut
from envsnap.report.markdown import code, table
from envsnap.wording import plural, printable, quoted, shorten
from envsnap.workers.propagation import Cell, Propagation, Row, State

ROWS = 25
_NAME_COLUMN = 36
_STYLES = {State.CHANGED: "warn", State.MISSING: "bad", State.UNKNOWN: "warn", State.SET: "good"}


def chosen(propagation: Propagation, patterns: Sequence[str]) -> list[Row]:
    """The rows that match what was asked for, or without that those in which something happened after the shell."""
    if patterns:
        return [r for r in propagation.variables if any(fnmatchcase(r.name, p) for p in patterns)]
    first = [process for process in propagation.processes if not propagation.parents[process]]
    return [r for r in propagation.variables if r.prior > 0 and (r.odd or _moves(r, first))]


def _moves(row: Row, roots: Sequence[str]) -> bool:
    later = [cell for process, cell in row.cells.items() if process not in roots]
    return any(cell.state in (State.SET, State.CHANGED, State.MISSING) for cell in later)


def text(propagation: Propagation, patterns: Sequence[str], width: int, everything: bool = False) -> list[Line]:
    """One line a variable and value: which processes have it, and who set it there."""
    if not propagation.processes:
        return [[("The snapshot holds no processes: capture with --pid or --match.", "warn")]]
    rows = chosen(propagation, patterns)
    shown = rows if everything else rows[:ROWS]
    head = " → ".join(propagation.processes)
    lines: list[Line] = [[(head, "title")], [(_summary(propagation), "dim")], []]
    for row in shown:
        lines += _row(row, width)
    lines += filter(None, [cut(len(rows), len(shown))])
    if not rows:
        asked = "matches" if patterns else "changed after the shell"
        lines.append([(f"No variable {asked}: every process has what it was given.", "dim")])
    attributes = [r for r in propagation.attributes if r.odd or not r.uniform]
    if attributes and not patterns:
        lines += [[], [("not the same in every process", "title")]]
        for row in attributes:
            lines += _row(row, width)
    return lines


def _summary(propagation: Propagation) -> str:
    unknown = {c.why for r in propagation.variables for c in r.cells.values() if c.state is State.UNKNOWN}
    gaps = f"; unknown: {'; '.join(sorted(unknown))}" if unknown else ""
    return f"{plural(len(propagation.variables), 'variable')} in {len(propagation.processes)} processes{gaps}"


def _row(row: Row, width: int) -> list[Line]:
    """A variable: its name once, then a line for each value with the processes that have it."""
    mark = " ← differs between siblings" if row.odd else ""
    lines: list[Line] = [[(f"  {shorten(printable(row.name), width - 4)}", "path"), (mark, "bad")]]
    groups: dict[tuple[State, str | None, str, str], list[str]] = {}
    for process, cell in row.cells.items():
        # A value is the same value, whether it was inherited or set: one line for all that have it.
        state = State.SET if cell.state is State.SAME else cell.state
        key = (state if cell.value is None else State.SAME, cell.value, "", cell.why)
        groups.setdefault(key, []).append(process)
    for (_, value, _, why), processes in groups.items():
        cells = [row.cells[p] for p in processes]
        by = "; ".join(dict.fromkeys(c.by for c in cells if c.by))
        who = _listed(processes)
        shown = "unknown" if cells[0].state is State.UNKNOWN else "–" if value is None else quoted(value)
        style = next((s for c in cells if (s := _STYLES.get(c.state, ""))), "")
        line: Line = [(f"    {shorten(shown, 36):36}  ", style), (who, "")]
        words = printable(by or why)
        lines.append(line)
        if words and len(words) + len(who) + 44 <= width:
            line.append((f"  {words}", "dim"))
        elif words:
            lines.append([(f"{'':40}{shorten(words, width - 40)}", "dim")])
    return lines


def _listed(processes: Sequence[str]) -> str:
    """Processes in their order, numbered siblings as a range."""
    families: dict[str, list[str]] = {}
    for process in processes:
        families.setdefault(process.rstrip("0123456789"), []).append(process)
    return ", ".join(listed(members) for members in families.values())


def markdown(propagation: Propagation, patterns: Sequence[str]) -> str:
    """The table to paste into an issue: variables by processes."""
    rows = chosen(propagation, patterns)
    cells = [[code(r.name), *(_short(r.cells[p]) for p in propagation.processes), _who(r)] for r in rows]
    return "\n".join(table(["variable", *propagation.processes, "by"], cells)) + "\n"


def _short(cell: Cell) -> str:
    if cell.state is State.UNKNOWN:
        return "unknown"
    return "–" if cell.value is None else code(shorten(quoted(cell.value), 40))


def _who(row: Row) -> str:
    return printable("; ".join(dict.fromkeys(c.by for c in row.cells.values() if c.by)))


def as_json(propagation: Propagation, patterns: Sequence[str]) -> dict[str, Json]:
    """Every row that matches (all of them without a pattern)."""
    rows = chosen(propagation, patterns) if patterns else list(propagation.variables)
    return {
        "format": "envsnap.workers",
        "version": 1,
        "processes": list(propagation.processes),
        "parents": dict(propagation.parents),
        "variables": [_row_json(row) for row in rows],
        "attributes": [_row_json(row) for row in propagation.attributes],
    }


def _row_json(row: Row) -> dict[str, Json]:
    return {
        "name": row.name,
        "odd": list(row.odd),
        "cells": {
            process: {"state": cell.state.value, "value": cell.value, "by": cell.by, "why": cell.why}
            for process, cell in row.cells.items()
        },
    }
