"""A rank differs from the others in what it was given or has loaded.

Every rank waits for the slowest: one with another NCCL, variable, priority or memory policy decides the speed of all.
What is bound rank by rank on purpose (CPUs, its GPU) does not count. Fix: find where that rank is started differently.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem
from envsnap.check.rules import AFTER, _running
from envsnap.fold import listed
from envsnap.keys import path_of
from envsnap.workers.propagation import State, propagation

CODE = "ranks_alike"
SEVERITY = ERROR
NEEDS = ("worker[].env[]", "worker[].library[].version")
USES = _running.USES
WHEN = AFTER

_MATTERS, _KNOWN = 0.2, 0.25  # of a variable that no rule knows the prior lies between


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    ranks = _running.ranks(facts)
    if len(ranks) < 2:
        raise NotApplicable("there are no two ranks to compare")
    found = propagation(facts.snapshot)
    for kind, rows in (("env[]", found.variables), ("", found.attributes)):
        for row in rows:
            # NOTE: names that begin with _ are notes that a process keeps to itself, such as addresses in its memory.
            if row.prior < _MATTERS or row.name.startswith("_") or not set(row.odd) & set(ranks):
                continue
            values: dict[str, list[str]] = {}
            for rank in ranks:
                cell = row.cells[rank]
                if cell.state is not State.UNKNOWN:
                    values.setdefault("unset" if cell.value is None else cell.value[:60], []).append(rank)
            if len(values) > 1:
                said = ", ".join(f"{value} in {listed(held)}" for value, held in values.items())
                paths = tuple(path_of("worker[].env[]", r, row.name) if kind else f"worker[{r}].{row.name}"
                              for r in row.odd)  # fmt: skip
                severity = WARNING if kind and row.prior < _KNOWN else ""
                yield Problem(f"{row.name} is {said}", paths, severity=severity)
    yield from _libraries(facts, ranks)


def _libraries(facts: Facts, ranks: list[str]) -> Iterable[Problem]:
    versions: dict[str, dict[str, list[str]]] = {}
    for (rank, library), _, version in facts.each("worker[].library[].version"):
        if rank in ranks:
            versions.setdefault(library, {}).setdefault(str(version), []).append(rank)
    for library, held in versions.items():
        if len(held) > 1:
            said = ", ".join(f"{version} in {listed(members)}" for version, members in held.items())
            members = [rank for some in held.values() for rank in some]
            paths = tuple(path_of("worker[].library[].version", rank, library) for rank in members)
            yield Problem(f"{library} is {said}", paths)
