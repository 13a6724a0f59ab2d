"""Lines of styled text, painted for a terminal or left plain.

NOTE: rich would do this too, and takes as long to import as a diff takes to compute.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import TextIO

from envsnap.wording import printable

Span = tuple[str, str]
"""Text and the name of its style."""

Line = list[Span]

PLAIN_WIDTH = 120
_CODES = {"title": "1", "dim": "2", "bad": "31", "good": "32", "warn": "33", "path": "36"}


def paint(lines: Iterable[Line], colour: bool) -> str:
    """The lines as text. Everything passes through `printable`, so that nothing foreign reaches a terminal raw."""
    return "".join("".join(_span(*span, colour) for span in line).rstrip() + "\n" for line in lines)


def _span(text: str, style: str, colour: bool) -> str:
    text = printable(text)
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour and style and text else text


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour: a terminal that knows how, and nobody who said no (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Columns to fill: the terminal's, or a fixed number where the text goes elsewhere."""
    return max(60, shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns) if stream.isatty() else PLAIN_WIDTH


def cut(count: int, limit: int, how: str = "--all") -> Line | None:
    """The line that stands for what a long list leaves out, or None."""
    return [(f"  … and {count - limit:,} more ({how})", "dim")] if count > limit else None
