"""Ranks: the processes that compute, among all that were seen."""

from __future__ import annotations

import re
from collections.abc import Collection
from weakref import WeakKeyDictionary

from envsnap.explain.effective import computes
from envsnap.explain.story import Facts
from envsnap.keys import instances_of

_COMPUTING = re.compile(r"(?:.*/)?(?:scheduler\w*|Worker\w*|EngineCore\w*|rank\d+|mpi_worker\d*|ray_\w*Worker\w*)")
_GENERIC = re.compile(r"(?:.*/)?(?:spawn|fork|forkserver_child|child)\d*")
_ALONE = re.compile(r"(?:.*/)?main")


def computing(roles: Collection[str]) -> list[str]:
    """Those of some roles that hold a part of the model: by what engines call them, else every child of the launcher,
    else the engine's main process, else all but the shell and other bystanders.
    """
    for pattern in (_COMPUTING, _GENERIC, _ALONE):
        if found := [role for role in roles if pattern.fullmatch(role)]:
            return found
    return [role for role in roles if computes(role)]


_known: WeakKeyDictionary[Facts, tuple[str, ...]] = WeakKeyDictionary()


def ranks(facts: Facts) -> tuple[str, ...]:
    """The roles of the processes that compute, in order; none where no process was looked at."""
    # NOTE: every story asks, some of them for each variable.
    if facts not in _known:
        _known[facts] = _ranks(facts)
    return _known[facts]


def _ranks(facts: Facts) -> tuple[str, ...]:
    roles = {instances_of(path)[0]: None for path in facts.snapshot.paths if path.startswith("worker[")}
    return tuple(sorted(computing(roles), key=_natural))


def _natural(role: str) -> list[tuple[bool, int, str]]:
    return [(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in re.split(r"(\d+)", role)]
