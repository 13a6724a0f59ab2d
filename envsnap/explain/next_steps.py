"""What would settle it: commands as argument arrays, filled in as far as the runs tell."""

from __future__ import annotations

from collections.abc import Sequence

from envsnap.explain.candidates import Candidate
from envsnap.explain.explanation import Side
from envsnap.keys import Lever
from envsnap.runs.recipe import how, prove_command
from envsnap.runs.run import Run

Command = tuple[str, ...]

_HOW_IS_UNKNOWN = ("--", "BENCHMARK")
_REPEATS = "5"


def prove(candidate: Candidate, fast: Side, slow: Side) -> tuple[Command, ...]:
    """The experiment on one suspect alone; for what envsnap does not change itself, where to read how."""
    if candidate.lever in (None, Lever.ROOT):
        return (("envsnap", "key", candidate.principal.path),) if not _foreign(candidate) else ()
    return (_prove(fast, slow, (candidate.id,)),)


def reproduce(fast: Side, slow: Side) -> tuple[Command, ...]:
    """The runs that show whether the gap comes back at all."""
    if fast.runs and slow.runs and fast.snapshot.values:
        return (_prove(fast, slow, ()),)
    return (_run("fast-again", slow, fast),)


def look_further(missing: Sequence[str], slow: Side) -> tuple[Command, ...]:
    """A run that records what a side lacks, in today's state; nothing where nothing is lacking."""
    return (_run("slow-recorded", slow),) if missing else ()


def _prove(fast: Side, slow: Side, only: Sequence[str]) -> Command:
    names = fast.label or "FAST", slow.label or "SLOW"
    run = _measured(slow, fast)
    if run is not None:
        return prove_command(run, *names, only)
    return ("envsnap", "prove", *names, *(word for each in only for word in ("--only", each)), *_HOW_IS_UNKNOWN)


def _run(label: str, *sides: Side) -> Command:
    run = _measured(*sides)
    return ("envsnap", "run", "--label", label, "-n", _REPEATS, *(how(run) if run is not None else _HOW_IS_UNKNOWN))


def _measured(*sides: Side) -> Run | None:
    """The latest run of the first side that tells how it was measured."""
    return next((side.runs[-1] for side in sides if side.runs and side.runs[-1].command), None)


def _foreign(candidate: Candidate) -> bool:
    """Whether a change is none of a declared key, so that there is nothing to read about it."""
    from envsnap.collectors import keys
    from envsnap.keys import pattern_of

    return pattern_of(candidate.principal.path) not in keys()
