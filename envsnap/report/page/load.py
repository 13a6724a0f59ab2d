"""State under load in figures: median and 5th to 95th percentile of what was sampled, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envsnap.fold import listed
from envsnap.keys import UNITS, instances_of, path_of, pattern_of
from envsnap.reading import Json
from envsnap.report.page import svg
from envsnap.report.page.content import Content
from envsnap.report.page.parts import fold, mark, row, section, table
from envsnap.report.page.timelines import FIRST
from envsnap.report.page.tree import Child, Node, el
from envsnap.runs.samples import GAUGES, Gauge

_PARTS = ("median", "p5", "p95")
_HEIGHT = 22

Figures = tuple[float, float, float]
"""Median, 5th and 95th percentile."""


def load(content: Content) -> Node | None:
    """The section about clocks, links and CPUs under load; None where nothing was sampled."""
    letters = [letter for letter, _, _ in content.lettered()]
    first: list[Node] = []
    rest: list[Node] = []
    for gauge in GAUGES:
        held = first if gauge.stem in FIRST else rest
        held += [_row(gauge, names, figures, letters) for names, figures in _rows(gauge, content)]
    if not first and not rest:
        return None
    body: list[Child] = [_table("Medians under load", first, letters)] if first else []
    if rest:
        body.append(fold("Other figures under load", _table("Further medians under load", rest, letters)))
    if not content.samples:
        body.append(el("p", "No samples over time stand beside these runs: there are no timelines.", class_="dim"))
    return section("load", "Under load", *body, note="over the busy samples of the measured window")


def _table(caption: str, rows: list[Node], letters: list[str]) -> Node:
    two = len(letters) > 1
    medians: list[Child] = [[mark(letter), " median"] if two else "median" for letter in letters]
    return table(caption, ["reading", *medians, "5th percentile, median, 95th"], rows, "load")


def _rows(gauge: Gauge, content: Content) -> Iterator[tuple[str, list[Figures | None]]]:
    """The figures of each instance, alike ones under one name."""
    values: list[Mapping[str, Json]] = [state.values for state in content.states]
    pattern = gauge.pattern("median")
    alike: dict[tuple[Figures | None, ...], list[str]] = {}
    for path in dict.fromkeys(p for held in values for p in held if pattern_of(p) == pattern):
        names = instances_of(path)
        figures = tuple(_figures(gauge, names, held) for held in values)
        if any(f is not None for f in figures):
            alike.setdefault(figures, []).append(names[0] if names else "")
    for found, instances in alike.items():
        yield listed(instances) if instances != [""] else "", list(found)


def _figures(gauge: Gauge, names: list[str], values: Mapping[str, Json]) -> Figures | None:
    found = [values.get(path_of(gauge.pattern(p), *names) if names else gauge.pattern(p)) for p in _PARTS]
    numbers = [float(v) for v in found if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == len(_PARTS) else None


def _row(gauge: Gauge, name: str, figures: list[Figures | None], letters: list[str]) -> Node:
    unit = UNITS.get(gauge.unit, gauge.unit)
    known = [v for f in figures if f for v in f]
    floor = [0.0] if gauge.unit == "percent" else []
    scale = svg.around([*known, *floor, *(v * part for v in known for part in (0.95, 1.05))])
    marks: list[Child] = []
    for i, (letter, found) in enumerate(zip(letters, figures)):
        y = _HEIGHT / (len(letters) + 1) * (i + 1)
        if found:
            marks.append(svg.line(scale.at(found[1]), y, scale.at(found[2]), y, f"range {letter}"))
            marks.append(svg.dots([(scale.at(found[0]), y)], letter))
    words = [_words(gauge, f[0], unit) if f else "unknown" for f in figures]
    where = {"gpu": f"GPU {name}", "worker": name, "host": "host"}[gauge.of]
    told = f"{gauge.meaning}, {where}: {' and '.join(words)}"
    return row(
        [gauge.meaning, el("span", where, class_="note")],
        *(
            el("td", w, class_="figure" if f else "figure warn", data_side=letter.upper() if len(letters) > 1 else None)
            for w, f, letter in zip(words, figures, letters)
        ),
        el("td", svg.picture(_HEIGHT, told, marks), class_="picture"),
    )


def _words(gauge: Gauge, value: float, unit: str) -> str:
    if gauge.unit == "bytes":
        return f"{value / (1 << 30):.4g} GiB"
    return f"{value:.6g} {unit}".rstrip()
