"""The start of a search: from two sides and what explains them to a problem, and what their runs tell of a command."""

from __future__ import annotations

import math
from collections.abc import Sequence
from urllib.parse import urlsplit

from envsnap.explain.explanation import Explanation, Side
from envsnap.prove.switches import options_of
from envsnap.runs.metrics import Better
from envsnap.runs.run import Run

SPREAD, SPREAD_FREEDOM = 0.05, 2.0
"""Of runs of one configuration, where the sides' own runs tell nothing."""
_MOST_FREEDOM = 8.0
"""Runs of one session are more alike than trials will be, so they are not believed beyond this."""
_STEP = "step_seconds"


def metric_of(explanation: Explanation, asked: str = "") -> str:
    """The metric to go by: step time where that moved, since acceptance scatters in throughput; else the first."""
    if asked or explanation.comparison is None:
        return asked
    metrics = [j.metric for j in explanation.comparison.judged]
    if explanation.symptom.step_moved and any(m.name == _STEP for m in metrics):
        return _STEP
    return next((m.name for m in metrics if m.better is not Better.NEITHER), "")


def costs_of(side: Side, metric: str) -> list[float]:
    """Log costs of a side's good runs."""
    found = [m for r in side.runs if r.status == "ok" for m in r.metrics if m.name == metric]
    return [-math.log(m.value) if m.better is Better.HIGHER else math.log(m.value) for m in found]


def spread_and_gap(fast: Side, slow: Side, metric: str) -> tuple[tuple[float, float], float | None]:
    """The spread of runs with its degrees of freedom, and the recorded log ratio of slow to fast."""
    sides = [costs_of(side, metric) for side in (fast, slow)]
    squares, freedom = SPREAD**2 * SPREAD_FREEDOM, SPREAD_FREEDOM
    for costs in sides:
        if len(costs) > 1:
            mean = math.fsum(costs) / len(costs)
            squares += math.fsum((c - mean) ** 2 for c in costs)
            freedom += len(costs) - 1
    own = sum(max(len(c) - 1, 0) for c in sides)
    if own >= 2:  # then the stated default is weighed no more than one run
        squares, freedom = squares - SPREAD**2 * (SPREAD_FREEDOM - 1), freedom - SPREAD_FREEDOM + 1
    gap = math.fsum(sides[1]) / len(sides[1]) - math.fsum(sides[0]) / len(sides[0]) if all(sides) else None
    return (max(math.sqrt(squares / freedom), 0.003), min(freedom, _MOST_FREEDOM)), gap


def ready_address(server: Sequence[str], runs: Sequence[Run]) -> str:
    """Where the server tells that it is ready: by its own port, else where the runs' server was asked; or nothing."""
    held = options_of(server)
    port = held.get("port", ())
    number = port[1] if len(port) > 1 else port[0].partition("=")[2] if port else ""
    if number.isdigit():
        return f"http://127.0.0.1:{number}/health"
    for run in reversed(runs):
        asked = run.snapshots["during"].scope.get("servers") if "during" in run.snapshots else None
        if isinstance(asked, list) and asked:
            parts = urlsplit(str(asked[0]))
            return f"{parts.scheme}://{parts.netloc}/health"
    return ""
