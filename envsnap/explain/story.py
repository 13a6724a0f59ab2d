"""Stories: what several readings mean together. One module each in `stories/`, found by walking that package.

A story is a module with a docstring, which is its documentation (the first line is its title), and

    CODE = "graphs_off"                       its stable name
    NEEDS = ("server[].argument[]",)          keys; it is told where either side has a value of one of them
    def tell(view: View) -> Iterable[Finding]

`tell` looks at both sides through `view` and yields findings: a `Clue` raises or lowers the suspect that holds some
changes, a `Together` makes one suspect of several changes, `Innocent` rules changes out with a reason, a `Mistake` is
wrong on both sides. Most stories yield nothing most of the time. A story knows mechanisms, never single incidents.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Protocol, Union, cast

from envsnap.change import Change
from envsnap.explain.explanation import Evidence, Mistake, Side
from envsnap.explain.setting import Setting, concurrency_of, joined, setting_of
from envsnap.explain.symptom import Symptom
from envsnap.keys import Effect, matches, pattern_of
from envsnap.reading import Json, Reading, Value
from envsnap.snapshot import Snapshot


@dataclass(frozen=True)
class Clue:
    """A sentence that raises (`weight` above zero, in log odds) or lowers whatever suspect holds these changes.

    Weights are those of `weights.STRONG`, `FAIR`, `WEAK` or their negatives.
    """

    text: str
    weight: float
    changes: tuple[Change, ...]
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Together:
    """Changes that act as one: they leave the suspects that they would be in and become one with this mechanism.

    `prior` is 0 to 1 as a key's; None: that of the likeliest key among the changes. `largest_ratio`: see `Suspect`.
    """

    title: str
    mechanism: str
    changes: tuple[Change, ...]
    effects: tuple[Effect, ...]
    evidence: tuple[Evidence, ...] = ()
    prior: float | None = None
    largest_ratio: float | None = None


@dataclass(frozen=True)
class Innocent:
    """Changes that cannot be the cause, with the reason in one sentence."""

    title: str
    reason: str
    changes: tuple[Change, ...]


Finding = Union[Clue, Together, Innocent, Mistake]


class Facts:
    """One side's snapshot, by key."""

    def __init__(self, side: Side) -> None:
        self.side = side

    @property
    def snapshot(self) -> Snapshot:
        """The state of this side."""
        return self.side.snapshot

    def reading(self, path: str) -> Reading:
        """The reading at a path."""
        return self.snapshot.reading(path)

    def get(self, path: str) -> Json:
        """The value at a path, None where there is no value (unset, unavailable, unknown alike)."""
        return self.snapshot.values.get(path)

    def values(self, pattern: str) -> dict[str, Json]:
        """Every value that matches, by path: `worker[].env[]` (a key) or `worker[*].env[NCCL_*]`."""
        if (exact := self._by_key.get(pattern)) is not None:
            return exact
        if "*" not in pattern:
            return {}
        held = self._by_key.get(pattern_of(pattern))
        everything = held if held is not None else self.snapshot.values
        return {path: value for path, value in everything.items() if matches(path, pattern)}

    def has(self, pattern: str) -> bool:
        """Whether there is any value of this key."""
        return pattern in self._by_key

    @cached_property
    def _by_key(self) -> Mapping[str, dict[str, Json]]:
        found: dict[str, dict[str, Json]] = {}
        for path, value in self.snapshot.values.items():
            found.setdefault(pattern_of(path), {})[path] = value
        return found


@dataclass(frozen=True)
class View:
    """What a story may look at.

    `changes` read fast → slow: those that were effective; what moves by itself is not among them. `shown` are changed
    figures in which a cause shows (utilisation, power, graph memory) and which are no causes.
    """

    fast: Facts
    slow: Facts
    changes: Sequence[Change]
    symptom: Symptom
    shown: Sequence[Change] = ()

    @cached_property
    def settings(self) -> tuple[Setting, Setting]:
        """Each side's setting: ranks, speculation, arguments as resolved."""
        return _setting(self.fast), _setting(self.slow)

    @cached_property
    def setting(self) -> Setting:
        """What holds of both sides."""
        return joined(*self.settings)

    @property
    def sides(self) -> tuple[Facts, Facts]:
        """Both sides, the fast one first."""
        return self.fast, self.slow

    def changed(self, *patterns: str) -> list[Change]:
        """The changes whose path matches one of the patterns: a key, or with `*` as in `Facts.values`."""
        found: dict[tuple[str, str], Change] = {}
        for pattern in patterns:
            for change in self._by_key.get(pattern_of(pattern), () if "*" not in pattern else self.changes):
                if pattern_of(change.path) == pattern or matches(change.path, pattern):
                    found[change.path, change.leaf] = change
        return list(found.values())

    @cached_property
    def _by_key(self) -> Mapping[str, list[Change]]:
        found: dict[str, list[Change]] = {}
        for change in self.changes:
            found.setdefault(pattern_of(change.path), []).append(change)
        return found


def _setting(facts: Facts) -> Setting:
    setting = setting_of(facts.snapshot)
    return replace(
        setting,
        concurrency=_concurrency(facts),
        # NOTE: what was accepted was drafted, whatever is known of the arguments.
        speculative=True if _accepted(facts) else setting.speculative,
    )


def _concurrency(facts: Facts) -> int | None:
    """How many requests were under way at once: as the benchmark says, else one where no step had more."""
    runs = facts.side.runs
    asked = concurrency_of(runs[0].request) if runs else None
    steps = facts.get("during.server.decode_batch_mean_count")
    return 1 if asked is None and isinstance(steps, (int, float)) and 0 < steps <= 1 else asked


def _accepted(facts: Facts) -> bool:
    """Whether this side measured more than one token a step: the benchmark did, or the server."""
    told = [m.value for run in facts.side.runs for m in run.metrics if m.name == "accept_length"]
    told += [v for v in facts.values("server[].dp[].accept_length").values() if isinstance(v, (int, float))]
    return any(length > 1 for length in told)


def before(change: Change) -> Json:
    """The fast side's value of a change, None where there is none."""
    return change.before.value if isinstance(change.before, Value) else None


def after(change: Change) -> Json:
    """The slow side's value of a change, None where there is none."""
    return change.after.value if isinstance(change.after, Value) else None


class Story(Protocol):
    """The module interface; see the module's text."""

    __name__: str
    __doc__: str | None
    CODE: str
    NEEDS: tuple[str, ...]

    @staticmethod
    def tell(view: View) -> Iterable[Finding]:
        """Yield findings."""


@cache
def every_story() -> tuple[Story, ...]:
    """Every story, by name."""
    package = importlib.import_module("envsnap.explain.stories")
    found = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))
    return tuple(cast(Story, importlib.import_module(f"{package.__name__}.{name}")) for name in found)
