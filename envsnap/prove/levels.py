"""Levels: a search among all suspects, then one among the commits of a guilty repository, then one among hunks.

Both ends of a deeper level are states of the level above: where its owner is as the slow side had it, and where it is
not. Trials of those count for it, so that none is run twice.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envsnap.prove import parts, trees
from envsnap.prove.belief import Spread
from envsnap.prove.gate import pairs_of
from envsnap.prove.parts import Code, Part
from envsnap.prove.search import Culprit, Problem, Result, Search, Trial
from envsnap.prove.switches import Switch

_NONE = 0.05
"""That no part of what was found guilty is the cause alone."""

Weigh = Callable[[str, Part], float]
"""How readily a part of a suspect is believed, against others."""


@dataclass(frozen=True)
class Level:
    """One search. At the top there is no `owner`; below, it is the suspect or the part whose parts are in question.

    `beside` are the members of the level above that are reverted in all trials of this one. `chain` is all that lies
    between a repository's two states, and `undone` what of it is reverted in all trials.
    """

    problem: Problem
    titles: Mapping[str, str]
    owner: str = ""
    culprit: Culprit | None = None
    above: Level | None = None
    beside: frozenset[str] = frozenset()
    code: Code | None = None
    chain: Sequence[Part] = ()
    undone: frozenset[str] = frozenset()

    @property
    def suspect(self) -> str:
        """The suspect of the top level that this is about."""
        return self.code.suspect if self.code else ""

    @property
    def top_beside(self) -> frozenset[str]:
        """The suspects of the top level that are reverted in all its trials."""
        level = self
        while level.above and level.above.above:
            level = level.above
        return level.beside

    def part(self, name: str) -> Part | None:
        """One of its parts."""
        return next((p for p in self.chain if p.id == name), None)


def below(level: Level, culprit: Culprit, search: Search, switches: Sequence[Switch], weigh: Weigh) -> Level | str:
    """The level among the parts of what a search has found guilty; why there is none, or nothing to say."""
    beside = _context(search, culprit.suspect)
    if level.code is None:
        code = next((s.code for s in switches if s.id == culprit.suspect), None)
        if code is None:
            return ""
        found = parts.parts_of(code)
        if isinstance(found, str):
            return found
        chain, members, undone = found, [p for p in found if parts.differs(p)], frozenset[str]()
    else:
        code, part = level.code, level.part(culprit.suspect)
        if part is None or part.place:
            return ""
        members = parts.hunks_of(part)
        at = [p.id for p in level.chain].index(part.id)
        chain = [*level.chain[:at], *members, *level.chain[at + 1 :]]
        members, undone = [p for p in members if parts.differs(p)], level.undone | beside
    weights = {p.id: weigh(code.suspect, p) for p in members}
    whole = sum(weights.values()) or 1.0
    belief = search.belief
    spread = Spread(belief.sigma, level.problem.spread.freedom) if belief else level.problem.spread
    problem = Problem(
        {name: (1 - _NONE) * weight / whole for name, weight in weights.items()}, _NONE, spread, culprit.effect,
        order=tuple(weights),
    )  # fmt: skip
    titles = {p.id: p.title for p in members}
    return Level(problem, titles, culprit.suspect, culprit, level, beside, code, tuple(chain), undone)


def _context(search: Search, suspect: str) -> frozenset[str]:
    """What was reverted beside a culprit where reverting it brought the speed back: as little as possible.

    NOTE: where another cause hid it, reverting it alone was tried too, and did nothing.
    """
    with_it = [t for t in search.trials if suspect in t.reverted and t.value is not None]
    runs = [t for t in with_it if t.purpose == "necessity" and t.suspect == suspect] or with_it
    middle = (search.belief.slow + search.belief.fast) / 2 if search.belief else math.inf
    good = [t for t in runs if t.value is not None and t.value < middle] or runs
    least = min(good, key=lambda t: len(t.reverted), default=None)
    return least.reverted - {suspect} if least else frozenset()


def seeds(level: Level, above: Sequence[Trial]) -> list[Trial]:
    """The trials of the level above that were runs of this level's two ends."""
    every = frozenset(level.problem.prior)
    ends: tuple[list[Trial], list[Trial]] = ([], [])
    for trial in above:
        if trial.value is not None and trial.reverted in (level.beside, level.beside | {level.owner}):
            end = level.owner in trial.reverted
            ends[end].append(Trial(every if end else frozenset(), "gate", "", trial.value))
    # NOTE: the gate compares as many of one as of the other; more of one end would ask for runs of the other.
    most = max(pairs_of(level.problem.spread), min(map(len, ends)))
    return [t for end in ends for t in end[:most]]


def switched(
    level: Level, switches: Sequence[Switch], reverted: frozenset[str], folder: Path
) -> tuple[list[Switch], frozenset[str]] | str:
    """The switches of a trial and which of them are reverted; why its code cannot be put together."""
    if level.code is None:
        return list(switches), reverted
    reverted |= level.undone
    target = folder / f"tree-{hashlib.sha256(repr(sorted(reverted)).encode()).hexdigest()[:12]}"
    if problem := parts.build(level.code, level.chain, reverted, target):
        return problem
    paths = trees.import_paths(target)
    made = [replace(s, slow=replace(s.slow, paths=paths)) if s.id == level.code.suspect else s for s in switches]
    return made, level.top_beside


def alone(level: Level, search: Search) -> Result | None:
    """Where there is but one part it is what its owner is, and no run is needed."""
    if len(level.problem.prior) != 1 or level.culprit is None:
        return None
    (name,) = level.problem.prior
    return Result("confirmed", (replace(level.culprit, suspect=name, only_with=""),), search.belief)
