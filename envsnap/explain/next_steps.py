"""What would settle it: commands as argument arrays, filled in as far as the runs tell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from envsnap.explain.candidates import Candidate
from envsnap.explain.explanation import Side
from envsnap.keys import Lever
from envsnap.runs.run import Run

Command = tuple[str, ...]

_BENCHMARK = ("BENCHMARK",)
_REPEATS = "5"


def prove(candidate: Candidate, fast: Side, slow: Side) -> tuple[Command, ...]:
    """The experiment on one suspect alone; for what envsnap does not change itself, where to read how."""
    if candidate.lever in (None, Lever.ROOT):
        return (("envsnap", "key", candidate.principal.path),) if not _foreign(candidate) else ()
    names = _names(fast, slow)
    return (("envsnap", "prove", *names, "--only", candidate.id, *_server(slow), "--", *_benchmark(slow, fast)),)


def reproduce(fast: Side, slow: Side) -> tuple[Command, ...]:
    """The runs that show whether the gap comes back at all."""
    benchmark = _benchmark(slow, fast)
    if fast.runs and slow.runs and fast.snapshot.values:
        return (("envsnap", "prove", *_names(fast, slow), *_server(slow), "--", *benchmark),)
    return (("envsnap", "run", "--label", "again", "-n", _REPEATS, *_server(slow), "--", *benchmark),)


def look_further(missing: Sequence[str], slow: Side) -> tuple[Command, ...]:
    """A run that records what a side lacks; nothing where nothing is lacking."""
    if not missing:
        return ()
    return (("envsnap", "run", "--label", "recorded", "-n", _REPEATS, *_server(slow), "--", *_benchmark(slow, slow)),)


def _foreign(candidate: Candidate) -> bool:
    """Whether a change is none of a declared key, so that there is nothing to read about it."""
    from envsnap.collectors import keys
    from envsnap.keys import pattern_of

    return pattern_of(candidate.principal.path) not in keys()


def _names(fast: Side, slow: Side) -> tuple[str, str]:
    return fast.label or "FAST", slow.label or "SLOW"


def _last(side: Side) -> Run | None:
    return side.runs[-1] if side.runs else None


def _server(side: Side) -> tuple[str, ...]:
    run = _last(side)
    return ("--server", shlex.join(run.server)) if run and run.server else ()


def _benchmark(first: Side, second: Side) -> tuple[str, ...]:
    for side in (first, second):
        if (run := _last(side)) and run.command:
            return run.command
    return _BENCHMARK
