"""The speed model of speculative decoding: which term of decode time moved, and how much each explains.

    tokens per second of one stream = accept length / step time
    step time                       = draft + verify + draft extend + host gap   (less what overlaps)

Without speculation the accept length is 1, and a step is one forward pass (`decode`) and the host gap.

A change of log throughput is split over these terms with log-mean weights: the parts add up exactly, whatever
their size, and what the measured terms do not explain is an explicit residual.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

STEP_PARTS = ("draft", "verify", "draft_extend", "decode", "host_gap")


@dataclass(frozen=True)
class Terms:
    """One side's figures: means over its runs. What was not measured is None.

    `tokens_per_second` is that of one stream; `accept_length` in tokens a step; `step_seconds` and the values
    of `parts` (a subset of STEP_PARTS) in seconds a step.
    """

    tokens_per_second: float
    accept_length: float | None = None
    step_seconds: float | None = None
    parts: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Share:
    """What one term adds to the change of log throughput; `share` is its part of the whole, None if that is 0."""

    term: str
    before: float | None
    after: float | None
    log_change: float
    share: float | None


def split(a: Terms, b: Terms) -> list[Share]:
    """Split log(b/a) of tokens per second over the terms that both sides measured.

    The `log_change` of all shares adds up to the whole. A last share named `residual` holds what is left: with
    neither accept length nor step time on both sides, that is all of it. If only one of the two is known, the other
    follows from the model and is marked by `inferred_` before its name. Raises: ValueError if a figure is not positive.
    """
    _positive(a, b)
    whole = math.log(b.tokens_per_second / a.tokens_per_second)
    accept = _both(a.accept_length, b.accept_length)
    step = _both(a.step_seconds, b.step_seconds)
    inferred = ""
    if accept and not step:
        step = (accept[0] / a.tokens_per_second, accept[1] / b.tokens_per_second)
        inferred = "step_time"
    elif step and not accept:
        accept = (step[0] * a.tokens_per_second, step[1] * b.tokens_per_second)
        inferred = "accept_length"
    found: list[tuple[str, tuple[float, float] | None, float]] = []
    if accept and step:
        found.append((_named("accept_length", inferred), accept, math.log(accept[1] / accept[0])))
        found.extend(_step_shares(a, b, step, _named("step_time", inferred)))
    residual = whole - sum(change for _, _, change in found)
    found.append(("residual", None, 0.0 if abs(residual) < 1e-12 else residual))
    return [
        Share(term, sides[0] if sides else None, sides[1] if sides else None, change, change / whole if whole else None)
        for term, sides, change in found
    ]


def _step_shares(
    a: Terms, b: Terms, step: tuple[float, float], name: str
) -> list[tuple[str, tuple[float, float] | None, float]]:
    """The step time as a whole, or its parts where both sides timed the same ones; the untimed rest is `host_gap`."""
    timed = [part for part in STEP_PARTS if a.parts and b.parts and part in a.parts and part in b.parts]
    if not timed or not (a.parts and b.parts):
        return [(name, step, -math.log(step[1] / step[0]))]
    sides = {part: (a.parts[part], b.parts[part]) for part in timed}
    if "host_gap" not in sides:
        sides["host_gap"] = (step[0] - sum(a.parts[p] for p in timed), step[1] - sum(b.parts[p] for p in timed))
    weight = log_mean(*step)
    return [(part, (x, y), -(y - x) / weight) for part, (x, y) in sides.items()]


def log_mean(x: float, y: float) -> float:
    """The logarithmic mean (y - x) / (ln y - ln x); x where both are equal."""
    return x if math.isclose(x, y, rel_tol=1e-12) else (y - x) / math.log(y / x)


def _named(term: str, inferred: str) -> str:
    return f"inferred_{term}" if term == inferred else term


def _both(x: float | None, y: float | None) -> tuple[float, float] | None:
    return None if x is None or y is None else (x, y)


def _positive(*sides: Terms) -> None:
    for side in sides:
        for figure in (side.tokens_per_second, side.accept_length, side.step_seconds):
            if figure is not None and not (figure > 0 and math.isfinite(figure)):
                raise ValueError(f"a speed figure has to be positive, not {figure}")
