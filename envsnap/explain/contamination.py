"""Contamination: how far the fast side can be trusted as a baseline. The question that is usually asked last."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import fmean

from envsnap.collectors import key_for
from envsnap.explain.effective import computes
from envsnap.explain.nulls import TELLING, listed_words
from envsnap.explain.past import Memory, Past
from envsnap.explain.story import Facts, View
from envsnap.fold import listed
from envsnap.keys import instances_of
from envsnap.runs.run import Run
from envsnap.wording import plural

_ALIKE = math.log(1.05)
"""Two sessions whose speeds are closer than this show the same speed."""
_DAY = 86400.0
_NOTABLE = 0.3
"""Prior of a variable from which its absence today is worth a word."""


def contamination(view: View, memory: Memory, missing: Sequence[str]) -> Iterator[str]:
    """Sentences on how far the fast side can be trusted; `missing` is what a side's record does not hold."""
    lacking = [what for what in missing if not _holds(view.fast, what)]
    if unrecorded(view, missing):
        yield (
            "Of the state in which the fast side was measured next to nothing was recorded: neither what its workers "
            "had nor whether anybody exports that today can be known. Put back what anybody remembers of it (checkout, "
            "variables, server command) and measure that first."
        )
    elif only := [what for what in lacking if _holds(view.slow, what)]:
        yield f"The fast side's record lacks {listed_words(only)}, which the slow side's holds."
    yield from _forgotten_variables(view)
    fast, slow = view.fast.side.runs, view.slow.side.runs
    if not fast:
        if view.symptom.measured:
            yield "The fast side is a figure without a run behind it."
        return
    yield from _age(fast, slow)
    yield from _repetition(fast, slow)
    yield from _reproduced(memory)
    for warning in dict.fromkeys(w for run in fast for w in run.warnings):
        yield f"Of the fast side: {warning.rstrip('.')}."


def unrecorded(view: View, missing: Sequence[str]) -> bool:
    """Whether next to nothing is known of the state behind the fast side's figures."""
    lacking = [what for what in missing if not _holds(view.fast, what)]
    return bool(view.fast.side.runs) and len(lacking) > len(TELLING) * 0.7


def _holds(facts: Facts, what: str) -> bool:
    return any(facts.has(key) for key in dict(TELLING)[what])


def _forgotten_variables(view: View) -> Iterator[str]:
    """Variables that the fast side's workers had, and that neither the slow side's shell nor its workers have."""
    had = {
        instances_of(p)[1]
        for key in ("worker[].env[]", "record[].env[]")
        for p in view.fast.values(key)
        if computes(instances_of(p)[0]) and key_for(p).prior >= _NOTABLE
    }
    if not had:
        return
    shell = {instances_of(p)[0] for p in view.slow.values("env[]")}
    workers = {instances_of(p)[1] for key in ("worker[].env[]", "record[].env[]") for p in view.slow.values(key)}
    if not shell and not workers:
        return
    gone = sorted(had - shell - workers)
    if gone:
        those = "a variable" if len(gone) == 1 else "variables"
        yield f"The fast side's workers had {those} that nobody exports today: {listed(gone)}."


def _age(fast: Sequence[Run], slow: Sequence[Run]) -> Iterator[str]:
    one, two = _moment(fast[0].started_at), _moment(slow[0].started_at) if slow else None
    if one is not None and two is not None and abs(two - one) >= _DAY:
        days = round(abs(two - one) / _DAY)
        order = "before" if two > one else "after"
        yield f"The fast side was measured {plural(days, 'day')} {order} the slow one."


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _repetition(fast: Sequence[Run], slow: Sequence[Run]) -> Iterator[str]:
    good = [sum(r.status == "ok" for r in runs) for runs in (fast, slow)]
    if good == [1, 1]:
        yield "Both sides were measured once."
    elif good[0] == 1:
        yield "The fast side was measured once."


def _reproduced(memory: Memory) -> Iterator[str]:
    """Whether any other session of the fast side's configuration came out as fast."""
    fast, slow = _level(memory.fast, memory), _level(memory.slow, memory)
    if fast is None or slow is None or slow - fast < _ALIKE:
        return
    known = {p.configuration for p in memory.fast if p.configuration}
    sessions: dict[str, list[float]] = {}
    for past in memory.others:
        if past.configuration in known and (time := memory.log_time(past)) is not None:
            sessions.setdefault(past.session, []).append(time)
    again = [fmean(times) for times in sessions.values()]
    if not again:
        yield "No other session of the fast side's configuration is known: nothing shows that its speed comes back."
        return
    as_fast = sum(time - fast < _ALIKE for time in again)
    of = plural(len(again), "other session")
    yield f"Of {of} of the fast side's configuration, {as_fast or 'none'} came out as fast."


def _level(pasts: Sequence[Past], memory: Memory) -> float | None:
    times = [time for p in pasts if (time := memory.log_time(p)) is not None]
    return fmean(times) if times else None
