"""It was measured right after a start.

The first requests compile, tune, fill caches and allocate: 42 s for the very first one were seen. A server that had
served for an hour and one that was ready a moment ago are not alike, whatever their settings say.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain.explanation import Evidence
from envsnap.explain.ranks import ranks
from envsnap.explain.story import Facts, Finding, Together, View
from envsnap.explain.weights import FAIR
from envsnap.keys import Effect, instances_of
from envsnap.reading import Value

CODE = "fresh_server"
NEEDS = ("worker[].started_seconds",)

_YOUNG, _OLD = 180.0, 1800.0
"""Seconds."""


def tell(view: View) -> Iterator[Finding]:
    """Yield a slow side that was measured on a young server, against an old one."""
    ages = [_age(facts) for facts in view.sides]
    if ages[0] is None or ages[1] is None or not (0 <= ages[1] < _YOUNG and ages[0] > _OLD):
        return
    path, then, now = _path(view.slow), _start(view.fast), _start(view.slow)
    if path is None or then is None or now is None:
        return
    yield Together(
        "measured right after the server's start",
        "First requests compile, tune and fill caches.",
        (Change(path, key_for(path), Value(then), Value(now)),),
        (Effect.COMPUTE, Effect.HOST_LAUNCH, Effect.PREFILL),
        (
            Evidence(
                f"The slow side's server had run for {ages[1]:.0f} s, the fast side's for {ages[0] / 60:.0f} min.", FAIR
            ),
        ),
        prior=0.3,
    )


def _path(facts: Facts) -> str | None:
    held = [p for p in facts.values("worker[].started_seconds") if instances_of(p)[0] in ranks(facts)]
    return held[0] if held else None


def _start(facts: Facts) -> float | None:
    path = _path(facts)
    value = facts.get(path) if path else None
    return float(value) if isinstance(value, (int, float)) else None


def _age(facts: Facts) -> float | None:
    """How old the server was when its last run was started (else when the snapshot was taken)."""
    start = _start(facts)
    moments = [run.started_at for run in facts.side.runs] or [facts.snapshot.captured_at]
    try:
        measured = datetime.fromisoformat(moments[-1]).timestamp()
    except ValueError:
        return None
    return None if start is None else measured - start
