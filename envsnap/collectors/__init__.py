"""Collectors, one module per source, found by walking this package.

A collector is a module with a docstring (its first line is the section's title), `KEYS`, `METHOD` (how it
reads, for the snapshot) and

    def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]

which yields a path and what was found there. It touches the machine through `host` alone. Yielding to the end
means *complete*: what was not yielded is unset. Raising `Missing` means that the rest is unavailable; any other
exception that it is an error; what was yielded before is kept. `Partial` is raised at the end by a collector
that could not see everything. A module whose name starts with an underscore helps others and collects nothing.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Protocol, cast

from envsnap.host import Host
from envsnap.keys import Key, Kind, Type, pattern_of
from envsnap.reading import Found
from envsnap.scope import Scope


class Partial(Exception):
    """Raised at the end of `collect`: what was yielded holds, but there is more that could not be seen."""


ELSEWHERE = {"during": "envsnap.runs.samples"}
"""Sections that no capture makes, and the module that declares their keys: what is sampled while a benchmark runs."""


class Collector(Protocol):
    """The module interface; see the package's text."""

    __name__: str
    KEYS: tuple[Key, ...]
    METHOD: str

    @staticmethod
    def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
        """Yield paths and what was found there."""


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The names of all collectors, sorted; each is a section of every snapshot."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


def sections() -> tuple[str, ...]:
    """The names of all sections that a snapshot can have: those of the collectors and those made elsewhere."""
    return (*names(), *ELSEWHERE)


@cache
def collector(name: str) -> Collector:
    """The collector module of that name, or for a section made elsewhere the module that declares its keys."""
    # NOTE: importing a submodule binds its name in this package: no collector can be called as a function here is.
    return cast(Collector, importlib.import_module(ELSEWHERE.get(name, f"{__name__}.{name}")))


@lru_cache(maxsize=1)
def keys() -> dict[str, Key]:
    """Every declared key, by its pattern."""
    return {key.pattern: key for name in sections() for key in collector(name).KEYS}


@lru_cache(maxsize=1)
def _sections() -> dict[str, str]:
    return {key.root: name for name in sections() for key in collector(name).KEYS}


def section_of(path: str) -> str:
    """The section that a path belongs to; an empty string where no collector declares its root."""
    root = path.split(".", 1)[0].split("[", 1)[0]
    return _sections().get(root, "")


def key_for(path: str) -> Key:
    """The key at a path, specialised to its instance. A path of a newer writer counts as an identity."""
    key = keys().get(pattern_of(path))
    if key is None:
        return Key(pattern_of(path), Type.STRING, Kind.IDENTITY, "Not known to this version of envsnap.")
    return key.for_path(path)
