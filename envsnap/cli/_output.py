"""Printing: lines to a stream as it can take them, JSON documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TextIO

from envsnap.reading import Json
from envsnap.report.lines import Line, can_overwrite, paint, wants_colour, width_of
from envsnap.wording import clip, printable


def emit(lines: Iterable[Line], stream: TextIO | None = None) -> None:
    """Print lines, in colour where the stream is a terminal that wants it."""
    stream = stream or sys.stdout
    stream.write(paint(lines, wants_colour(stream)))


def tell_passing(text: str) -> None:
    """Show on standard error what goes on; the next line takes its place. Nothing where that cannot be done."""
    if can_overwrite(sys.stderr):
        sys.stderr.write(f"\r\x1b[K{clip(printable(text), width_of(sys.stderr) - 1)}")
        sys.stderr.flush()


def end_passing() -> None:
    """Take away what `tell_passing` left."""
    if can_overwrite(sys.stderr):
        sys.stderr.write("\r\x1b[K")


def emit_json(document: Json) -> None:
    """Print a JSON document."""
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
