"""Lines of styled text: painted by rich on a terminal that wants colour, plain text elsewhere.

rich is imported only for a terminal: it takes as long to import as a diff takes to compute, and scripts read pipes.
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
_STYLES = {"": "", "title": "bold", "dim": "dim", "bad": "red", "good": "green", "warn": "yellow", "path": "cyan"}


def paint(lines: Iterable[Line], colour: bool) -> str:
    """The lines as text. Everything passes through `printable`, so that nothing foreign reaches a terminal raw."""
    clean = [[(printable(text), style) for text, style in line] for line in lines]
    if colour:
        return _coloured(clean)
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in clean)


def _coloured(lines: Iterable[Line]) -> str:
    from rich.console import Console
    from rich.text import Text

    console = Console(force_terminal=True, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for line in lines:
            painted = Text.assemble(*((text, _STYLES[style]) for text, style in line))
            painted.rstrip()
            console.print(painted, soft_wrap=True)
    return captured.get()


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour: a terminal that knows how, and nobody who said no (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Columns to fill: the terminal's, or a fixed number where the text goes elsewhere."""
    return max(60, shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns) if stream.isatty() else PLAIN_WIDTH


def cut(count: int, limit: int, how: str = "--all") -> Line | None:
    """The line that stands for what a long list leaves out, or None."""
    return [(f"  … and {count - limit:,} more ({how})", "dim")] if count > limit else None
