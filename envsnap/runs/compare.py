"""Two sets of runs: can they be compared, do they differ, and which term of the speed moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.run import Run
from envsnap.runs.speed import STEP_PARTS, Share, Terms, split
from envsnap.runs.verdict import SAME_WITHIN, Design, History, Verdict, judge


@dataclass(frozen=True)
class Judged:
    """One metric of two sets of runs."""

    metric: Metric
    """The first side's first, for its name, unit and direction."""
    a: tuple[float, ...]
    b: tuple[float, ...]
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """`judged` in the order in which the benchmark reports its metrics. `shares` split the change of throughput.

    `obstacles` are sentences on why the two sets measured different things: while there are any, a difference says
    nothing about the machine. `notes` are sentences that qualify the rest.
    """

    design: Design
    judged: tuple[Judged, ...]
    shares: tuple[Share, ...]
    obstacles: tuple[str, ...]
    notes: tuple[str, ...]


def compare(
    a: Sequence[Run],
    b: Sequence[Run],
    history: Mapping[str, History] | None = None,
    same_within: float = SAME_WITHIN,
) -> Comparison:
    """Compare two sets of runs; failed ones are left out and said.

    `history` holds other sessions of one configuration by metric, as `Store.history` finds them.
    """
    good_a, good_b = [r for r in a if r.status == "ok"], [r for r in b if r.status == "ok"]
    notes = [
        f"{len(every) - len(good)} of {len(every)} runs of {name} did not succeed and are left out: {_reasons(every)}."
        for name, every, good in (("A", a, good_a), ("B", b, good_b))
        if len(good) < len(every)
    ]
    design = design_of(good_a, good_b)
    if design is Design.INTERLEAVED:
        good_a, good_b = _pairs(good_a, good_b)
    judged = tuple(_judge(name, good_a, good_b, design, history or {}, same_within) for name in _common(good_a, good_b))
    notes += [w for run in (*good_a, *good_b) for w in run.warnings]
    return Comparison(
        design=design,
        judged=judged,
        shares=tuple(_shares(judged)),
        obstacles=tuple(_obstacles(good_a, good_b)),
        notes=tuple(dict.fromkeys(notes)),
    )


def design_of(a: Sequence[Run], b: Sequence[Run]) -> Design:
    """How two sets of runs were measured: as the arms of one session, or each for itself."""
    if len(a) < 2 or len(b) < 2:
        return Design.SINGLE
    groups = {r.group for r in (*a, *b)}
    if len(groups) == 1 and {r.arm for r in a} != {r.arm for r in b}:
        return Design.INTERLEAVED
    return Design.BLOCKS


def _pairs(a: Sequence[Run], b: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The repetitions of which both arms succeeded."""
    by_index = {r.index: r for r in b}
    chosen = [(r, by_index[r.index]) for r in a if r.index in by_index]
    return [x for x, _ in chosen], [y for _, y in chosen]


def _reasons(runs: Sequence[Run]) -> str:
    reasons = dict.fromkeys(r.reason or r.status for r in runs if r.status != "ok")
    return "; ".join(reason.rstrip(".") for reason in reasons)


def _common(a: Sequence[Run], b: Sequence[Run]) -> list[str]:
    """The metrics that every run of both sides has, in the first run's order."""
    if not a or not b:
        return []
    shared = set.intersection(*({m.name for m in r.metrics} for r in (*a, *b)))
    return [m.name for m in a[0].metrics if m.name in shared]


def _values(runs: Sequence[Run], name: str) -> tuple[float, ...]:
    return tuple(m.value for r in runs for m in r.metrics if m.name == name)


def _judge(
    name: str,
    a: Sequence[Run],
    b: Sequence[Run],
    design: Design,
    history: Mapping[str, History],
    same_within: float,
) -> Judged:
    values_a, values_b = _values(a, name), _values(b, name)
    metric = next(m for m in a[0].metrics if m.name == name)
    return Judged(metric, values_a, values_b, judge(values_a, values_b, design, history.get(name), same_within))


def _shares(judged: Sequence[Judged]) -> list[Share]:
    """The split of the speed of one stream, as far as the metrics allow; nothing where no speed was measured."""
    sides = []
    for index in (0, 1):
        figures = {j.metric.name: median((j.a, j.b)[index]) for j in judged if j.a and j.b}
        speed = figures.get("stream_tokens_per_second")
        if speed is None and "tpot_seconds" in figures:
            speed = 1 / figures["tpot_seconds"]
        speed = speed or figures.get("output_tokens_per_second")
        if speed is None:
            return []
        sides.append(_terms(speed, figures))
    return split(*sides)


def _terms(speed: float, figures: dict[str, float]) -> Terms:
    """One side's terms. A timed verify step stands for the whole step where nothing else tells how long that took."""
    accept, step = figures.get("accept_length"), figures.get("step_seconds")
    parts = {part: figures[f"{part}_seconds"] for part in STEP_PARTS if f"{part}_seconds" in figures}
    if step is None and accept is None and "verify" in parts:
        step = sum(parts.values())
    return Terms(speed, accept, step, parts or None)


def _obstacles(a: Sequence[Run], b: Sequence[Run]) -> list[str]:
    """Differences of what was asked of the server."""
    if not a or not b:
        return ["One side has no run that succeeded."]
    one, two = a[0].request, b[0].request
    found = [
        f"The benchmark asked for different work: {name} was {_said(one, name)} and {_said(two, name)}."
        for name in sorted({*one, *two})
        if one.get(name) != two.get(name)
    ]
    if not _common(a, b):
        found.append("The two sides have no metric in common.")
    return found


def _said(request: dict[str, Json], name: str) -> str:
    return str(request.get(name, "not recorded"))[:60]


def worse(judged: Judged) -> bool | None:
    """Whether side B is the worse one; None where the metric has no good direction."""
    if judged.metric.better is Better.NEITHER:
        return None
    return (judged.verdict.ratio < 1) is (judged.metric.better is Better.HIGHER)
