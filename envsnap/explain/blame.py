"""Blame: when a reading changed over the runs of a store, and how the metric moved with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from envsnap.keys import instances_of, matches
from envsnap.states import State
from envsnap.store import Entry


@dataclass(frozen=True)
class Span:
    """Runs in a row with one value: its signature (None: not known), first and last start, ids, the metric's median."""

    value: str | None
    start: str
    end: str
    runs: tuple[str, ...]
    labels: tuple[str, ...]
    median: float | None


@dataclass(frozen=True)
class Blame:
    """One path over time."""

    path: str
    spans: tuple[Span, ...]

    @property
    def changed(self) -> bool:
        """Whether it ever had two different known values."""
        return len({s.value for s in self.spans if s.value is not None}) > 1


def blame(
    pattern: str, entries: Sequence[Entry], states: Mapping[str, State], metric: str | None = None
) -> list[Blame]:
    """Every path that matches over all runs, oldest first; the metric is that of that name, else each run's first.

    A bare name (`NCCL_PROTO`, `torch`) stands for every path that ends in it, where no path matches otherwise.
    """
    ordered = sorted((e for e in entries if e.id in states), key=lambda e: (e.started_at, e.id))
    every = {p for e in ordered for p in states[e.id].paths()}
    paths = sorted(p for p in every if matches(p, pattern)) or sorted(p for p in every if pattern in instances_of(p))
    return [Blame(path, tuple(_spans(path, ordered, states, metric))) for path in paths]


def turning_points(pattern: str, entries: Sequence[Entry], states: Mapping[str, State]) -> set[str]:
    """The ids of the runs with which some matching reading had another known value than in the run before.

    Raises: LookupError where no run has such a reading.
    """
    told = blame(pattern, entries, states)
    if not told:
        raise LookupError(pattern)
    found = set()
    for each in told:
        known = [span for span in each.spans if span.value is not None]
        found |= {span.runs[0] for before, span in pairwise(known) if before.value != span.value}
    return found


def first_metric(entries: Sequence[Entry]) -> str | None:
    """The metric that most runs have as their first."""
    names = [e.metrics[0][0] for e in entries if e.metrics]
    return max(set(names), key=names.count) if names else None


def _spans(path: str, ordered: Sequence[Entry], states: Mapping[str, State], metric: str | None) -> Iterator[Span]:
    held: list[Entry] = []
    value: str | None = None
    for entry in ordered:
        now = states[entry.id].signature(path)
        if held and now != value:
            yield _span(value, held, metric)
            held = []
        value = now
        held.append(entry)
    if held:
        yield _span(value, held, metric)


def _span(value: str | None, held: Sequence[Entry], metric: str | None) -> Span:
    figures = [v for e in held if metric and e.status == "ok" and (v := e.value(metric)) is not None]
    return Span(
        value=value,
        start=held[0].started_at,
        end=held[-1].started_at,
        runs=tuple(e.id for e in held),
        labels=tuple(dict.fromkeys(e.label for e in held if e.label)),
        median=median(figures) if figures else None,
    )
