"""What a benchmark measured: one figure a metric and run, with the samples behind it where the tool keeps them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median

from envsnap.reading import Json


class Better(str, Enum):
    """Which direction is good; NEITHER for what only explains (accept length, tokens)."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    """One figure of one run. `samples` are per-request values in the same unit, warm-up left out."""

    name: str
    value: float
    unit: str
    better: Better
    source: str
    samples: tuple[float, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """The metric's JSON form."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "better": self.better.value,
            "source": self.source,
            "samples": list(self.samples),
        }

    @classmethod
    def from_json(cls, data: Json) -> Metric:
        """Raises: KeyError, TypeError, ValueError for a malformed one."""
        return cls(
            str(data["name"]),
            positive(data["value"]),
            str(data["unit"]),
            Better(data["better"]),
            str(data["source"]),
            tuple(float(v) for v in data.get("samples", ())),
        )


@dataclass(frozen=True)
class Measured:
    """What a reader found in a benchmark's output.

    `metrics` hold one figure each. `request` is what was asked of the server (prompts, lengths, concurrency, seed):
    the client is state too. `window` is the measured part in seconds of `time.time()`, where the tool tells it.
    `warnings` are sentences about figures that mislead (cache hits, failed requests, one-token answers).
    """

    metrics: tuple[Metric, ...]
    request: dict[str, Json] = field(default_factory=dict)
    window: tuple[float, float] | None = None
    warnings: tuple[str, ...] = ()


class NoMetrics(Exception):
    """The output holds nothing usable; the message is one sentence that says what was found instead."""


def positive(value: Json) -> float:
    """A figure as a positive finite float. Raises: ValueError, since zero tokens a second is a failed run."""
    number = float(value)
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"not a positive figure: {value!r}")
    return number


def without_warm_up(samples: Sequence[float]) -> tuple[float, ...]:
    """Per-request values without the first few that are clearly slower than all the rest.

    At most a fifth of the samples is left out, and only those from the start that lie beyond the median of the rest by
    more than five times its median deviation and 20 %.
    """
    for skip in range(len(samples) // 5, 0, -1):
        rest = samples[skip:]
        middle = median(rest)
        spread = median(abs(v - middle) for v in rest)
        if all(v > middle * 1.2 and v > middle + 5 * spread for v in samples[:skip]):
            return tuple(rest)
    return tuple(samples)
