"""The figures of speed that an engine logs while it decodes, as one repetition's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from envsnap.runs.metrics import Better, Measured, Metric

ENOUGH = 3
"""Lines below which a median says nothing."""


@dataclass(frozen=True)
class Interval:
    """What one line says of an interval: tokens a second over all requests, how many ran, tokens accepted a step."""

    tokens_per_second: float
    running: int
    accept_length: float | None = None
    graph: bool | None = None


def measured(intervals: Sequence[Interval], source: str, speculates: bool | None) -> Measured | None:
    """The medians over intervals in which requests ran; None where there are too few.

    The first interval after a start holds the time before it, so that medians are taken and not means. Without
    speculation (`speculates` is False) a step gives one token.
    """
    busy = [i for i in intervals if i.running > 0 and i.tokens_per_second > 0]
    if len(busy) < ENOUGH:
        return None
    stream = median(i.tokens_per_second / i.running for i in busy)
    found = [
        Metric("stream_tokens_per_second", stream, "tok/s", Better.HIGHER, source),
        Metric("output_tokens_per_second", median(i.tokens_per_second for i in busy), "tok/s", Better.HIGHER, source),
    ]
    lengths = [i.accept_length for i in busy if i.accept_length]
    accept = median(lengths) if len(lengths) >= ENOUGH else 1.0 if speculates is False else None
    if accept is not None:
        found.append(Metric("accept_length", accept, "tokens", Better.NEITHER, source))
        found.append(Metric("step_seconds", accept / stream, "s", Better.LOWER, source))
    return Measured(tuple(found))
