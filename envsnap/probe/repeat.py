"""Repetitions: how often something is measured."""

from __future__ import annotations

import time
from collections.abc import Callable

REPETITIONS, AT_LEAST, BUDGET_SECONDS = 7, 3, 3.0


def repeated(measure: Callable[[], float], repetitions: int = REPETITIONS) -> tuple[float, ...]:
    """The value of each repetition; after the budget is spent only as many as it takes to know a spread."""
    started = time.monotonic()
    values: list[float] = []
    while len(values) < repetitions and (len(values) < AT_LEAST or time.monotonic() - started < BUDGET_SECONDS):
        values.append(measure())
    return tuple(values)
