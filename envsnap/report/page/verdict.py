"""Whether the sides differ in speed, and by which term: figures, samples as points, the split as a waterfall."""

from __future__ import annotations

import math
from collections.abc import Sequence

from envsnap.explain.explanation import Side
from envsnap.report import runs as report
from envsnap.report.page import svg
from envsnap.report.page.content import Content
from envsnap.report.page.parts import bullets, code, mark, row, section, table
from envsnap.report.page.tree import Child, Node, el
from envsnap.runs.compare import Comparison, Judged, worse
from envsnap.runs.metrics import Metric
from envsnap.runs.speed import Share
from envsnap.runs.verdict import SAME_WITHIN, Outcome, Verdict

REQUESTS = 400
"""Points of single requests that a picture holds for a side; of more, some are left out evenly."""

_POINTS_HEIGHT, _INTERVAL_HEIGHT, _STEP_HEIGHT, _AXIS_HEIGHT = 40, 36, 26, 20


def verdict(content: Content) -> Node | None:
    """The section about speed; None where nothing was measured."""
    if content.explanation is None:
        return _one_side(content.sides[0])
    comparison = content.explanation.comparison
    if comparison is None:
        return None
    body: list[Child] = list(_comparison(comparison, content.sides))
    if content.explanation.control:
        body += [el("h3", "Control pair"), *_comparison(content.explanation.control, ())]
    return section("speed", "Speed", *body)


def _comparison(comparison: Comparison, sides: Sequence[Side]) -> list[Child]:
    body: list[Child] = [bullets(comparison.obstacles, "warn")]
    if comparison.judged:
        scale = svg.ratios(x for j in comparison.judged for x in (j.verdict.ratio, j.verdict.low, j.verdict.high) if x)
        rows = [_judged(judged, scale, sides) for judged in comparison.judged]
        axis = el("tr", el("td", colspan=6), el("td", _ratio_axis(scale)), el("td"), class_="axis", aria_hidden="true")
        body.append(
            table(
                "Verdict on each metric",
                [
                    "",
                    "metric",
                    "runs",
                    mark("a"),
                    mark("b"),
                    "B / A",
                    "with its 95 % interval",
                    "n",
                ],
                [*rows, axis],
                "metrics",
            )
        )
        if any(_requests(side, j.metric.name) for side in sides for j in comparison.judged):
            body.append(el("p", "Large points are runs, small ones single requests.", class_="dim"))
        body.append(el("p", comparison.judged[0].verdict.reason, class_="dim"))
        first = comparison.judged[0]
        body.append(bullets(first.verdict.notes, "dim"))
        if first.verdict.suspicious and first.verdict.outcome is Outcome.UNKNOWN:
            body.append(el("p", f"Suspicious: {report.settle(first)}", class_="warn"))
    if shares := report.moving(comparison):
        body += [el("h3", "What the change of speed is made of"), _waterfall(comparison, shares)]
    body.append(bullets(comparison.notes, "warn"))
    return body


def outcome_class(judged: Judged) -> str:
    """Better, worse, or neither, as a class."""
    if judged.verdict.outcome is not Outcome.DIFFERENT:
        return "dim"
    return {True: "bad", False: "good", None: "warn"}[worse(judged)]


def _judged(judged: Judged, scale: svg.Scale, sides: Sequence[Side]) -> Node:
    v, unit = judged.verdict, f" {judged.metric.unit}" if judged.metric.unit else ""
    requests = [_requests(side, judged.metric.name) for side in sides]
    return el(
        "tr",
        el("td", el("b", v.outcome.value.upper(), class_=f"outcome {outcome_class(judged)}")),
        el("th", code(judged.metric.name), scope="row"),
        el("td", _points(judged.metric, [judged.a, judged.b], requests), class_="picture"),
        el("td", report.middle(judged.a), unit, class_="figure", data_side="A"),
        el("td", report.middle(judged.b), unit, class_="figure", data_side="B"),
        el("td", f"×{v.ratio:.3f}", el("span", _interval_words(v), class_="note"), class_="figure ratio"),
        el("td", _interval(v, scale), class_="picture"),
        el("td", f"{v.n_a}, {v.n_b}", class_="figure dim n"),
    )


def _interval_words(v: Verdict) -> str:
    return f"{v.low:.3f} to {v.high:.3f}" if v.low is not None and v.high is not None else "no interval"


def _requests(side: Side, name: str) -> list[float]:
    held = [v for run in side.runs for m in run.metrics if m.name == name for v in m.samples if math.isfinite(v)]
    return held[:: max(1, math.ceil(len(held) / REQUESTS))]


def _points(metric: Metric, sides: Sequence[Sequence[float]], requests: Sequence[Sequence[float]]) -> Node:
    """Each run a point, in a lane for each side, single requests as a haze behind; a tick at the geometric mean."""
    scale = svg.around(v for held in (*sides, *requests) for v in held)
    lane = (_POINTS_HEIGHT - 14) / max(2, len(sides))
    marks: list[Child] = [svg.line(0, _POINTS_HEIGHT - 13, svg.WIDTH, _POINTS_HEIGHT - 13, "rule")]
    for i, (letter, values) in enumerate(zip("ab", sides)):
        y = lane * (i + 0.5) + 1
        if i < len(requests) and requests[i]:
            marks.append(svg.dots([(scale.at(v), y) for v in requests[i]], f"request {letter}"))
        mean = math.exp(math.fsum(map(math.log, values)) / len(values))
        marks.append(svg.line(scale.at(mean), y - lane / 2 + 1, scale.at(mean), y + lane / 2 - 1, f"mean {letter}"))
        marks.append(svg.dots([(scale.at(v), y) for v in values], letter))
    low, high = min(map(min, sides)), max(map(max, sides))
    words = _ends(low, high, scale)
    told = "; ".join(f"{letter}: {', '.join(f'{v:.4g}' for v in values)}" for letter, values in zip("AB", sides))
    return svg.picture(_POINTS_HEIGHT, f"{metric.name} of each run. {told}", marks, words, class_="points")


def _ends(low: float, high: float, scale: svg.Scale) -> list[Node]:
    """The least and the largest figure under their places, or in one word where these are close."""
    y = _POINTS_HEIGHT - 2
    if scale.at(high) - scale.at(low) < 0.35 * svg.WIDTH:
        middle = (scale.at(low) + scale.at(high)) / 2
        words = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        return [svg.word(words, svg.percent(middle), y, svg.anchor(middle, 0.3))]
    return [svg.word(f"{v:.4g}", scale.percent(v), y, svg.anchor(scale.at(v))) for v in (low, high)]


def _interval(v: Verdict, scale: svg.Scale) -> Node:
    middle = _INTERVAL_HEIGHT / 2
    same = 1 / (1 + SAME_WITHIN), 1 + SAME_WITHIN
    marks: list[Child] = [svg.box(scale.at(same[0]), scale.at(same[1]), 0, _INTERVAL_HEIGHT, "same")]
    marks.append(svg.line(scale.at(1), 0, scale.at(1), _INTERVAL_HEIGHT, "one"))
    if v.low is not None and v.high is not None:
        marks.append(svg.line(scale.at(v.low), middle, scale.at(v.high), middle, "reach"))
    marks.append(svg.dots([(scale.at(v.ratio), middle)], "ratio"))
    return svg.picture(_INTERVAL_HEIGHT, f"B / A ×{v.ratio:.3f}, {_interval_words(v)}", marks)


def _ratio_axis(scale: svg.Scale) -> Node:
    words = [
        svg.word(f"×{t:g}", scale.percent(t), 12, svg.anchor(scale.at(t))) for t in svg.ratio_ticks(scale, apart=0.22)
    ]
    return svg.picture(16, "", (), words)


def _waterfall(comparison: Comparison, shares: Sequence[Share]) -> Node:
    """From A's speed to B's, each term a step whose length is what it adds to the logarithm of the speed."""
    level, levels = 0.0, [0.0]
    for share in shares:
        level += share.log_change
        levels.append(level)
    scale = svg.ratios([math.exp(x) for x in levels])
    grid = svg.ratio_ticks(scale)
    rows = [_end("A", 1.0, scale, grid, first=True)]
    for share, before, after in zip(shares, levels, levels[1:]):
        rows.append(_step(share, math.exp(before), math.exp(after), scale, grid))
    rows.append(_end("B", math.exp(levels[-1]), scale, grid, first=False))
    axis = svg.picture(
        _AXIS_HEIGHT, "", (), [svg.word(f"×{t:g}", scale.percent(t), 13, svg.anchor(scale.at(t))) for t in grid]
    )
    rows.append(el("tr", el("td", colspan=3), el("td", axis), el("td"), class_="axis", aria_hidden="true"))
    headings: list[Child] = ["term", mark("a"), mark("b"), "speed of one stream, relative to A", "of the change"]
    return table("Split of the change of speed over the terms of the speed model", headings, rows, "waterfall")


def _grid(scale: svg.Scale, grid: Sequence[float]) -> list[Child]:
    return [svg.line(scale.at(t), 0, scale.at(t), _STEP_HEIGHT, "one" if t == 1 else "rule") for t in grid]


def _step(share: Share, before: float, after: float, scale: svg.Scale, grid: Sequence[float]) -> Node:
    x0, x1 = scale.at(before), scale.at(after)
    slower = share.log_change < 0
    marks = [
        *_grid(scale, grid),
        svg.line(x0, 0, x0, 5, "join"),
        svg.line(x1, 21, x1, _STEP_HEIGHT, "join"),
        svg.box(x0, x1, 5, 16, "step bad" if slower else "step good"),
    ]
    factor = math.exp(share.log_change)
    words = [_step_word(f"×{factor:.3f}", *sorted((x0, x1)))]
    name = report.term_name(share.term)
    figures = [
        f"{share.before:.4g}" if share.before is not None else "",
        f"{share.after:.4g}" if share.after is not None else "",
    ]
    label = f"{name}: speed ×{factor:.3f}"
    return row(
        name,
        el("td", figures[0], class_="figure", data_side="A"),
        el("td", figures[1], class_="figure", data_side="B"),
        el("td", svg.picture(_STEP_HEIGHT, label, marks, words), class_="picture"),
        el("td", report.part_text(share), class_="figure part"),
    )


def _step_word(text: str, left: float, right: float) -> Node:
    """Beside the step where there is room on its right, within where it is wide, else on its left."""
    if right - left > 0.25 * svg.WIDTH:
        return svg.word(text, svg.percent((left + right) / 2), 17, "middle", "within")
    if right < 0.8 * svg.WIDTH:
        return svg.word(text, svg.percent(right), 17, "start", "beside")
    return svg.word(text, svg.percent(left), 17, "end", "beside left")


def _end(letter: str, at: float, scale: svg.Scale, grid: Sequence[float], first: bool) -> Node:
    x = scale.at(at)
    join = svg.line(x, 13, x, _STEP_HEIGHT, "join") if first else svg.line(x, 0, x, 13, "join")
    marks = [*_grid(scale, grid), join, svg.dots([(x, 13)], letter.lower())]
    label = f"Speed of {letter}: ×{at:.3g}"
    return el(
        "tr",
        el("th", f"speed of {letter}", scope="row", colspan=3),
        el("td", svg.picture(_STEP_HEIGHT, label, marks, [_step_word(f"×{at:.3g}", x, x)]), class_="picture"),
        el("td"),
        class_="end",
    )


def _one_side(side: Side) -> Node | None:
    """The figures of one side's runs: how much single runs vary."""
    good = [r for r in side.runs if r.status == "ok"]
    names = list(dict.fromkeys(m.name for r in good for m in r.metrics))
    rows = []
    for name in names:
        held = [m for r in good for m in r.metrics if m.name == name]
        values = [m.value for m in held]
        unit = f" {held[0].unit}" if held[0].unit else ""
        rows.append(
            row(
                code(name),
                el("td", _points(held[0], [values], [_requests(side, name)]), class_="picture"),
                el("td", report.middle(tuple(values)), unit, class_="figure"),
                el("td", f"{min(values):.4g} to {max(values):.4g}" if len(values) > 1 else "", class_="figure dim"),
                el("td", str(len(values)), class_="figure dim n"),
            )
        )
    if not rows:
        return None
    return section(
        "speed", "Speed", table("Figures of each run", ["metric", "runs", "mean", "range", "n"], rows, "figures")
    )
