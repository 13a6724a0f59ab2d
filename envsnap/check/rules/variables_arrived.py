"""A variable that was set for the server is missing or different in a rank.

What a shell exports need not reach the workers: launchers overwrite it, containers and job systems drop it, a wrapper
starts anew. Each variable is followed from the shell over the launcher to every rank, in the live environment. That
SGLang writes some itself is a warning. Fix: set it where the ranks are started; `envsnap workers` shows the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem
from envsnap.check.rules import AFTER, _running
from envsnap.fold import listed
from envsnap.keys import path_of
from envsnap.workers.propagation import Row, State, propagation

CODE = "variables_arrived"
SEVERITY = ERROR
NEEDS = ("worker[].env[]", "worker[].parent")
USES = _running.USES
WHEN = AFTER

_MATTERS = 0.25
_AT_START = "given at its start"
_UNEXPLAINED = (_AT_START, "the process itself, after its start", "given to it alone at its start")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    ranks = _running.ranks(facts)
    if not ranks:
        raise NotApplicable("no rank is among the processes")
    found = propagation(facts.snapshot)
    above = [process for process in found.processes if process in _ancestors(ranks, found.parents)]
    rows = {row.name: row for row in found.variables if row.prior >= _MATTERS}
    given = {name: value for name, value in _running.asked(facts).environment.items() if value is not None}
    for name in sorted({*rows, *given}):
        row = rows.get(name)
        source, value = _source(row, above) if name not in given else ("the command", given[name])
        if value is not None:
            yield from _lost(name, source, value, row, ranks)


def _ancestors(ranks: list[str], parents: Mapping[str, str]) -> set[str]:
    found: set[str] = set()
    left = [parents.get(rank, "") for rank in ranks]
    while left:
        process = left.pop()
        if process and process not in found:
            found.add(process)
            left.append(parents.get(process, ""))
    return found - set(ranks)


def _source(row: Row | None, above: list[str]) -> tuple[str, str | None]:
    """The first process from the shell down to the ranks that has it, or a later one that was started with another."""
    source: tuple[str, str | None] = ("", None)
    for process, cell in ((p, row.cells[p]) for p in above) if row else ():
        if cell.value is not None and (source[1] is None or cell.by.endswith(_AT_START)):
            source = process, cell.value
    return source


def _lost(name: str, source: str, value: str, row: Row | None, ranks: list[str]) -> Iterable[Problem]:
    cells = row.cells if row else {}
    missing = [r for r in ranks if r not in cells or (cells[r].value is None and cells[r].state is not State.UNKNOWN)]
    if missing:
        yield Problem(f"{name}={value[:60]} of {source} did not reach {listed(missing)}",
                      tuple(path_of("worker[].env[]", rank, name) for rank in missing))  # fmt: skip
    changed: dict[tuple[str, str], list[str]] = {}
    for rank in ranks:
        other = cells[rank].value if rank in cells else None
        if other is not None and other != value:
            changed.setdefault((other, _writer(row, rank)), []).append(rank)
    for (other, by), held in changed.items():
        told = f" ({by})" if by else ""
        yield Problem(f"{name} is {other[:60]} in {listed(held)}, {value[:60]} in {source}{told}",
                      tuple(path_of("worker[].env[]", rank, name) for rank in held),
                      severity=ERROR if not by or by.endswith(_UNEXPLAINED) else WARNING)  # fmt: skip


def _writer(row: Row | None, rank: str) -> str:
    """Who wrote it on the way to the rank, as far as is known."""
    cells = row.cells if row else {}
    if rank in cells and cells[rank].by:
        return cells[rank].by
    return next((c.by for p, c in cells.items() if c.state is State.CHANGED and c.value == cells[rank].value), "")
