"""Lines of styled text: painted by rich on a terminal that wants colour, plain text elsewhere.

rich is imported only for a terminal: it takes as long to import as a diff takes to compute, and scripts read pipes.
"""

from __future__ import annotations

import os
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

    # NOTE: whether to colour is decided already; rich would ask the environment again, and decide by other rules.
    console = Console(
        force_terminal=True, color_system="standard", no_color=False, highlight=False, markup=False, emoji=False
    )
    with console.capture() as captured:
        for line in lines:
            painted = Text.assemble(*((text, _STYLES[style]) for text, style in line))
            painted.rstrip()
            console.print(painted, soft_wrap=True)
    return captured.get()


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour: who says no (NO_COLOR) is heard first, then who says yes, else it takes a terminal that can.

    Yes is FORCE_COLOR or CLICOLOR_FORCE, also for a pipe; CLICOLOR=0 is no for terminals. Empty is as unset.
    """
    said = os.environ.get
    if said("NO_COLOR"):
        return False
    if said("FORCE_COLOR", "0") not in ("", "0") or said("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return can_overwrite(stream) and said("CLICOLOR") != "0"


def can_overwrite(stream: TextIO) -> bool:
    """Whether a line that was written can be written anew: a terminal that understands escapes."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Columns to fill: the terminal's, or a fixed number where the text goes elsewhere."""
    if not stream.isatty():
        return PLAIN_WIDTH
    from shutil import get_terminal_size

    return max(60, get_terminal_size((PLAIN_WIDTH, 24)).columns)


def cut(count: int, limit: int, how: str = "--all") -> Line | None:
    """The line that stands for what a long list leaves out, or None."""
    return [(f"  … and {count - limit:,} more ({how})", "dim")] if count > limit else None
