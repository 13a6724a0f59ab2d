"""Prometheus' text format, read strictly: a page that is not wholly understood is no page.

What counts is how counters grew from one page to the next. A series that only the later page has grew from zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

MAX_BYTES = 8 << 20
MAX_SAMPLES = 100_000
MAX_LINE = 16 << 10

_SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*",?)*)\})?'
    r" ([^ ]+)(?: -?[0-9.]+)?(?: # .*)?"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """The samples of a page by name and labels."""

    samples: Mapping[str, Mapping[Labels, float]]

    def has(self, name: str) -> bool:
        """Whether there is any sample of that name."""
        return name in self.samples


def parse(text: str) -> Page:
    """Read a page. Raises: ValueError in a sentence, also for what is larger than any server's page."""
    if len(text) > MAX_BYTES:
        raise ValueError(f"the page is larger than {MAX_BYTES >> 20} MiB")
    found: dict[str, dict[Labels, float]] = {}
    count = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line.rstrip()) if len(line) <= MAX_LINE else None
        count += 1
        if match is None or count > MAX_SAMPLES:
            raise ValueError(f"line {number} is no sample" if match is None else f"more than {MAX_SAMPLES:,} samples")
        try:
            value = float(match[3].replace("_", "?"))  # Python would take 1_000 for a number
        except ValueError:
            raise ValueError(f"line {number} has no number") from None
        labels = frozenset(
            (name, re.sub(r"\\.", lambda m: _ESCAPES.get(m[0], m[0]), escaped))
            for name, escaped in _LABEL.findall(match[2] or "")
        )
        series = found.setdefault(match[1], {})
        if labels in series:
            raise ValueError(f"line {number} gives a series twice")
        series[labels] = value
    return Page(found)


def growth(before: Page, after: Page, name: str, **labels: str | Collection[str]) -> float | None:
    """By how much a counter grew, all its series with these labels together; None where the later page has none.

    A label may have any of several values. A series that fell began anew, and grew by what it shows now.
    """
    wanted = {label: {value} if isinstance(value, str) else set(value) for label, value in labels.items()}
    series = {
        key: value
        for key, value in after.samples.get(name, {}).items()
        if math.isfinite(value) and all(dict(key).get(label) in values for label, values in wanted.items())
    }
    if not series:
        return None
    old = before.samples.get(name, {})
    grown = 0.0
    for key, value in series.items():
        start = old.get(key, 0.0)
        grown += value - start if math.isfinite(start) and value >= start else value
    return grown
