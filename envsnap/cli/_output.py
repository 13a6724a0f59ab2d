"""Printing: lines to a stream as it can take them, JSON documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TextIO

from envsnap.reading import Json
from envsnap.report.lines import Line, paint, wants_colour


def emit(lines: Iterable[Line], stream: TextIO | None = None) -> None:
    """Print lines, in colour where the stream is a terminal that wants it."""
    stream = stream or sys.stdout
    stream.write(paint(lines, wants_colour(stream)))


def emit_json(document: Json) -> None:
    """Print a JSON document."""
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
