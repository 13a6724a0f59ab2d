"""Trials: one run each, in a state made for it, checked, and written to the journal before the next one starts."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from envsnap.host import LiveHost
from envsnap.prove.aftermath import MARK, look, room, settle
from envsnap.prove.by_hand import Person
from envsnap.prove.effect import seen, without_effect
from envsnap.prove.journal import NOT_BUILT, Journal, Record
from envsnap.prove.levels import Level, Weigh, alone, below, seeds, switched
from envsnap.prove.search import Problem, Result, Search, Trial
from envsnap.prove.set_by_file import fill
from envsnap.prove.switches import Commands, State, Switch, state
from envsnap.runs.columns import Columns
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.plan import READY_SECONDS, Arm, Plan, Say
from envsnap.runs.run import Run
from envsnap.runs.session import run_session
from envsnap.runs.sources import Wanted
from envsnap.scope import Scope
from envsnap.store import Store

Watch = Callable[[Search, Journal, Level], None]
"""Told before each trial how the search stands."""

_MOST_NOT_BUILT = 100
"""Trials of a level whose code could not be put together, beyond which they count as runs."""


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


@dataclass(frozen=True)
class Found:
    """A level with its search, as far as it went."""

    level: Level
    search: Search

    @property
    def result(self) -> Result:
        """How it ended; how it stands where it has not."""
        return self.search.step if isinstance(self.search.step, Result) else self.search.stopped


def search_of(journal: Journal, budget: int, level: Level | None = None) -> Search:
    """A level's search as far as its journal goes, among the suspects whose switches take effect."""
    level = level or top_level(journal, {})
    left = {s: p for s, p in level.problem.prior.items() if s not in journal.dropped}
    whole = sum(left.values()) or 1.0
    none = level.problem.none
    problem = replace(level.problem, prior={s: (1 - none) * p / whole for s, p in left.items()})
    trials = _trials_of(journal, level, left)
    not_built = sum(r.status == NOT_BUILT for r in journal.records if r.within == level.owner)
    # NOTE: the search counts the trials that it is told of: some of them are another level's, or were no runs.
    left_over = budget - journal.runs - max(not_built - _MOST_NOT_BUILT, 0)
    return Search(problem, len(trials) + left_over, trials)


def _trials_of(journal: Journal, level: Level, left: Collection[str]) -> list[Trial]:
    """What counts for a level: its own trials, and those above that were runs of its ends."""
    before = seeds(level, _trials_of(journal, level.above, level.above.problem.prior)) if level.above else []
    own = [replace(t, reverted=t.reverted & frozenset(left)) for t in journal.counted(level.owner)]
    return [*before, *own]


def top_level(journal: Journal, titles: Mapping[str, str]) -> Level:
    """The level of all suspects."""
    return Level(journal.problem, titles)


def prove(
    bench: Bench,
    switches: Sequence[Switch],
    journal: Journal,
    store: Store,
    say: Say,
    watch: Watch,
    weigh: Weigh = lambda suspect, part: 1.0,
    person: Person | None = None,
) -> list[Found]:
    """Run trials until the search is over, from wherever the journal stands; then among the parts of what was found.

    The first of what is returned is the top level. Raises: Interrupted, SessionError, Unclean,
    NotSet, OSError.
    """  # fmt: skip
    if journal.outcome == "failing":  # whoever asks again has mended something
        journal.records = [r for r in journal.records if r.cost is not None]
    here = {s.id for s in switches}
    journal.dropped |= {s: "it can be switched no more" for s in journal.problem.prior if s not in here}
    for switch in switches:
        if switch.partly:
            journal.note(f"{switch.title} is switched in part: {switch.partly}.")
    work = _Work(bench, switches, journal, store, say, watch, person)
    top = Found(level := top_level(journal, {s.id: s.title for s in switches}), work.searched(level))
    journal.outcome = top.result.outcome
    journal.save()
    return [top, *_deeper(work, top, weigh)]


def _deeper(work: _Work, found: Found, weigh: Weigh) -> Iterator[Found]:
    """The levels below what a level has confirmed."""
    for culprit in found.result.culprits:
        under = below(found.level, culprit, found.search, work.switches, weigh)
        if isinstance(under, str):
            if under:
                work.journal.note(f"{found.level.titles[culprit.suspect]} was not taken apart: {under}.")
            continue
        problem = work.journal.problems.get(culprit.suspect, under.problem)
        if problem.prior.keys() == under.problem.prior.keys():
            under = replace(under, problem=problem)
        work.journal.problems[culprit.suspect] = under.problem
        search = work.searched(under)
        deeper = Found(under, search)
        yield deeper
        yield from _deeper(work, deeper, weigh)


@dataclass(frozen=True)
class _Work:
    """What every trial needs."""

    bench: Bench
    switches: Sequence[Switch]
    journal: Journal
    store: Store
    say: Say
    watch: Watch
    person: Person | None = None

    def searched(self, level: Level) -> Search:
        """Run the trials of one level until it is over."""
        journal = self.journal
        while True:
            search = search_of(journal, self.bench.runs, level)
            left = [s for s in self.switches if s.id not in journal.dropped]
            step = search.step
            if level.owner and (only := alone(level, search)):
                step = only
            elif not left:
                step = Result("none", (), None, "no lever took effect")
            elif isinstance(step, Trial) and self.bench.hours is not None and _hours(journal) >= self.bench.hours:
                step = replace(search.stopped, reason=f"{self.bench.hours:g} hours were not enough")
            if isinstance(step, Result):
                if step.outcome == "not_reproducible" and not level.owner and journal.about.get("only"):
                    step = replace(step, outcome="none", reason="switched alone, they do not bring the gap back")
                search.step = step
                return search
            self.watch(search, journal, level)
            room(journal.folder)
            before = look(LiveHost())
            if before.unchecked:
                journal.note(f"Whether GPU memory came back between runs was not checked: {before.unchecked}.")
            journal.at_work = sorted(before.shm)
            journal.save()
            try:
                record, problem = self._trial(left, level, step)
                journal.records.append(record)
                journal.dropped |= problem
            finally:
                journal.save()
                settle(LiveHost(), before, journal.id, self.say)
                journal.at_work = None
                journal.save()

    def _trial(self, switches: Sequence[Switch], level: Level, trial: Trial) -> tuple[Record, dict[str, str]]:
        """Run one trial; the switches that did not take effect in it, with the reason."""
        began = time.monotonic()
        empty, code = self.journal.folder / "empty", self.journal.folder / "code"
        record = Record(tuple(sorted(trial.reverted)), trial.purpose, trial.suspect, "", NOT_BUILT, "", None, None, 0.0,
                        within=level.owner)  # fmt: skip
        try:
            code.mkdir(mode=0o700, exist_ok=True)
            put = switched(level, switches, trial.reverted, code)
            if isinstance(put, str):
                return replace(record, reason=put), {}
            made = state(self.bench.commands, *put, empty)
            _make_folders(made)
            if self.person:
                self.person.set(*put)
            run = run_once(self.bench, made, self.journal, self.store, self.say)
        finally:
            for folder in (empty, code):
                shutil.rmtree(folder, ignore_errors=True)
        if run.status == "interrupted":
            raise Interrupted(2)
        during = run.snapshots.get("during")
        used, reverted = put
        lost = {s.id: why for s in used if (why := without_effect(s, s.setting(s.id in reverted), during))}
        metric, why = _figure(run, self.bench.metric or self.journal.metric)
        if metric and not self.journal.metric:
            self.journal.metric = metric.name
        good = run.status == "ok" and metric is not None
        status = "without_effect" if lost and good else run.status if metric or run.status != "ok" else "failed"
        if lost and good and level.owner:  # the code of one part did not arrive: that says nothing of the suspect
            status, good, metric = "failed", False, None
        record = replace(
            record,
            run=run.id,
            status=status,
            reason="; ".join(lost.values()) if lost and run.status == "ok" else run.reason or why,
            value=metric.value if metric and good else None,
            cost=_cost(metric) if metric and status == "ok" else None,
            seconds=round(time.monotonic() - began, 3),
            unseen=not seen(during),
        )
        return record, lost if status == "without_effect" else {}


def _hours(journal: Journal) -> float:
    return sum(r.seconds for r in journal.records) / 3600


def _make_folders(made: State) -> None:
    """The folders that variables of this state name. Raises: OSError."""
    for folder, content in made.folders.items():
        Path(folder).mkdir(parents=True, exist_ok=True)
        fill(Path(folder), content)


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
