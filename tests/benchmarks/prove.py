"""How many runs the search takes, and how often it is wrong: simulated suspects, spreads, priors and accidents.

    python -m tests.benchmarks.prove [TRIALS]

Every figure is drawn from log-normal runs (one in twenty three times as wide), the gap is 0.64 in speed, and gate and
confirmation are counted. `wrong` is an answer that names an innocent suspect, or a cause where there is none.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from envsnap.prove.belief import Spread
from envsnap.prove.search import Problem, Result, Search, Trial

GAP = -math.log(0.64)
BUDGET = 60
HISTORY = 8
"""Degrees of freedom that earlier runs give the spread."""


@dataclass(frozen=True)
class Case:
    """One row. `culprits` 0 to 2; `ranked`: the prior is Zipf-like and true; `misjudged`: believed over true spread."""

    n: int
    spread: float
    culprits: int = 1
    ranked: bool = False
    misjudged: float = 1.0
    stuck: int = 0
    """Pairs of suspects of which one cannot be reverted without the other."""
    joint: str = ""
    """How two culprits act: "" adds up, "and" only together, "or" each alone, "more" the second adds to the first."""


@dataclass(frozen=True)
class Outcome:
    """What one search came to."""

    runs: int
    right: bool
    wrong: bool
    whole: bool
    """All culprits were found."""


def simulate(case: Case, seed: int) -> Outcome:
    """One search."""
    draw = random.Random(f"{case}-{seed}")
    names = [f"s{i}" for i in range(case.n)]
    weights = [1 / (i + 1) ** 1.5 if case.ranked else 1.0 for i in range(case.n)]
    draw.shuffle(names)
    chosen: list[str] = []
    while len(chosen) < case.culprits:
        name = draw.choices(names, weights)[0]
        chosen += [name] if name not in chosen else []
    share = draw.uniform(0.25, 0.75)
    effects = dict(zip(chosen, [1.0] if case.culprits == 1 else [share, 1 - share]))
    stuck = [tuple(draw.sample(names, 2)) for _ in range(case.stuck)]
    total = sum(weights)
    none = 0.3
    prior = {n: (1 - none) * (0.9 * w / total + 0.1 / case.n) for n, w in zip(names, weights)}
    problem = Problem(prior, none, Spread(case.spread * case.misjudged, HISTORY), GAP, seed=seed)
    search = Search(problem, BUDGET)
    while isinstance(step := search.step, Trial):
        fails = any((a in step.reverted) and (b not in step.reverted) for a, b in stuck)
        left = [c for c in chosen if c not in step.reverted]
        if case.joint == "and":
            slow = GAP * (len(left) == len(chosen))
        elif case.joint == "or":
            slow = GAP * bool(left)
        elif case.joint == "more":
            slow = GAP * (chosen[0] in left) * (share if chosen[1] not in left else 1.0)
        else:
            slow = GAP * sum(effects[c] for c in left)
        noise = draw.gauss(0, case.spread * (3 if draw.random() < 0.05 else 1))
        search.add(Trial(step.reverted, step.purpose, step.suspect, None if fails else slow + noise))
    return _scored(step, len(search.trials), set(chosen))


def _scored(result: Result, runs: int, chosen: set[str]) -> Outcome:
    found = {c.suspect for c in result.culprits}
    if not chosen:
        right = result.outcome in ("not_reproducible", "none")
        return Outcome(runs, right, bool(found), right)
    denied = result.outcome in ("not_reproducible", "none")
    return Outcome(runs, bool(found) and found <= chosen, bool(found - chosen) or denied, found == chosen)


def cases() -> Iterator[Case]:
    """The rows of the table."""
    for n in (8, 50, 200, 2000):
        for spread in (0.01, 0.03, 0.10, 0.20):
            for ranked in (False, True):
                yield Case(n, spread, ranked=ranked)
    for spread in (0.01, 0.03, 0.10, 0.20):
        yield Case(50, spread, culprits=0)
        yield Case(50, spread, culprits=2)
    for spread in (0.01, 0.03, 0.10):
        yield Case(50, spread, culprits=2, joint="and")
        yield Case(50, spread, culprits=2, joint="or")
        yield Case(50, spread, culprits=2, joint="more")
    for misjudged in (0.5, 2.0):
        for spread in (0.03, 0.10, 0.20):
            yield Case(50, spread, misjudged=misjudged)
            yield Case(50, spread, culprits=0, misjudged=misjudged)
    for n in (8, 50, 200):
        for spread in (0.03, 0.10):
            yield Case(n, spread, stuck=2)


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print("    n  spread  cause  prior  told   stuck | runs  p95   right  wrong  abstain  all found")
    for case in cases():
        trials = max(count // 5, 20) if case.n == 2000 else count
        done = [simulate(case, seed) for seed in range(trials)]
        runs = sorted(o.runs for o in done)
        rate = [sum(getattr(o, k) for o in done) / trials for k in ("right", "wrong", "whole")]
        idle = sum(not o.right and not o.wrong for o in done) / trials
        cause = f"{case.culprits}{' ' + case.joint if case.joint else ''}"
        prior = "ranked" if case.ranked else "flat"
        p95 = runs[int(0.95 * (trials - 1))]
        print(
            f"{case.n:5}  {case.spread:6.0%}  {cause:5}  {prior:6} x{case.misjudged:<4}  {case.stuck:5} |"
            f" {sum(runs) / trials:4.1f}  {p95:3}  {rate[0]:6.1%} {rate[1]:6.1%}  {idle:6.1%}   {rate[2]:6.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
