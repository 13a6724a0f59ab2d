"""Trials: one run each, in a state made for it, checked, and written to the journal before the next one starts."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from envsnap.prove.effect import seen, without_effect
from envsnap.prove.journal import MARK, Journal, Record
from envsnap.prove.search import Problem, Result, Search, Trial
from envsnap.prove.switches import Commands, State, Switch, state
from envsnap.runs.columns import Columns
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.plan import READY_SECONDS, Arm, Plan, Say
from envsnap.runs.run import Run
from envsnap.runs.session import run_session
from envsnap.runs.sources import Wanted
from envsnap.scope import Scope
from envsnap.store import Store

Watch = Callable[[Search, "Journal"], None]
"""Told before each trial how the search stands."""


@dataclass(frozen=True)
class Bench:
    """What all trials share. `hours` is a budget of time, None where runs are counted."""

    commands: Commands
    ready: str = ""
    ready_seconds: float = READY_SECONDS
    metrics: Wanted = field(default_factory=Wanted)
    metric: str = ""
    scope: Scope = field(default_factory=Scope)
    runs: int = 40
    hours: float | None = None
    record: bool = True


SIGNALLED = 128
"""What a shell adds to the number of a signal."""


class Interrupted(Exception):
    """A signal ended the trial at work; its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def search_of(journal: Journal, budget: int) -> Search:
    """The search as far as its journal goes, among the suspects whose switches take effect."""
    problem = journal.problem
    left = {s: p for s, p in problem.prior.items() if s not in journal.dropped}
    whole = sum(left.values()) or 1.0
    problem = replace(problem, prior={s: (1 - problem.none) * p / whole for s, p in left.items()})
    wasted = len(journal.records) - len(journal.counted)
    trials = [replace(t, reverted=t.reverted & left.keys()) for t in journal.counted]
    return Search(problem, budget - wasted, trials)


def prove(bench: Bench, switches: Sequence[Switch], journal: Journal, store: Store, say: Say, watch: Watch) -> Search:
    """Run trials until the search is over, from wherever the journal stands. Raises: Interrupted, SessionError."""
    if journal.outcome == "failing":  # whoever asks again has mended something
        journal.records = [r for r in journal.records if r.cost is not None]
    here = {s.id for s in switches}
    journal.dropped |= {s: "it can be switched no more" for s in journal.problem.prior if s not in here}
    while True:
        left = [s for s in switches if s.id in journal.problem.prior and s.id not in journal.dropped]
        search = search_of(journal, bench.runs)
        step = search.step
        if not left:
            step = Result("none", (), None, "no lever took effect")
        elif isinstance(step, Trial) and bench.hours is not None and _hours(journal) >= bench.hours:
            step = replace(search.stopped, reason=f"{bench.hours:g} hours were not enough")
        if isinstance(step, Result):
            if step.outcome == "not_reproducible" and journal.about.get("only"):
                step = replace(step, outcome="none", reason="switched alone, they do not bring the gap back")
            search.step = step
            journal.outcome = step.outcome
            journal.save()
            return search
        watch(search, journal)
        record, problem = _trial(bench, left, step, journal, store, say)
        journal.records.append(record)
        journal.dropped |= problem
        journal.save()


def _hours(journal: Journal) -> float:
    return sum(r.seconds for r in journal.records) / 3600


def _trial(
    bench: Bench, switches: Sequence[Switch], trial: Trial, journal: Journal, store: Store, say: Say
) -> tuple[Record, dict[str, str]]:
    """Run one trial; the switches that did not take effect in it, with the reason."""
    began = time.monotonic()
    empty = journal.folder / "empty"
    try:
        made = state(bench.commands, switches, trial.reverted, empty)
        _make_empty(made, empty)
        run = run_once(bench, made, journal, store, say)
    finally:
        shutil.rmtree(empty, ignore_errors=True)
    if run.status == "interrupted":
        raise Interrupted(2)
    during = run.snapshots.get("during")
    lost = {s.id: why for s in switches if (why := without_effect(s, s.setting(s.id in trial.reverted), during))}
    metric, why = _figure(run, bench.metric or journal.metric)
    if metric and not journal.metric:
        journal.metric = metric.name
    good = run.status == "ok" and metric is not None
    status = "without_effect" if lost and good else run.status if metric or run.status != "ok" else "failed"
    record = Record(
        reverted=tuple(sorted(trial.reverted)),
        purpose=trial.purpose,
        suspect=trial.suspect,
        run=run.id,
        status=status,
        reason="; ".join(lost.values()) if status == "without_effect" else run.reason or why,
        value=metric.value if metric and good else None,
        cost=_cost(metric) if metric and status == "ok" else None,
        seconds=round(time.monotonic() - began, 3),
        unseen=not seen(during),
    )
    return record, lost if status == "without_effect" else {}


def _make_empty(made: State, empty: Path) -> None:
    """The folders that variables of this state want empty."""
    for value in made.environment.values():
        if value is not None and value.startswith(f"{empty}/"):
            Path(value).mkdir(parents=True, exist_ok=True)


def run_once(bench: Bench, made: State, journal: Journal, store: Store, say: Say) -> Run:
    """One run in a state, kept in the store."""
    plan = Plan(
        benchmark=made.commands.benchmark,
        server=made.commands.server,
        ready=bench.ready,
        ready_seconds=bench.ready_seconds,
        label=f"prove-{journal.id}",
        arms=(Arm("", {**made.environment, MARK: journal.id}),),
        metrics=bench.metrics,
        record=bench.record,
        scope=bench.scope,
        aside=True,
    )

    def save(run: Run, samples: Columns) -> None:
        store.save(run, samples)

    outcome = run_session(plan, store.prepare(), save, say)
    run = outcome.runs[0]
    if outcome.exit_code > SIGNALLED and run.exit_code == 0:
        # NOTE: a signal that came when the benchmark was over spoils no run, and still means stop.
        raise Interrupted(outcome.exit_code - SIGNALLED)
    return run


def _figure(run: Run, name: str) -> tuple[Metric | None, str]:
    """The metric that the search goes by, or why there is none."""
    for metric in run.metrics:
        if metric.name == name or (not name and metric.better is not Better.NEITHER):
            return metric, ""
    return None, f"the run has no figure {name!r}" if name else "the run has no figure that is better high or low"


def _cost(metric: Metric) -> float:
    """Log of the figure, turned so that slower is larger."""
    return -math.log(metric.value) if metric.better is Better.HIGHER else math.log(metric.value)


def problem_of(switches: Sequence[Switch], elsewhere: float, spread: tuple[float, float], gap: float | None) -> Problem:
    """The search's problem: explain's probabilities, with a floor for each so that no prior can hide a cause.

    `elsewhere` is the probability of everything that has no switch; `spread` a standard deviation of logs with its
    degrees of freedom.
    """
    from envsnap.prove.belief import Spread

    none = min(max(elsewhere, 0.05), 0.5)
    whole = sum(s.probability for s in switches) or 1.0
    prior = {s.id: (1 - none) * (0.9 * (s.probability / whole if whole else 0) + 0.1 / len(switches)) for s in switches}
    whole = sum(prior.values())
    prior = {s: (1 - none) * p / whole for s, p in prior.items()}
    return Problem(prior, none, Spread(*spread), gap, {s.id: s.cost for s in switches})
