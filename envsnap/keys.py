"""What a fact means: Key, Kind, Effect, and the grammar of paths.

A key is declared once, beside the collector that reads it. Schema, diff, ranking, `envsnap key` and the key
reference are derived from that declaration; nothing about a fact is written anywhere else.

A *path* is a key's pattern with its instances filled in: `gpu[0].power_limit_watts` is the pattern
`gpu[].power_limit_watts` at instance `0`. An instance stands bare if it consists of `[A-Za-z0-9_.:/@+-]`,
otherwise as a JSON string.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache

from envsnap.reading import Json


class Kind(str, Enum):
    """How a fact behaves, which decides whether two snapshots are compared on it."""

    IDENTITY = "identity"
    """What the machine or software is. Always compared."""
    TUNABLE = "tunable"
    """What somebody can set. Always compared."""
    CONDITION = "condition"
    """What holds only under load. Compared between samples taken under load alone."""
    COUNTER = "counter"
    """What grows by itself. Compared as growth over a run."""
    VOLATILE = "volatile"
    """What moves by itself. Compared on request, within its tolerance."""
    LABEL = "label"
    """Which one it is, not what. Compared on request; dropped when shared."""


class Effect(str, Enum):
    """A term of decode time that a fact can move: what joins a change to a symptom."""

    COMMUNICATION = "communication"
    VERIFY = "verify"
    DRAFT = "draft"
    ACCEPTANCE = "acceptance"
    HOST_LAUNCH = "host_launch"
    COMPUTE = "compute"
    MEMORY = "memory"
    PREFILL = "prefill"
    STORAGE = "storage"
    WORKLOAD = "workload"
    VALIDITY = "validity"


class Type(str, Enum):
    """The JSON type of a value."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    STRINGS = "strings"
    """A list of strings, sorted unless order is the fact (argv, sys.path)."""
    INTEGERS = "integers"
    OBJECT = "object"
    """A structure that has its own leaves (server arguments, a model's config); compared leaf by leaf."""
    TEXT = "text"
    """Long text (a patch, a file), shown by size and compared as a whole."""
    ANY = "any"
    """Whatever JSON type its owner gave it, but null (a server's argument)."""


class Lever(str, Enum):
    """How a fact can be set and unset in an experiment."""

    ENV = "env"
    ARGUMENT = "argument"
    GIT = "git"
    PACKAGE = "package"
    FILE = "file"
    CACHE = "cache"
    AFFINITY = "affinity"
    ROOT = "root"
    """Needs root or a reboot: envsnap never does it, and prints the command for a person to run."""


UNITS = {
    "bytes": "bytes",
    "kib": "KiB",
    "mhz": "MHz",
    "khz": "kHz",
    "watts": "W",
    "millijoules": "mJ",
    "celsius": "°C",
    "seconds": "s",
    "milliseconds": "ms",
    "microseconds": "µs",
    "nanoseconds": "ns",
    "percent": "%",
    "bits": "bits",
    "count": "",
    "cpus": "CPUs",
    "mbps": "Mbit/s",
    "gbps": "Gbit/s",
    "gts": "GT/s",
    "lanes": "lanes",
    "lines": "lines",
    "rpm": "rpm",
}
"""Unit suffix of a name -> how the unit is printed."""


@dataclass(frozen=True)
class At:
    """What differs from the key for some of its instances: `NCCL_*` among environment variables, say.

    `instance` is a pattern (only `*` is special) for the last instance in the path. Fields left None stay as
    the key has them.
    """

    instance: str
    kind: Kind | None = None
    effects: tuple[Effect, ...] | None = None
    prior: float | None = None
    meaning: str | None = None
    advice: str | None = None


@dataclass(frozen=True)
class Key:
    """One fact. See the module's text for `pattern`.

    `prior` is how readily a change of this fact is the cause of a slowdown, from 0 (cosmetic) to 1 (the first
    thing to look at), relative to the other keys. `rel_tol` and `abs_tol` bound what counts as the same number.
    """

    pattern: str
    type: Type
    kind: Kind
    meaning: str
    effects: tuple[Effect, ...] = ()
    prior: float = 0.1
    lever: Lever | None = None
    advice: str = ""
    rel_tol: float = 0.0
    abs_tol: float = 0.0
    at: tuple[At, ...] = ()

    @property
    def root(self) -> str:
        """The first name of the pattern; each root belongs to one collector."""
        return self.pattern.split(".", 1)[0].split("[", 1)[0]

    @property
    def name(self) -> str:
        """The last name of the pattern, without instances."""
        return self.pattern.rsplit(".", 1)[-1].replace("[]", "")

    @property
    def unit(self) -> str:
        """The unit by the name's suffix, or an empty string."""
        suffix = self.name.rsplit("_", 1)[-1]
        return UNITS.get(suffix, "") if self.type in (Type.INTEGER, Type.NUMBER, Type.INTEGERS) else ""

    def for_path(self, path: str) -> Key:
        """This key as it holds at `path`: with the first matching entry of `at` applied."""
        if not self.at:
            return self
        name = instances_of(path)[-1]
        found = self._named.get(name)
        if found is None:
            match = self._rule.fullmatch(name)
            found = self._named[name] = self._variants[match.lastindex or 0 if match else 0]
        return found

    @cached_property
    def _named(self) -> dict[str, Key]:
        """The variant at each instance that was asked for."""
        return {}

    @cached_property
    def _variants(self) -> tuple[Key, ...]:
        """This key without rules, then as each rule of `at` makes it."""
        plain = replace(self, at=())
        return (plain, *(_specialised(plain, rule) for rule in self.at))

    @cached_property
    def _rule(self) -> re.Pattern[str]:
        """All rules as one expression, whose group's number is that of the first rule that matches."""
        # NOTE: only `*` is special in a rule, so that a name's own brackets and question marks stay what they are.
        return re.compile(
            "|".join(f"({re.escape(r.instance).replace(chr(92) + '*', '.*')})" for r in self.at), re.DOTALL
        )

    def same(self, a: Json, b: Json) -> bool:
        """Whether two values of this key count as the same."""
        if a == b:
            return type(a) is type(b) or not (isinstance(a, bool) or isinstance(b, bool))
        if _is_number(a) and _is_number(b):
            return bool(abs(a - b) <= max(self.abs_tol, self.rel_tol * max(abs(a), abs(b))))
        return False


def _specialised(plain: Key, rule: At) -> Key:
    changed = {
        field: value
        for field in ("kind", "effects", "prior", "meaning", "advice")
        if (value := getattr(rule, field)) is not None
    }
    return replace(plain, **changed)


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_BARE = re.compile(r"[A-Za-z0-9_.:/@+-]+\Z")
_QUOTED = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
_INSTANCE = re.compile(rf'\[({_QUOTED}|[^\]"]*)\]')
_STEP = re.compile(rf"{_INSTANCE.pattern}|\.")
_NAME = rf"[a-z][a-z0-9_]*(?:\[(?:{_QUOTED}|[A-Za-z0-9_.:/@+-]+)\])*"
_PATH = re.compile(rf"{_NAME}(?:\.{_NAME})*\Z")


def instance(name: str | int) -> str:
    """`name` as it stands between brackets: bare if it can, else a JSON string."""
    text = str(name)
    return text if _BARE.match(text) else json.dumps(text)


def path_of(pattern: str, *instances: str | int) -> str:
    """Fill the instances into a pattern: `path_of("gpu[].name", 0)` is `gpu[0].name`."""
    parts = pattern.split("[]")
    if len(parts) != len(instances) + 1:
        raise ValueError(f"{pattern} takes {len(parts) - 1} instances, not {len(instances)}")
    return parts[0] + "".join(f"[{instance(i)}]{part}" for i, part in zip(instances, parts[1:]))


def pattern_of(path: str) -> str:
    """The pattern a path belongs to: `gpu[0].name` -> `gpu[].name`."""
    return _INSTANCE.sub("[]", path) if "[" in path else path


def instances_of(path: str) -> list[str]:
    """The instances of a path, unquoted, in order."""
    return [json.loads(text) if text.startswith('"') else text for text in _INSTANCE.findall(path)]


def is_path(text: str) -> bool:
    """Whether `text` follows the grammar of paths."""
    return bool(_PATH.match(text))


def parents_of(path: str) -> list[str]:
    """The paths that contain this one, nearest first: `a[0].b[c]` -> `a[0].b`, `a[0]`, `a`."""
    return [path[: step.start()] for step in _STEP.finditer(path)][::-1]


def matches(path: str, pattern: str) -> bool:
    """Whether a path matches what a user typed: `*` matches anything; a bare pattern also matches all below it."""
    if fnmatchcase(path, _literal_brackets(pattern)):
        return True
    if "*" in pattern:
        return False
    return pattern_of(path) == pattern or (
        path.startswith(pattern) and path[len(pattern) : len(pattern) + 1] in (".", "[")
    )


@lru_cache(maxsize=256)
def _literal_brackets(pattern: str) -> str:
    """fnmatch knows `[]` and `?` too, which are literal here: patterns know only `*`."""
    return re.sub(r"([\[?])", r"[\1]", pattern)
