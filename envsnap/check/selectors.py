"""Which paths of a snapshot a requirement speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from envsnap.collectors import keys
from envsnap.keys import instances_of, is_path, path_of, pattern_of
from envsnap.snapshot import Snapshot


@dataclass(frozen=True)
class Selector:
    """A key with its instances, of which `[]` and `*` stand for any, or a `*` in its name for several keys."""

    text: str
    patterns: tuple[str, ...]
    """The declared keys that it means."""
    instances: tuple[str, ...]

    @property
    def path(self) -> str | None:
        """The one path that it means; None where it may mean several."""
        if len(self.patterns) != 1 or any("*" in instance for instance in self.instances):
            return None
        return path_of(self.patterns[0], *self.instances)

    def matches(self, path: str) -> bool:
        """Whether it means this path."""
        return pattern_of(path) in self.patterns and self._fits(instances_of(path))

    def _fits(self, instances: Sequence[str]) -> bool:
        return all(fnmatchcase(i, re.sub(r"([\[?])", r"[\1]", wanted)) for i, wanted in zip(instances, self.instances))

    def paths(self, snapshot: Snapshot) -> list[str]:
        """Every path that it means and of which a snapshot says something, or of which it could be expected to.

        What one instance has (a worker's variable), every other instance is asked for.
        """
        if self.path:
            return [self.path]
        found = {path: None for path in sorted(snapshot.paths, key=_natural) if self.matches(path)}
        first, *rest = self.instances or ("",)
        if "*" in first and not any("*" in instance for instance in rest):
            for pattern in self.patterns:
                for instance in self._first_instances(snapshot, pattern):
                    found.setdefault(path_of(pattern, instance, *rest))
        return list(found)

    def _first_instances(self, snapshot: Snapshot, pattern: str) -> list[str]:
        base = pattern.partition("[]")[0]
        instances = {instances_of(p)[0] for p in snapshot.paths if p.startswith(f"{base}[")}
        return [i for i in sorted(instances, key=_natural) if self._fits([i])]


def select(text: str) -> Selector | None:
    """The selector of a policy's key; None where no collector declares such a key."""
    pattern = pattern_of(text)
    if "*" in pattern:
        found = tuple(p for p in keys() if p.count("[]") == pattern.count("[]") and fnmatchcase(p, _literal(pattern)))
    else:
        found = tuple(p for p in (pattern,) if p in keys())
    instances = tuple(instance or "*" for instance in instances_of(text))
    if not found or not all(is_path(path_of(p, *(i.replace("*", "x") for i in instances))) for p in found):
        return None
    return Selector(text, found, instances)


def nearest(text: str) -> str:
    """The end of a sentence on a key that does not exist: `; did you mean X?`, or a full stop."""
    close = get_close_matches(pattern_of(text), keys(), n=1)
    return f"; did you mean {close[0]}?" if close else "."


def overlap(a: Selector, b: Selector) -> bool:
    """Whether two selectors certainly mean some path both."""
    return a.text == b.text or any(one.path is not None and other.matches(one.path) for one, other in ((a, b), (b, a)))


def _literal(pattern: str) -> str:
    return re.sub(r"([\[?])", r"[\1]", pattern)


def _natural(text: str) -> list[tuple[bool, int, str]]:
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", text)]


def alike_but_for_the_first_instance(paths: Iterable[str]) -> dict[tuple[str, tuple[str, ...]], dict[str, str]]:
    """Paths grouped by all that follows their first instance: group -> that instance -> path."""
    groups: dict[tuple[str, tuple[str, ...]], dict[str, str]] = {}
    for path in paths:
        first, *rest = instances_of(path)
        groups.setdefault((pattern_of(path), tuple(rest)), {})[first] = path
    return groups
