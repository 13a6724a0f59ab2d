"""How often the verdict is wrong, by simulation: false positives on identical systems, and power.

Run: python tests/benchmarks/verdict.py [TRIALS]
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable

from envsnap.runs.verdict import Design, History, Outcome, judge

Rng = random.Random
Sides = tuple[list[float], list[float]]


def _noise(rng: Rng, spread: float) -> float:
    return rng.gauss(0.0, spread)


def plain(rng: Rng, n: int, effect: float) -> Sides:
    return [math.exp(_noise(rng, 0.03)) for _ in range(n)], [math.exp(effect + _noise(rng, 0.03)) for _ in range(n)]


def plain_10(rng: Rng, n: int, effect: float) -> Sides:
    return [math.exp(_noise(rng, 0.10)) for _ in range(n)], [math.exp(effect + _noise(rng, 0.10)) for _ in range(n)]


def drift_interleaved(rng: Rng, n: int, effect: float) -> Sides:
    sides: Sides = ([], [])
    for pair in range(n):
        order = rng.sample((0, 1), 2)
        for place, side in enumerate(order):
            drift = 0.10 * (2 * pair + place) / (2 * n)
            sides[side].append(math.exp(drift + (effect if side else 0.0) + _noise(rng, 0.03)))
    return sides


def sessions_interleaved(rng: Rng, n: int, effect: float) -> Sides:
    def run(side: int) -> float:  # every run is a fresh process with a level of its own
        return math.exp(_noise(rng, 0.05) + _noise(rng, 0.01) + (effect if side else 0.0))

    return [run(0) for _ in range(n)], [run(1) for _ in range(n)]


def two_modes(rng: Rng, n: int, effect: float) -> Sides:
    def run(side: int) -> float:
        return math.exp((-0.25 if rng.random() < 0.3 else 0.0) + _noise(rng, 0.02) + (effect if side else 0.0))

    return [run(0) for _ in range(n)], [run(1) for _ in range(n)]


def blocks_with_sessions(rng: Rng, n: int, effect: float) -> Sides:
    level_a, level_b = _noise(rng, 0.05), _noise(rng, 0.05)
    return (
        [math.exp(level_a + _noise(rng, 0.01)) for _ in range(n)],
        [math.exp(level_b + effect + _noise(rng, 0.01)) for _ in range(n)],
    )


def _history(rng: Rng, make: Callable[[Rng, int, float], Sides], sessions: int, n: int) -> History:
    return History(tuple(tuple(make(rng, n, 0.0)[0]) for _ in range(sessions)))


CASES: tuple[tuple[str, Callable[[Rng, int, float], Sides], Design], ...] = (
    ("plain noise 3 %", plain, Design.INTERLEAVED),
    ("drift 10 %, interleaved", drift_interleaved, Design.INTERLEAVED),
    ("sessions 5 %, interleaved", sessions_interleaved, Design.INTERLEAVED),
    ("two modes (30 % slow by 22 %)", two_modes, Design.INTERLEAVED),
    ("blocks with sessions 5 %", blocks_with_sessions, Design.BLOCKS),
)


def rate(
    make: Callable[[Rng, int, float], Sides], design: Design, n: int, effect: float, past: int, trials: int, seed: int
) -> float:
    """Share of comparisons judged DIFFERENT; `past` is the number of earlier sessions known."""
    rng = random.Random(seed)
    hits = 0
    for _ in range(trials):
        a, b = make(rng, n, effect)
        history = _history(rng, make, past, n) if past else None
        hits += judge(a, b, design, history).outcome is Outcome.DIFFERENT
    return hits / trials


def step_time_power(trials: int, seed: int) -> tuple[float, float]:
    """Power at a 10 % slowdown, n = 3, acceptance noise 10 %, step noise 0.5 %: by tok/s and by step time."""
    rng = random.Random(seed)
    by_rate = by_step = 0
    for _ in range(trials):
        accept = [[2.5 * math.exp(_noise(rng, 0.10)) for _ in range(3)] for _ in range(2)]
        step = [[s * math.exp(_noise(rng, 0.005)) for _ in range(3)] for s in (0.010, 0.011)]
        speed = [[x / y for x, y in zip(accept[i], step[i])] for i in range(2)]
        by_rate += judge(speed[0], speed[1], Design.INTERLEAVED).outcome is Outcome.DIFFERENT
        by_step += judge(step[0], step[1], Design.INTERLEAVED).outcome is Outcome.DIFFERENT
    return by_rate / trials, by_step / trials


def main() -> None:
    """Print the table."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(f"false positives on identical systems, {trials} comparisons a cell (target: at most 5 %)")
    print(f"{'':34}" + "".join(f"{f'n={n}':>8}{f'n={n}+hist':>11}" for n in (3, 5, 10)))
    for name, make, design in CASES:
        cells = "".join(
            f"{rate(make, design, n, 0.0, 0, trials, 1):8.3f}{rate(make, design, n, 0.0, 6, trials, 2):11.3f}"
            for n in (3, 5, 10)
        )
        print(f"{name:34}{cells}")
    effect = math.log(0.64)
    print(f"\npower at ratio 0.64, n = 3 interleaved pairs, spread 10 % (target 0.9): "
          f"{rate(plain_10, Design.INTERLEAVED, 3, effect, 0, trials, 3):.3f}, with history "
          f"{rate(plain_10, Design.INTERLEAVED, 3, effect, 6, trials, 4):.3f}")  # fmt: skip
    print(f"power at ratio 0.64 in two blocks of 3, sessions 5 %, default: "
          f"{rate(blocks_with_sessions, Design.BLOCKS, 3, effect, 0, trials, 5):.3f}")  # fmt: skip
    by_rate, by_step = step_time_power(trials, 6)
    print(f"power at a 10 % slowdown, acceptance noise 10 %, n = 3: by tok/s {by_rate:.3f}, "
          f"by step time {by_step:.3f} (target 0.95)")  # fmt: skip


if __name__ == "__main__":
    main()
