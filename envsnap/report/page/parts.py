"""Parts that every section of the page is built of: tables, folds, marks of a side, commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from envsnap.report.lines import Line
from envsnap.report.page.tree import Child, Node, el
from envsnap.wording import shorten

LONGEST = 700
"""Characters of a value that are shown."""


def section(id_: str, title: str, *children: Child, note: str = "") -> Node:
    """A part of the page that the navigation leads to."""
    return el(
        "section",
        el("h2", title, el("span", note, class_="note") if note else None, id=f"{id_}-title"),
        *children,
        id=id_,
        aria_labelledby=f"{id_}-title",
    )


def fold(summary: Child, *children: Child, open_: bool = False, class_: str = "") -> Node:
    """What is shown on demand."""
    return el(
        "details", el("summary", summary), el("div", *children, class_="inside"), open=open_, class_=class_ or None
    )


def table(caption: str, headings: Sequence[Child], rows: Iterable[Node], class_: str = "") -> Node:
    """A table whose rows are found by the search. The caption is for those who hear it."""
    head = el("thead", el("tr", *(el("th", heading, scope="col") for heading in headings)))
    return el("table", el("caption", caption), head, el("tbody", *rows), class_=f"find {class_}".strip())


def row(name: Child, *cells: Child, class_: str = "") -> Node:
    """A row under its name; a cell is an element `td` already, or what stands in one."""
    return el(
        "tr",
        el("th", name, scope="row"),
        *(cell if _is_cell(cell) else el("td", cell) for cell in cells),
        class_=class_ or None,
    )


def _is_cell(cell: Child) -> bool:
    return not isinstance(cell, str) and getattr(cell, "tag", "") == "td"


def code(text: str, class_: str = "") -> Node:
    """Foreign or literal text, cut in its middle where it is very long."""
    return el("code", shorten(text, LONGEST), class_=class_ or None)


def command(arguments: Sequence[str]) -> Node:
    """A command to go on with; one click selects all of it."""
    return el(
        "p", el("span", "next", class_="dim"), " ", el("code", shlex.join(arguments), class_="command"), class_="next"
    )


def mark(letter: str) -> Node:
    """The mark of a side: its letter in its colour."""
    return el("span", letter.upper(), class_=f"mark {letter}")


def bullets(sentences: Iterable[str], class_: str = "") -> Node | None:
    """Sentences as a list; None where there are none."""
    items = [el("li", sentence) for sentence in sentences]
    return el("ul", *items, class_=class_ or None) if items else None


def spans(line: Line) -> list[Node]:
    """A line of a text report, with its styles."""
    return [el("span", words, class_=style or None) for words, style in line]
