"""Timelines: what was sampled while the benchmarks ran, the runs of both sides laid over each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envsnap.fold import listed
from envsnap.keys import UNITS
from envsnap.report.page import svg
from envsnap.report.page.chart import lanes, lines
from envsnap.report.page.content import Content
from envsnap.report.page.parts import fold, mark, section
from envsnap.report.page.traces import Trace, View, traces, views
from envsnap.report.page.tree import Child, Node, el
from envsnap.runs.samples import GAUGES, Gauge, instances
from envsnap.runs.thinning import Point

FIRST = ("sm_clock", "power", "temperature", "pcie_speed", "pcie_width", "utilization", "cpu")
"""Stems of the gauges that are shown at once; the others on demand."""

_POINTS = 90_000
"""Points of all lines together, which bounds the page's size: about five bytes each."""
_STRETCHES = 240
_STATES = {"throttle_reasons": "Why the clocks were held down", "foreign": "Processes that are not the run's own"}
_OWNERS = {"gpu": "GPU", "worker": "", "host": "host"}


@dataclass(frozen=True)
class _Series:
    """One figure of one instance, of every run that has it."""

    gauge: Gauge
    instance: str
    points: tuple[tuple[Trace, list[Point]], ...]

    @property
    def name(self) -> str:
        """The instance for people."""
        return f"{_OWNERS[self.gauge.of]} {self.instance}".strip()

    @property
    def steady(self) -> float | None:
        """The one figure that all runs showed all the time; None where something moved."""
        values = {v for _, points in self.points for _, v in points}
        return values.pop() if len(values) == 1 else None


def timelines(content: Content) -> Node | None:
    """The section about what was sampled over time; None where no samples were kept."""
    held = traces(content)
    if not held:
        return None
    shown = views(held)
    gauges = [(gauge, list(_series(gauge, held))) for gauge in GAUGES]
    gauges = [(gauge, series) for gauge, series in gauges if series]
    count = sum(len(s.points) for _, series in gauges for s in series if s.steady is None) * len(shown)
    stretches = max(24, min(_STRETCHES, _POINTS // (4 * max(1, count))))
    first = [_gauge(gauge, series, shown, stretches) for gauge, series in gauges if gauge.stem in FIRST]
    rest = [_gauge(gauge, series, shown, stretches) for gauge, series in gauges if gauge.stem not in FIRST]
    body: list[Child] = [_legend(held), _switch(shown), _moment(shown), *first, *_state_blocks(held, shown)]
    if rest:
        body.append(fold("Other figures over time", *rest))
    return section("timelines", "Timelines", *body)


def _series(gauge: Gauge, held: Sequence[Trace]) -> Iterator[_Series]:
    named = [name for t in held for name in (instances(t.samples, gauge.of) if gauge.of != "host" else [""])]
    for instance in dict.fromkeys(named):
        column = f"{gauge.of}[{instance}].{gauge.column}" if instance else f"{gauge.of}.{gauge.column}"
        found = [(trace, points) for trace in held if (points := trace.points(column))]
        if found:
            yield _Series(gauge, instance, tuple(found))


def _gauge(gauge: Gauge, series: Sequence[_Series], shown: Sequence[View], stretches: int) -> Node:
    """One figure of all instances, on one scale. What never moved is a sentence."""
    unit = UNITS.get(gauge.unit, gauge.unit)
    steady: dict[float, list[str]] = {}
    for one in series:
        if one.steady is not None:
            steady.setdefault(one.steady, []).append(one.instance)
    moving = [one for one in series if one.steady is None]
    values = [v for one in moving for _, points in one.points for _, v in points]
    floor = min(values, default=0.0)
    if gauge.unit in ("percent", "watts", "hz", "bytes"):
        floor = min(0.0, floor)
    charts = [
        lines(
            one.name,
            list(one.points),
            shown,
            (floor, max(values)),
            gauge.unit,
            f"{gauge.meaning}, {one.name}",
            stretches,
        )
        for one in moving
    ]
    said = [_throughout(f"{value:g} {unit}".rstrip(), gauge.of, names) for value, names in steady.items()]
    return el(
        "div",
        el("h3", gauge.meaning, el("span", unit, class_="note")),
        el("div", *charts, class_="charts") if charts else None,
        [el("p", sentence, class_="dim steady") for sentence in said],
        class_="gauge",
    )


def _throughout(words: str, owner: str, instances: Sequence[str]) -> str:
    """What never moved, and where."""
    where = f"{_OWNERS[owner]} {listed(instances)}".strip() if instances[0] else _OWNERS[owner]
    return f"{words} throughout: {where}"


def _state_blocks(held: Sequence[Trace], shown: Sequence[View]) -> Iterator[Node]:
    """What is a set of names at any time: a lane for each name and side."""
    for column, title in _STATES.items():
        charts: list[Node] = []
        quiet = []
        for gpu in dict.fromkeys(g for t in held for g in instances(t.samples, "gpu")):
            found = [(trace, states) for trace in held if (states := trace.states(f"gpu[{gpu}].{column}"))]
            names = sorted({str(name) for _, states in found for _, held_names in states for name in held_names})
            if names:
                charts.append(lanes(f"GPU {gpu}", found, names, shown, f"{title}, GPU {gpu}"))
            elif found:
                quiet.append(gpu)
        if charts or quiet:
            said = el("p", _throughout("none", "gpu", quiet), class_="dim steady") if quiet else None
            body = el("div", *charts, class_="charts") if charts else None
            yield el("div", el("h3", title), body, said, class_="gauge")


def _legend(held: Sequence[Trace]) -> Node:
    letters = list(dict.fromkeys(t.letter for t in held))
    parts: list[Child] = []
    for letter in letters:
        ids = [t.run.id for t in held if t.letter == letter]
        parts += [el("span", mark(letter), " ", ", ".join(ids), class_="key")]
    begins = (
        "The clock begins with the measured window, which is shaded"
        if any(t.window for t in held)
        else ("The clock begins with the run; no measured window is known")
    )
    return el("p", *parts, el("span", f"{begins}.", class_="dim"), class_="legend")


def _switch(shown: Sequence[View]) -> Node | None:
    """Which stretch of time is shown; the style follows the choice, without a script."""
    if len(shown) < 2:
        return None
    choices = [
        el("label", el("input", type="radio", name="view", id=f"view-{i}", checked=i == 0), f" {view.name}")
        for i, view in enumerate(shown)
    ]
    return el("fieldset", el("legend", "time shown", class_="hidden"), *choices, class_="switch")


def _moment(shown: Sequence[View]) -> Node:
    """A moment to read all charts at; shown by the script, which moves it with the pointer too."""
    ends = " ".join(f"{view.start:.6g} {view.end:.6g}" for view in shown)
    slider = el("input", type="range", id="moment", min=0, max=svg.WIDTH, value=0, data_views=ends)
    return el("label", "moment ", slider, el("output", for_="moment"), class_="moment", hidden=True)
