"""Readings of two sides beside each other."""

from __future__ import annotations

from envsnap.change import Change
from envsnap.keys import Type
from envsnap.report.page.parts import code
from envsnap.report.page.tree import Node, el
from envsnap.wording import pair_text, reading_text, shorten

_WIDTH = 240
"""Characters of two values in one row. What is longer stands in full behind a fold."""
_FULL = 4000


def pair(change: Change, letters: tuple[str, str] = ("a", "b")) -> tuple[Node, Node]:
    """Both readings of a change as cells, cut to what differs; what was cut can be opened."""
    words = pair_text(change.key, change.before, change.after, _WIDTH)
    full = [reading_text(change.key, reading) for reading in (change.before, change.after)]
    one, two = (_cell(short, whole, letter) for short, whole, letter in zip(words, full, letters))
    return one, two


def _cell(short: str, whole: str, letter: str) -> Node:
    cut = short != whole
    return el(
        "td",
        code(short),
        el("details", el("summary", "in full"), el("code", shorten(whole, _FULL))) if cut else None,
        data_side=letter.upper(),
        class_="value",
    )


def is_text(change: Change) -> bool:
    """Whether a change is of long text, which is shown by its lines."""
    return change.key.type is Type.TEXT
