"""Static SVG: scales, marks and the two layers of a picture.

A picture is as wide as its place. Marks are drawn in a layer of 1000 units that is stretched to it, with strokes that
are not; words stand in a layer beside it that is not stretched, at percentages. Colours come from the page's style
alone, by class, so that a picture follows light, dark and print, and no style stands in an attribute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envsnap.report.page.tree import Child, Node, el, number

WIDTH = 1000
"""Units from the left to the right end of every picture."""


@dataclass(frozen=True)
class Scale:
    """Places figures from `low` to `high` on the picture's width, linearly or by their logarithm."""

    low: float
    high: float
    by_ratio: bool = False

    def at(self, value: float) -> float:
        """The place of a figure in units; beyond the ends it is the end."""
        low, high, v = (
            (math.log(x) for x in (self.low, self.high, value)) if self.by_ratio else (self.low, self.high, value)
        )
        return WIDTH * min(1.0, max(0.0, (v - low) / (high - low)))

    def percent(self, value: float) -> str:
        """The same for a word's place."""
        return percent(self.at(value))


def percent(place: float) -> str:
    """A place in units, for a word."""
    return f"{number(place / WIDTH * 100)}%"


def around(values: Iterable[float], margin: float = 0.06) -> Scale:
    """A linear scale on which these figures have some room on both sides."""
    held = list(values)
    low, high = min(held), max(held)
    room = (high - low) * margin or abs(high) * 0.02 or 1.0
    return Scale(low - room, high + room)


def ratios(values: Iterable[float], least: float = 1.05, margin: float = 1.06) -> Scale:
    """A scale of ratios that holds 1 and these, and is never so narrow that noise would look large."""
    held = [*values, 1 / least, least]
    return Scale(min(held) / margin, max(held) * margin, by_ratio=True)


def nice_ticks(low: float, high: float, count: int = 4, steps: Sequence[float] = ()) -> list[float]:
    """Round figures from `low` to `high`, about `count` of them, in one of the steps where they are given."""
    if not high > low:
        return [low]
    power: float = 10.0 ** math.floor(math.log10((high - low) / count))
    found = [_multiples(low, high, step) for step in steps or [power * s for s in (1, 2, 2.5, 5, 10)]]
    return min(found, key=lambda ticks: abs(len(ticks) - count))


def _multiples(low: float, high: float, step: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def ratio_ticks(scale: Scale, apart: float = 0.09) -> list[float]:
    """Ratios to mark: 1, and round ones beside it that stand `apart` by a part of the width at least."""
    wide = math.log(scale.high / scale.low)
    steps: Sequence[float] = (
        (0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 100)
        if wide > 1.5
        else (0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2)
        if wide > 0.35
        else (0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2)
    )
    found: list[float] = [1]
    for tick in sorted(steps, key=lambda t: abs(math.log(t))):
        nearest = min(abs(scale.at(tick) - scale.at(other)) for other in found)
        if scale.low <= tick <= scale.high and nearest > apart * WIDTH:
            found.append(tick)
    return sorted(found)


def picture(height: int, label: str, marks: Iterable[Child], words: Iterable[Child] = (), **more: str | None) -> Node:
    """A picture of `height` pixels: what it shows stands in `label` for those who do not see it."""
    stretched = el(
        "svg", *marks, viewBox=f"0 0 {WIDTH} {height}", preserveAspectRatio="none", width="100%", height=height
    )
    return el("svg", stretched, *words, role="img", aria_label=label, width="100%", height=height, **more)


def dots(points: Iterable[tuple[float, float]], class_: str) -> Node:
    """Points that stay round however the layer is stretched: lines of no length with round ends."""
    return el("path", d="".join(f"M{number(x)} {number(y)}h0" for x, y in points), class_=f"dot {class_}")


def line(x0: float, y0: float, x1: float, y1: float, class_: str) -> Node:
    """A straight line."""
    return el("path", d=f"M{number(x0)} {number(y0)}L{number(x1)} {number(y1)}", class_=class_)


def box(x0: float, x1: float, y: float, height: float, class_: str) -> Node:
    """A rectangle from one place to another, in either order; never so thin that it cannot be seen."""
    left, right = sorted((x0, x1))
    return el("rect", x=left, y=y, width=max(1.5, right - left), height=height, class_=class_)


def word(text: str, x: str, y: float, anchor: str = "middle", class_: str = "tick") -> Node:
    """A word at a percentage of the width and a height in pixels."""
    return el("text", text, x=x, y=float(y), text_anchor=anchor, class_=class_)


def anchor(place: float, edge: float = 0.06) -> str:
    """How a word at a place in units is set so that it stays inside: away from an end that is nearer than `edge`."""
    return "start" if place < edge * WIDTH else "end" if place > (1 - edge) * WIDTH else "middle"
