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

_MINUTES_FROM = 180
_MINUTES = [60 * m for m in (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1440, 2880, 10_080, 43_200)]
_MOST_TICKS = 5

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
    steep = -(_PLOT - _TOP) / (high - low)

    def y(value: float) -> float:
        return _PLOT + (value - low) * steep

    ticks = svg.nice_ticks(low, high, 2)
    marks: list[Child] = [*_windows([t for t, _ in held], across, _PLOT)]
    marks += [svg.line(0, y(t), svg.WIDTH, y(t), "rule") for t in ticks]
    paths: list[Child] = []
    for trace, points in reversed(held):
        inside = view.holds(points)
        path = "".join(_path(thinned(part, stretches)) for part in unbroken(inside))
        paths.append(el("path", d=path, class_=f"trace {trace.letter}"))
        if len(inside) <= _FEW:
            path = "".join(f"M{_exact(t)} {_exact(v)}h0" for t, v in inside)
            paths.append(el("path", d=path, class_=f"dot small {trace.letter}"))
    # NOTE: paths are in seconds and in the figure's own unit, so that the script tells figures as they were recorded.
    wide = svg.WIDTH / (view.end - view.start)
    matrix = (wide, 0.0, 0.0, steep, -view.start * wide, _PLOT - low * steep)
    marks.append(el("g", *paths, transform=f"matrix({' '.join(f'{m:.9g}' for m in matrix)})"))
    words = [svg.word(_short(t, unit), "2", y(t) - 2, "start") for t in ticks]
    return svg.picture(_HEIGHT, label, marks, [*words, *_time_words(view, across)], class_="timeline")


def _exact(value: float) -> str:
    """A figure as it was recorded, to three decimals."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _path(points: Sequence[Point]) -> str:
    """A line through samples, times to a tenth of a second; each point as the way from the one before."""
    rounded = [(round(t, 1), round(v, 3)) for t, v in points]
    parts = [f"M{_exact(t)} {_exact(v)}" for t, v in rounded[:1]]
    for (t0, v0), (t1, v1) in pairwise(rounded):
        dt, dv = _exact(t1 - t0), _exact(v1 - v0)
        if dv in ("0", "-0"):
            parts.append(f"h{dt}")
        else:
            parts.append(f"l{dt}{'' if dv.startswith('-') else ' '}{dv}")
    return "".join(parts) if len(parts) > 1 else "".join([*parts, "h0"])


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


def _time_words(view: View, across: svg.Scale, y: float = _HEIGHT - 2.0) -> list[Node]:
    """Seconds, or minutes where there are many."""
    in_minutes = max(-view.start, view.end) >= _MINUTES_FROM
    long = view.end - view.start
    steps = [s for s in _MINUTES if s * _MOST_TICKS >= long] if in_minutes else []
    found = []
    for tick in svg.nice_ticks(view.start, view.end, 4, steps[:2]):
        words = f"{tick / 60:g} min" if in_minutes else f"{tick:g} s"
        found.append(svg.word(words.replace("-", "−"), across.percent(tick), y, svg.anchor(across.at(tick))))
    return found


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
    words += _time_words(view, across, height + 16.0)
    return svg.picture(
        height + 20, f"{label}: {'; '.join(told)}", marks, words, class_="timeline", data_height=str(height)
    )


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
