"""Readers of benchmark output, one module per tool, found by walking this package.

A reader is a module with a docstring (its first line names the tool, the rest says which versions were seen), and

    def recognise(document: Json, text: str) -> bool
    def read(document: Json, text: str) -> Measured

`document` is the last JSON document of the text (a whole file, or the last line of JSONL), None where there is none.
`read` raises NoMetrics in one sentence for a recognised output that holds no usable figure.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from functools import lru_cache
from typing import Protocol, cast

from envsnap.reading import Json
from envsnap.runs.metrics import Measured, NoMetrics


class Reader(Protocol):
    """The module interface; see the package's text."""

    __name__: str

    @staticmethod
    def recognise(document: Json, text: str) -> bool:
        """Whether the output is this tool's."""

    @staticmethod
    def read(document: Json, text: str) -> Measured:
        """The figures."""


@lru_cache(maxsize=1)
def readers() -> tuple[Reader, ...]:
    """All readers, by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return tuple(cast(Reader, importlib.import_module(f"{__name__}.{name}")) for name in names)


def read_text(text: str, name: str) -> Measured:
    """The figures in a tool's output; `name` is for the error's sentence. Raises: NoMetrics."""
    if not text.strip():
        raise NoMetrics(f"{name} is empty.")
    document = last_document(text)
    for reader in readers():
        if reader.recognise(document, text):
            try:
                return reader.read(document, text)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                tool = (reader.__doc__ if hasattr(reader, "__doc__") else "") or reader.__name__
                first = tool.splitlines()[0].rstrip(".")
                raise NoMetrics(
                    f"{name} looks like output of {first}, but holds no usable figure ({error})."
                ) from error
    raise NoMetrics(f"No reader knows the output in {name}; give --metric NAME=REGEX or NAME=json:PATH.")


def last_document(text: str) -> Json:
    """The whole text as JSON, or its last line that is a JSON object; None where there is neither.

    NaN and Infinity are let through: some tools write them, and a reader refuses what it cannot use.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    for line in reversed(text.splitlines()):
        if line.lstrip().startswith("{"):
            try:
                return json.loads(line)
            except (ValueError, RecursionError):
                return None  # a line cut short is no result; the one before it belongs to another run
    return None
