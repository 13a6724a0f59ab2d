"""What envsnap says of each plant, against what its trials show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, median

from envsnap.diff import diff
from envsnap.explain import Explanation, Side, Suspect, explain
from envsnap.explain.explanation import NOT_REPRODUCIBLE, OUTSIDE
from envsnap.explain.story import Facts
from envsnap.explain.work import asked_otherwise
from envsnap.reading import Json
from envsnap.runs.compare import Comparison, compare
from envsnap.runs.run import Run
from envsnap.runs.verdict import Outcome
from tests.benchmarks.planted.innocent import innocents
from tests.engine.plants import Plant

METRIC = "output_tokens_per_second"
"""Declared before anything was measured: what prefill, decoding and the cache all go into."""
HYPOTHESES = (NOT_REPRODUCIBLE, OUTSIDE)
DRAWS = 5
"""Draws of innocent changes a plant."""


@dataclass(frozen=True)
class Drawn:
    """One explanation. `position` is the culprit's among all suspects, from 1; None where no suspect holds it."""

    innocent: int
    position: int | None
    probability: float
    leading: str
    leading_probability: float
    none_probability: float
    suspects: int


@dataclass(frozen=True)
class Row:
    """A plant's line of the board. `ratio` is slow to fast as a ratio of `METRIC` with its 95 % interval.

    `cause` says that the trials show a difference at all, `verdict` what envsnap says of it, `right` whether that is
    right: nothing planted must not be DIFFERENT. `shown` says that a diff of two records holds it. `answered` is the
    share of draws in which the likeliest suspect is the right one.
    """

    plant: str
    title: str
    ranks: int
    simulated: bool | None
    n: int
    values: Mapping[str, Sequence[float]]
    ratio: float
    low: float | None
    high: float | None
    verdict: str
    cause: bool
    right: bool
    shown: bool | None
    answered: float
    first_three: float
    position: float | None
    probability: float
    leading: str
    draws: tuple[Drawn, ...]
    others: Mapping[str, str] = field(default_factory=dict)
    measured: str = ""
    """Day and commit, where a board was measured in parts."""

    def as_json(self) -> Json:
        """The row's JSON form."""
        return asdict(self)


def judged(
    plant: Plant, baseline: Sequence[Run], planted: Sequence[Run], simulated: bool | None, draws: int = DRAWS
) -> Row:
    """Judge a plant by the pairs of its runs and the baseline's of the same blocks."""
    a, b = interleaved(plant.id, baseline, planted)
    comparison = compare(a, b)
    main = next(j for j in comparison.judged if j.metric.name == METRIC)
    cause = main.verdict.outcome is Outcome.DIFFERENT
    drawn = tuple(_drawn(plant, a, b, cause, str(number)) for number in range(draws))
    positions = [d.position for d in drawn]
    none = [d.leading in HYPOTHESES for d in drawn]
    right = [p == 1 for p in positions] if cause else none
    return Row(
        plant=plant.id, title=plant.title, ranks=plant.ranks, simulated=simulated, n=len(a),
        values={"baseline": main.a, "planted": main.b}, ratio=main.verdict.ratio, low=main.verdict.low,
        high=main.verdict.high, verdict=main.verdict.outcome.value, cause=cause, right=not (cause and plant.idle),
        shown=shown(plant, a, b) if plant.shows else None, answered=fmean(right),
        first_three=fmean(p is not None and p <= 3 for p in positions) if cause else fmean(none),
        position=median(p for p in positions if p is not None) if any(positions) else None,
        probability=fmean(d.probability for d in drawn) if cause else fmean(d.none_probability for d in drawn),
        leading=max((d.leading for d in drawn), key=[d.leading for d in drawn].count), draws=drawn,
        others=_others(comparison),
    )  # fmt: skip


def interleaved(name: str, baseline: Sequence[Run], planted: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Runs as the arms of one session, since that is how they were measured: each block in its own random order."""

    def arm(runs: Sequence[Run], letter: str) -> list[Run]:
        return [replace(run, group=name, arm=letter, index=index) for index, run in enumerate(runs)]

    return arm(baseline, "a"), arm(planted, "b")


def shown(plant: Plant, a: Sequence[Run], b: Sequence[Run]) -> bool:
    """Whether what differs between the two sides, as `envsnap diff` and `explain` see it, holds the plant."""
    one, two = Side.of_runs(a), Side.of_runs(b)
    changes = [*diff(one.snapshot, two.snapshot).changes, *asked_otherwise(Facts(one), Facts(two))]
    return any(plant.tells(place(c.path, c.leaf)) for c in changes)


def place(path: str, leaf: str) -> str:
    """Where a change is: its path, or an option of a command line as `--name`."""
    return leaf[1:-1] if leaf.startswith("[--") else path


def _drawn(plant: Plant, a: Sequence[Run], b: Sequence[Run], cause: bool, seed: str) -> Drawn:
    one, two = Side.of_runs(a).snapshot, Side.of_runs(b).snapshot
    laid = innocents(one, two, f"{plant.id} {seed}")
    found = explain(Side.of_runs(laid.over(a, 0)), Side.of_runs(laid.over(b, 1)))
    return _placed(plant, found, len(laid.deeds), cause)


def _placed(plant: Plant, found: Explanation, innocent: int, cause: bool) -> Drawn:
    hits = [s for s in found.suspects if holds(plant, s)]
    best = max(hits, key=lambda s: s.probability, default=None)
    leading = max(found.suspects, key=lambda s: s.probability)
    return Drawn(
        innocent=innocent,
        position=None if best is None else 1 + sum(s.probability > best.probability + 1e-9 for s in found.suspects),
        probability=sum(s.probability for s in hits), leading=leading.id, leading_probability=leading.probability,
        none_probability=sum(s.probability for s in found.suspects if s.id in HYPOTHESES), suspects=len(found.suspects),
    )  # fmt: skip


def holds(plant: Plant, suspect: Suspect) -> bool:
    """Whether a suspect is the plant."""
    return any(plant.tells(place(c.path, c.leaf)) for c in suspect.changes)


def _others(comparison: Comparison) -> dict[str, str]:
    """The other metrics in short."""
    return {
        j.metric.name: f"×{j.verdict.ratio:.3f} {j.verdict.outcome.value}"
        for j in comparison.judged
        if j.metric.name != METRIC
    }
