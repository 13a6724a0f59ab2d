"""How well explanations name the cause: rank, calibration, intervals over cases."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from envsnap.explain import NOT_REPRODUCIBLE, OUTSIDE, Explanation, Suspect
from tests.benchmarks.attribution.build import Laid
from tests.benchmarks.attribution.cases import CULPRIT

HYPOTHESES = (NOT_REPRODUCIBLE, OUTSIDE)
RESAMPLES = 2000


@dataclass(frozen=True)
class Judged:
    """One explanation against what is known of its case.

    `better` suspects are likelier than the one that holds the culprit and `tied` as likely, itself included; None where
    no suspect holds it. `bare` is the same without the two hypotheses. `pairs` are stated probabilities with whether
    they were right, of each suspect and of the two hypotheses together. `bundled` counts innocent deeds in the suspect.
    """

    case: str
    group: str
    category: str
    better: int | None
    tied: int
    bare_better: int | None
    probability: float
    leading: str
    leading_probability: float
    hypotheses: float
    direction: bool
    ruled_out: str
    bundled: int
    suspects: int
    evidence: tuple[str, ...]
    pairs: tuple[tuple[float, bool], ...]

    def among(self, k: int, bare: bool = False) -> float:
        """Whether the culprit is among the first k; a fraction where a tie decides."""
        better = self.bare_better if bare else self.better
        return 0.0 if better is None else min(1.0, max(0.0, (k - better) / self.tied))

    @property
    def rank(self) -> float:
        """The culprit's rank, that of the last suspect plus one where none holds it."""
        return self.suspects + 1.0 if self.better is None else self.better + (self.tied + 1) / 2

    @property
    def none(self) -> bool:
        """Whether one of the two hypotheses without a culprit leads."""
        return self.leading in HYPOTHESES


def judge(laid: Laid, explanation: Explanation, swapped: bool) -> Judged:
    """Compare an explanation with the truth."""
    suspects = explanation.suspects
    hits = [s for s in suspects if s.id not in HYPOTHESES and _holds(s, laid.culprits)]
    hit = max(hits, key=lambda s: s.probability, default=None)
    wanted = CULPRIT if laid.case.group == CULPRIT else "none"
    hypotheses = math.fsum(s.probability for s in suspects if s.id in HYPOTHESES)
    leading = max(suspects, key=lambda s: s.probability)
    pairs = [(s.probability, s in hits and wanted == CULPRIT) for s in suspects if s.id not in HYPOTHESES]
    measured = not laid.case.failed and laid.case.slowdown > 1.02
    return Judged(
        case=laid.case.id,
        group=laid.case.group,
        category=laid.case.category,
        better=None if hit is None else sum(s.probability > hit.probability + 1e-9 for s in suspects),
        tied=1 if hit is None else sum(abs(s.probability - hit.probability) <= 1e-9 for s in suspects),
        bare_better=None
        if hit is None
        else sum(s.probability > hit.probability + 1e-9 for s in suspects if s.id not in HYPOTHESES),
        probability=math.fsum(s.probability for s in hits),
        leading=leading.id,
        leading_probability=leading.probability,
        hypotheses=hypotheses,
        direction=not measured or explanation.fast == ("b" if swapped else "a"),
        ruled_out=next((r.reason for r in explanation.ruled_out if hit is None and laid.culprits & {*r.paths}), ""),
        bundled=0 if hit is None else len({laid.innocent[p] for p in _places(hit) if p in laid.innocent}),
        suspects=len(suspects),
        evidence=()
        if hit is None
        else tuple(f"{e.weight:+.1f} {e.text}" for e in (*hit.evidence_for, *hit.evidence_against)),
        pairs=(*pairs, (hypotheses, wanted == "none")),
    )


def _places(suspect: Suspect) -> set[str]:
    """Paths of the changes in it; an option of a command line as `--name`."""
    return {c.leaf[1:-1] if c.leaf.startswith("[--") else c.path for c in suspect.changes}


def _holds(suspect: Suspect, culprits: frozenset[str]) -> bool:
    return bool(_places(suspect) & culprits)


# -- sums over cases --------------------------------------------------------------------------------------------------

Draws = Sequence[Judged]
Figure = Callable[[Draws], float]
"""A figure of one case, over its draws."""


@dataclass(frozen=True)
class Estimate:
    """A mean over cases with its 95 % interval by bootstrap over cases."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:6.1%} ({self.low:.0%}–{self.high:.0%})"


def estimate(cases: Sequence[Draws], figure: Figure) -> Estimate:
    """The figure's mean over cases. Raises: ValueError without cases."""
    if not cases:
        raise ValueError("no cases")
    values = [figure(draws) for draws in cases]
    rng = random.Random(0)
    means = sorted(fmean(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return Estimate(fmean(values), means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)])


def among(k: int, bare: bool = False) -> Figure:
    """The share of draws in which the culprit is among the first k."""
    return lambda draws: fmean(d.among(k, bare) for d in draws)


def answered_none(draws: Draws) -> float:
    """The share of draws in which a hypothesis without culprit leads."""
    return fmean(d.none for d in draws)


def mean_rank(draws: Draws) -> float:
    """The culprit's mean rank."""
    return fmean(d.rank for d in draws)


BINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Bin:
    """Statements of a range of probabilities: how many, their mean, and how often they were right."""

    low: float
    high: float
    count: int
    stated: float
    right: Estimate


def calibration(cases: Sequence[Draws]) -> list[Bin]:
    """Stated probabilities against how often they were right, with intervals by bootstrap over cases."""
    found = []
    for low, high in pairwise(BINS):
        held = [
            [pair for d in draws for pair in d.pairs if low <= pair[0] < high or (high == 1.0 == pair[0])]
            for draws in cases
        ]
        counts = [(len(pairs), sum(right for _, right in pairs)) for pairs in held]
        total = sum(n for n, _ in counts)
        if not total:
            continue
        rng = random.Random(0)
        rates = []
        for _ in range(RESAMPLES // 2):
            chosen = rng.choices(counts, k=len(counts))
            rates.append(sum(r for _, r in chosen) / max(1, sum(n for n, _ in chosen)))
        rates.sort()
        stated = math.fsum(p for pairs in held for p, _ in pairs) / total
        right = Estimate(
            sum(r for _, r in counts) / total, rates[int(0.025 * len(rates))], rates[int(0.975 * len(rates))]
        )
        found.append(Bin(low, high, total, stated, right))
    return found


def surprise(cases: Sequence[Draws]) -> float:
    """Mean of −log2 of the probability that the truth was given: bits of surprise; 0 is perfect."""
    return fmean(fmean(-math.log2(max(_truth(d), 1e-4)) for d in draws) for draws in cases)


def _truth(judged: Judged) -> float:
    return judged.probability if judged.group == CULPRIT else judged.hypotheses


def most_common(names: Sequence[str]) -> str:
    """The commonest name and how often it stands there."""
    (name, count), *_ = Counter(names).most_common(1)
    return f"{name} {count}/{len(names)}"
