"""What an importer finds in one dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envsnap.reading import Json
from envsnap.runs.metrics import Measured


@dataclass(frozen=True)
class Entry:
    """A value that a dump gives for a path, and the number of its line."""

    path: str
    value: Json
    line: int


@dataclass
class Sheet:
    """Filled by an importer's `read`.

    `taken` are the lines that gave a reading or a figure, `passed` those that are known and have no key. `version` is
    the tool's, `date` the dump's own as it stands there, `moment` its ISO 8601 form where its zone is known.
    `measured` are repetitions of a benchmark, or what a log says of its own speed; `failure` is why a server that the
    log is of never served.
    """

    version: str = ""
    date: str = ""
    moment: str = ""
    entries: list[Entry] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    passed: set[int] = field(default_factory=set)
    dropped: int = 0
    measured: list[Measured] = field(default_factory=list)
    failure: str = ""
    notes: list[str] = field(default_factory=list)

    def value(self, line: int, path: str, value: Json) -> None:
        """A reading; None is one that the dump does not have."""
        if value is None:
            self.skip(line)
            return
        self.taken.add(line)
        self.entries.append(Entry(path, value, line))

    def skip(self, *lines: int) -> None:
        """Lines that are known, and say nothing that has a key."""
        self.passed.update(lines)

    def drop(self, line: int, count: int = 1) -> None:
        """Values that are left out, for they have no key or cannot be trusted."""
        self.passed.add(line)
        self.dropped += count

    def figures(self, line: int, measured: Measured) -> None:
        """What a benchmark or a log measured."""
        self.taken.add(line)
        self.measured.append(measured)

    def values(self) -> Mapping[str, Json]:
        """The readings by path, the first of each."""
        found: dict[str, Json] = {}
        for entry in self.entries:
            found.setdefault(entry.path, entry.value)
        return found
