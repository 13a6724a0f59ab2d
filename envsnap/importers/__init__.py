"""Importers of what other tools print, one module per kind of dump, found by walking this package.

An importer is a module with a docstring and

    def recognise(text: Text) -> Iterator[range]
    def read(text: Text, lines: range, sheet: Sheet) -> None

The docstring's first line names the tool. Its paragraphs begin with `Seen:` (where samples came from, of which
versions) and `Untested:` (generations that no sample was had of); `envsnap import --list` shows them. `recognise`
yields the stretches of lines that hold such a dump; several kinds in one text find theirs each for itself. `read` puts
what a stretch says on a sheet: readings under declared keys, in their units; figures of speed; the tool's version; the
dump's own date. Lines that it says nothing about count as not understood. What is not certain is left out: a dump may
be cut, shuffled or mangled, and no reading is better than a wrong one.

A module whose name starts with an underscore helps others.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from envsnap.importers._sheet import Sheet
    from envsnap.importers._text import Text


class Importer(Protocol):
    """The module interface; see the package's text."""

    __name__: str
    __doc__: str | None

    @staticmethod
    def recognise(text: Text) -> Iterator[range]:
        """The stretches of lines that hold such a dump."""

    @staticmethod
    def read(text: Text, lines: range, sheet: Sheet) -> None:
        """Put what a stretch says on the sheet."""


@dataclass(frozen=True)
class Kind:
    """A kind of dump: the module's `name`, the `tool`, and what its docstring says of samples."""

    name: str
    tool: str
    seen: str
    untested: str


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The names of all importers, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


def importer(name: str) -> Importer:
    """The importer of that name."""
    return cast(Importer, importlib.import_module(f"{__name__}.{name}"))


def kinds() -> list[Kind]:
    """What can be imported."""
    return [_kind(name) for name in names()]


def tool_of(name: str) -> str:
    """What an importer's tool is called."""
    return (importer(name).__doc__ or name).split("\n", 1)[0].rstrip(".")


def _kind(name: str) -> Kind:
    paragraphs = [" ".join(p.split()) for p in (importer(name).__doc__ or "").split("\n\n")]

    def said(word: str) -> str:
        return next((p.removeprefix(f"{word}: ") for p in paragraphs if p.startswith(f"{word}: ")), "")

    return Kind(name, tool_of(name), said("Seen"), said("Untested"))
