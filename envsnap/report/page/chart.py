"""One chart over time, drawn once for each stretch of time that can be chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from envsnap.reading import Json
from envsnap.report.page import svg
from envsnap.report.page.traces import Trace, View
from envsnap.report.page.tree import Child, Node, el
from envsnap.runs.thinning import Point, thinned
from envsnap.runs.thinning import lines as unbroken

_HEIGHT = 84
_PLOT = 64
_TOP = 6
_LANE = 7
_FEW = 40
"""Up to so many points are marked one by one."""

_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def lines(
    name: str,
    held: Sequence[tuple[Trace, list[Point]]],
    shown: Sequence[View],
    reach: tuple[float, float],
    unit: str,
    label: str,
    stretches: int,
) -> Node:
    """A chart of lines; `reach` are the least and the largest figure of its scale."""
    low, high = reach
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    low, high = (low if low == 0 else low - room), high + room
    pictures = [_lines(held, view, low, high, unit, f"{label}: {_told(held)}", stretches) for view in shown]
    return _figure(name, pictures)


def _figure(name: str, pictures: Iterable[Node]) -> Node:
    return el(
        "figure",
        el("figcaption", name) if name else None,
        *(el("div", p, class_=f"view view-{i}") for i, p in enumerate(pictures)),
    )


def _told(held: Sequence[tuple[Trace, list[Point]]]) -> str:
    """What the lines come to, for those who do not see them."""
    found = []
    for trace, points in held:
        values = [v for _, v in points]
        found.append(f"{trace.letter.upper()} {min(values):.4g} to {max(values):.4g}")
    return "; ".join(found)


def _lines(
    held: Sequence[tuple[Trace, list[Point]]],
    view: View,
    low: float,
    high: float,
    unit: str,
    label: str,
    stretches: int,
) -> Node:
    across = svg.Scale(view.start, view.end)
    down = svg.Scale(low, high)

    def y(value: float) -> float:
        return _TOP + (_PLOT - _TOP) * (1 - down.at(value) / svg.WIDTH)

    ticks = svg.nice_ticks(low, high, 2)
    marks: list[Child] = [*_windows([t for t, _ in held], across, _PLOT)]
    marks += [svg.line(0, y(t), svg.WIDTH, y(t), "rule") for t in ticks]
    drawn: set[str] = set()
    for trace, points in reversed(held):
        inside = view.holds(points)
        class_ = f"trace {trace.letter}"
        path = "".join(_path([(across.at(t), y(v)) for t, v in thinned(part, stretches)]) for part in unbroken(inside))
        marks.append(el("path", d=path, class_=class_))
        drawn.add(trace.letter)
        if len(inside) <= _FEW:
            marks.append(
                svg.dots(
                    [(across.at(t), y(v)) for t, v in inside if view.start <= t <= view.end], f"small {trace.letter}"
                )
            )
    words = [svg.word(_short(t, unit), "2", y(t) - 2, "start") for t in ticks]
    return svg.picture(_HEIGHT, label, marks, [*words, *_time_words(view, across)])


def _path(points: Sequence[tuple[float, float]]) -> str:
    """A line with a tenth of a pixel's precision, each point as the way from the one before."""
    if not points:
        return ""
    x, y = (round(c, 1) for c in points[0])
    parts = [f"M{x:g} {y:g}"]
    for px, py in points[1:]:
        dx, dy = round(px - x, 1), round(py - y, 1)
        if dx == 0 and dy == 0:
            continue
        x, y = round(x + dx, 1), round(y + dy, 1)
        parts.append(f"h{dx:g}" if dy == 0 else f"v{dy:g}" if dx == 0 else f"l{dx:g}{'' if dy < 0 else ' '}{dy:g}")
    return "".join(parts) if len(parts) > 1 else f"{parts[0]}h0"


def _windows(held: Sequence[Trace], across: svg.Scale, height: int) -> list[Node]:
    """The measured parts: shaded, and under the chart a bar in the colour of each side."""
    found: list[Node] = []
    for i, letter in enumerate("ab"):
        windows = [t.window for t in held if t.letter == letter and t.window]
        if windows:
            start, end = across.at(0.0), across.at(max(w[1] for w in windows))
            found.append(svg.box(start, end, 0, height, f"window {letter}"))
            found.append(svg.box(start, end, height + 1 + 2.5 * i, 2, f"window-bar {letter}"))
    return found


def _time_words(view: View, across: svg.Scale) -> list[Node]:
    ticks = svg.nice_ticks(view.start, view.end, 4)
    return [svg.word(_time(t), across.percent(t), _HEIGHT - 2.0, svg.anchor(across.at(t))) for t in ticks]


def _time(seconds: float) -> str:
    if abs(seconds) < 120:
        return f"{seconds:g} s".replace("-", "−")
    minutes = seconds / 60
    return (f"{minutes:g} min" if minutes == round(minutes, 1) else f"{minutes:.1f} min").replace("-", "−")


def _short(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / (1 << 30):.3g} GiB"
    for size, letter in _SIZES:
        if abs(value) >= 10 * size:
            return f"{value / size:g} {letter}"
    return f"{value:g}"


def lanes(
    name: str,
    held: Sequence[tuple[Trace, list[tuple[float, Json]]]],
    names: Sequence[str],
    shown: Sequence[View],
    label: str,
) -> Node:
    """A chart of what was so at which time: for each name a lane of each run."""
    return _figure(name, [_lanes(held, names, view, label) for view in shown])


def _lanes(
    held: Sequence[tuple[Trace, list[tuple[float, Json]]]], names: Sequence[str], view: View, label: str
) -> Node:
    across = svg.Scale(view.start, view.end)
    block = 15 + _LANE * len(held)
    height = block * len(names) + 4
    marks: list[Child] = [*_windows([t for t, _ in held], across, height)]
    words: list[Child] = []
    told = []
    for i, reason in enumerate(names):
        words.append(svg.word(reason, "2", block * i + 11.0, "start", "lane"))
        for j, (trace, states) in enumerate(held):
            top = block * i + 15 + _LANE * j
            marks.append(svg.line(0, top + 2, svg.WIDTH, top + 2, "rule"))
            stretches = [s for s in _stretches(states, reason) if s[1] >= view.start and s[0] <= view.end]
            marks += [svg.box(across.at(a), across.at(b), top, _LANE - 3, f"lane {trace.letter}") for a, b in stretches]
            share = sum(reason in v for _, v in states) / len(states)
            told.append(f"{reason} in {share:.0%} of the samples of {trace.letter.upper()}")
    ticks = svg.nice_ticks(view.start, view.end, 4)
    words += [svg.word(_time(t), across.percent(t), height + 16.0, svg.anchor(across.at(t))) for t in ticks]
    return svg.picture(height + 20, f"{label}: {'; '.join(told)}", marks, words)


def _stretches(states: Sequence[tuple[float, Json]], reason: str) -> list[tuple[float, float]]:
    """From when to when a name was there, each sample standing until the next."""
    found: list[tuple[float, float]] = []
    for (t, names), (until, _) in pairwise([*states, (states[-1][0], [])]):
        if reason not in names:
            continue
        if found and found[-1][1] == t:
            found[-1] = (found[-1][0], until)
        else:
            found.append((t, until))
    return found
