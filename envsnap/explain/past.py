"""The past: what earlier runs say of a change. Does the speed go with it, does it move by itself, is its value rare?

Runs of one session share what nobody recorded, so a session is one observation, by the mean of its runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from envsnap.change import Change
from envsnap.explain.explanation import Evidence, Side
from envsnap.explain.weights import WEIGHTS, Weights
from envsnap.reading import Reading
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.verdict import History
from envsnap.snapshot import Snapshot
from envsnap.states import signature
from envsnap.store import command_text
from envsnap.wording import plural

if TYPE_CHECKING:
    from envsnap.store import Store


@dataclass(frozen=True)
class Past:
    """One earlier run, or a bare snapshot. `session` is its group and arm: its runs share what nobody recorded.

    `signature` answers for a path as `State.signature` does.
    """

    session: str
    at: str
    signature: Callable[[str], str | None]
    metrics: Mapping[str, float] = field(default_factory=dict)
    label: str = ""
    command: str = ""
    configuration: str = ""

    @classmethod
    def of_side(cls, side: Side) -> list[Past]:
        """The runs of a side that succeeded, or its snapshot."""
        if not side.runs:
            taken = side.snapshot.captured_at
            return [cls(f"snapshot {taken}", taken, _looked_up(side.snapshot), label=side.label)]
        good = [run for run in side.runs if run.status == "ok"]
        # NOTE: one hash for each session: runs of one are repeats of one configuration, and hashing takes a while.
        first = {(r.group, r.arm): r for r in reversed(good)}
        configurations = {session: r.snapshots["before"].configuration_hash for session, r in first.items()}
        return [
            cls(
                session=f"{run.group}/{run.arm}",
                at=run.started_at,
                signature=_looked_up(run.snapshot),
                metrics={m.name: m.value for m in run.metrics},
                label=run.label or side.label,
                command=command_text(run.command),
                configuration=configurations[run.group, run.arm],
            )
            for run in good
        ]


@dataclass(frozen=True)
class Memory:
    """Everything that is known of the past, those two sides included, and by which metric speed is judged."""

    fast: tuple[Past, ...]
    slow: tuple[Past, ...]
    others: tuple[Past, ...]
    metric: Metric | None
    weights: Weights = WEIGHTS

    def spreads(self) -> dict[str, History]:
        """By metric, other sessions of a side's configuration and command: how much such sessions differ."""
        alike = {(p.configuration, p.command) for p in (*self.fast, *self.slow)}
        own = {p.session for p in (*self.fast, *self.slow)}
        sessions: dict[str, dict[str, list[float]]] = {}
        for past in self.others:
            if (past.configuration, past.command) in alike and past.session not in own:
                for name, value in past.metrics.items():
                    sessions.setdefault(name, {}).setdefault(past.session, []).append(value)
        return {name: History(tuple(tuple(values) for values in held.values())) for name, held in sessions.items()}

    def about(self, change: Change) -> list[Evidence]:
        """What the past says of one change, most telling first."""
        fast, slow = _signature(change.before, change), _signature(change.after, change)
        if fast is None or slow is None:
            return []
        found = [self._churn(change), self._association(change, fast, slow) or self._rarity(change, slow)]
        return [evidence for evidence in found if evidence is not None]

    def log_time(self, past: Past) -> float | None:
        """A run's time, as a logarithm; None where it did other work or the metric was not measured."""
        if self.metric is None or self.metric.name not in past.metrics:
            return None
        if past.command not in {p.command for p in (*self.fast, *self.slow)}:
            return None
        value = math.log(past.metrics[self.metric.name])
        return -value if self.metric.better is Better.HIGHER else value

    def _association(self, change: Change, fast: str, slow: str) -> Evidence | None:
        """Bayes factor of two levels of speed, by the change's value, against one level."""
        pair = self._levels(change, fast, slow, ())
        everything = self._levels(change, fast, slow, self.others)
        added = sum(map(len, everything)) - sum(map(len, pair))
        if added == 0 or not all(everything) or not all(pair):
            return None
        gap = fmean(everything[1]) - fmean(everything[0])
        most, spread = self.weights.history.most, self.weights.history.spread
        weight = _bayes_factor(*everything, spread) - _bayes_factor(*pair, spread) if gap > 0 else -most
        weight = max(-most, min(most, weight))
        n = f"{plural(len(everything[1]), 'session')} with the slow value"
        if weight >= 0:
            return Evidence(
                f"Over history, {n} took ×{math.exp(gap):.2f} the time of {len(everything[0])} with the fast one.",
                weight,
            )
        return Evidence(f"Over history the speed does not go with it: {n} against {len(everything[0])}.", weight)

    def _levels(self, change: Change, fast: str, slow: str, others: Iterable[Past]) -> tuple[list[float], list[float]]:
        """Log times of sessions that had the fast value, and of those that had the slow one."""
        sessions: dict[tuple[str, str], list[float]] = {}
        for past in (*self.fast, *self.slow, *others):
            time, held = self.log_time(past), past.signature(change.path)
            if time is not None and held in (fast, slow):
                sessions.setdefault((held, past.session), []).append(time)
        return (
            [fmean(times) for (held, _), times in sessions.items() if held == fast],
            [fmean(times) for (held, _), times in sessions.items() if held == slow],
        )

    def _churn(self, change: Change) -> Evidence | None:
        """How often it differs between repeats of one configuration: what moves by itself explains little."""
        sessions: dict[str, list[Past]] = {}
        for past in (*self.fast, *self.slow, *self.others):
            sessions.setdefault(past.session, []).append(past)
        held = [
            (a, b)
            for runs in sessions.values()
            for x, y in pairwise(runs)
            if (a := x.signature(change.path)) is not None and (b := y.signature(change.path)) is not None
        ]
        moves = sum(a != b for a, b in held)
        if not moves:
            return None
        churn = self.weights.churn
        rate = (moves + churn.moves) / (len(held) + churn.pairs)
        weight = max(-churn.most, math.log(churn.moves / churn.pairs / rate))
        return Evidence(
            f"It moves by itself: it differed in {moves} of {plural(len(held), 'repeat')} of one configuration.", weight
        )

    def _rarity(self, change: Change, slow: str) -> Evidence | None:
        """How many earlier states, of which no speed is known, had the slow value."""
        rarity = self.weights.rarity
        held = [s for p in self.others if (s := p.signature(change.path)) is not None]
        if len(held) < rarity.least:
            return None
        same = sum(s == slow for s in held)
        weight = min(rarity.most, -math.log(2 * (same + 1) / (len(held) + 2)))
        if abs(weight) < rarity.smallest:
            return None
        words = f"{same} of {len(held)}" if same else f"none of {len(held)}"
        return Evidence(f"In {words} earlier states it had the slow side's value.", weight)


def _looked_up(snapshot: Snapshot) -> Callable[[str], str | None]:
    return lambda path: signature(snapshot.reading(path))


def of_store(store: Store) -> list[Past]:
    """The runs in a store that succeeded and whose state is kept, oldest first."""
    states = store.states()
    return [
        Past(
            session=f"{entry.group}/{entry.arm}",
            at=entry.started_at,
            signature=states[entry.id].signature,
            metrics={name: value for name, value, _ in entry.metrics},
            label=entry.label,
            command=entry.command,
            configuration=entry.configuration,
        )
        for entry in reversed(store.entries())
        if entry.status == "ok" and entry.id in states
    ]


def memory_of(a: Side, b: Side, others: Sequence[Side | Past], weights: Weights = WEIGHTS) -> Memory:
    """What the sides and history hold; a run that is in a side as well as in history counts once."""
    one, two = Past.of_side(a), Past.of_side(b)
    known = {(p.session, p.at) for p in (*one, *two)}
    rest = [p for other in others for p in ([other] if isinstance(other, Past) else Past.of_side(other))]
    return Memory(tuple(one), tuple(two), tuple(p for p in rest if (p.session, p.at) not in known), None, weights)


def _signature(reading: Reading, change: Change) -> str | None:
    # NOTE: a leaf is compared by the whole that it stands in, which is what history holds.
    return None if change.leaf else signature(reading)


def _bayes_factor(one: Sequence[float], two: Sequence[float], spread: float) -> float:
    """Logarithm of the Bayes factor (by BIC) of two levels against one."""
    together = [*one, *two]
    count = len(together)
    floor = count * spread**2
    apart = _squares(one) + _squares(two)
    return count / 2 * math.log((_squares(together) + floor) / (apart + floor)) - math.log(count) / 2


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.fsum((v - mean) ** 2 for v in values)
