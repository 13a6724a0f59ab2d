"""The search: which trial comes next, and when it is over. Pure: it sees trials, never the machine.

A trial reverts a set of suspects to how the fast side had them and leaves the rest as on the slow side. First the
gate; then the suspect that holds half the probability alone, or a set that holds half of it; at last the two runs that
confirm: only it reverted (necessity), only it as on the slow side (sufficiency). What is left of the gap is searched in
turn, with the culprits found so far held as the fast side had them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from envsnap.prove.belief import Belief, Shot, Spread, believe
from envsnap.prove.gate import Gate, judge, pairs_of

SURE = 0.99
RECOVERED = 0.85
"""Part of the gap that one culprit has to explain before no second one is looked for."""
FAILURES = 3
"""Trials in a row that give no figure, at the gate, before the benchmark is said to fail."""
MOST_CONFIRMING = 4
"""Confirming runs, of both kinds, after which their mean counts though the two kinds differ."""
MOST_OF_ONE = 8
"""Runs of one state beside those of the gate: it takes four times as many to halve what error is left."""
CLEAR = 3.0
"""Standard errors by which an effect has to stand out."""
_MATTERS = (0.05, 0.25)
"""Probabilities up to which others go along where the one in question does not start without them."""
FEW = 12
"""Suspects that may be tried one by one."""
ASTRAY = 2.5
"""Times the trials that halving takes, after which no single suspect is believed to explain what they gave."""
MUCH = 0.25
"""Part of the gap that one suspect may bring back by chance."""
OTHERS = "others"
"""In place of a suspect: something else, which was not found."""


@dataclass(frozen=True)
class Problem:
    """Suspects with prior probabilities (with `none` they add up to 1) and the cost of their levers (1: a restart).

    `gap` is the recorded log ratio of slow to fast, None where no figures were recorded. `order` is that in which the
    suspects came, where any that are reverted with all later ones make a state that there once was.
    """

    prior: Mapping[str, float]
    none: float
    spread: Spread
    gap: float | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    order: Sequence[str] = ()


@dataclass(frozen=True)
class Trial:
    """One trial: the suspects reverted, what it was for, and log cost (None: it gave no figure).

    `purpose` is gate, search, necessity, sufficiency, or level: an end once more, by which an effect is measured.
    """

    reverted: frozenset[str]
    purpose: str
    suspect: str = ""
    value: float | None = None


@dataclass(frozen=True)
class Culprit:
    """A confirmed cause. `effect` is a log ratio with a 95 % interval, `fraction` its part of the whole gap.

    `only_with` is a suspect without which it does nothing; `OTHERS` where that one was not found.
    """

    suspect: str
    probability: float
    effect: float
    low: float
    high: float
    fraction: float
    only_with: str = ""


@dataclass(frozen=True)
class Result:
    """How it ended: confirmed, not_reproducible, none, unsettled, budget or failing; with what was found until then.

    `beside` are suspects that are no culprits though reverting one alone brought much of the gap back: by the part.
    """

    outcome: str
    culprits: tuple[Culprit, ...]
    belief: Belief | None
    reason: str = ""
    beside: Mapping[str, float] = field(default_factory=dict)


class Search:
    """A search as far as its trials go. Give it each trial with `add`; `step` is the next trial, or the result."""

    def __init__(self, problem: Problem, budget: int = 40, trials: Sequence[Trial] = ()) -> None:
        self.problem = problem
        self.budget = budget
        self.trials: list[Trial] = []
        self.culprits: list[Culprit] = []
        self.held_fast: frozenset[str] = frozenset()
        self.held_slow: frozenset[str] = frozenset()
        self.belief: Belief | None = None
        self._hidden = False
        self._spread = problem.spread
        self.every = frozenset(problem.prior)
        self.step: Trial | Result = self._next()
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> None:
        """Take note of a trial that was run."""
        self.trials.append(trial)
        self.step = self._next()

    @property
    def expected(self) -> int:
        """About how many more runs it takes."""
        if isinstance(self.step, Result):
            return 0
        gate = max(2 * pairs_of(self.problem.spread) - len(self._at_gate()), 0)
        odds = self.belief.probability if self.belief else self.problem.prior
        whole = sum(odds.values()) or 1.0
        bits = -sum(p / whole * math.log2(p / whole) for p in odds.values() if p > 0)
        confirmed = {t.purpose for t in self.trials if t.value is not None}
        return gate + round(bits) + sum(kind not in confirmed for kind in ("necessity", "sufficiency"))

    @property
    def stopped(self) -> Result:
        """The result if it ends here."""
        return self._result("budget")

    # -- what comes next ------------------------------------------------------------------------------------

    def _next(self) -> Trial | Result:
        step = self._gate() or self._search()
        if isinstance(step, Trial) and step.purpose != "gate" and self._often(step):
            step = self._result(
                "confirmed" if self.culprits else "unsettled", "more runs of one state would tell no more"
            )
        if isinstance(step, Trial) and len(self.trials) >= self.budget:
            return self._result("budget", "the budget is spent")
        return step

    def _result(self, outcome: str, reason: str = "") -> Result:
        return Result(outcome, tuple(self.culprits), self.belief, reason, self._beside())

    def _beside(self) -> dict[str, float]:
        """Suspects that are no culprits, of which runs with one alone reverted were faster: by how much of the gap."""
        slow, fast = (_figures(self.trials, end) for end in (frozenset[str](), self.every))
        if not slow or not fast:
            return {}
        gap = _mean(slow) - _mean(fast)
        sigma = self.belief.sigma if self.belief else self._spread.sigma
        found = {}
        for suspect in sorted(self.every - {c.suspect for c in self.culprits}):
            alone = _figures(self.trials, frozenset({suspect}))
            gain = _mean(slow) - _mean(alone) if alone else 0.0
            if gain > MUCH * gap and gain > 2 * _error(sigma, alone, len(slow)):
                found[suspect] = gain / gap
        return found

    def _often(self, step: Trial) -> bool:
        """Whether its state was run as often as tells anything."""
        return sum(t.reverted == step.reverted for t in self.trials if t.purpose != "gate") >= MOST_OF_ONE

    def _at_gate(self) -> list[Trial]:
        return [t for t in self.trials if t.purpose == "gate"]

    def _gate(self) -> Trial | Result | None:
        """The next run of the gate, or what it says; None once it is open."""
        runs = self._at_gate()
        slow, fast = (_figures(runs, s) for s in (frozenset[str](), self.every))
        for side, name in ((frozenset(), "slow"), (self.every, "fast")):
            last = [t.value for t in runs if t.reverted == side][-FAILURES:]
            if len(last) == FAILURES and all(v is None for v in last):
                return self._result("failing", f"it fails when everything is as on the {name} side")
        verdict = judge(slow, fast, self.problem.spread, self.problem.gap)
        if verdict is Gate.OPEN and len(slow) == len(fast):
            return None
        if verdict is Gate.SHUT and len(slow) == len(fast):
            return self._result("not_reproducible", "the gap does not come back")
        if len(slow) != len(fast):
            return Trial(frozenset() if len(slow) < len(fast) else self.every, "gate")
        first = random.Random(self.problem.seed * 1000 + len(slow)).random() < 0.5
        return Trial(frozenset() if first else self.every, "gate")

    def _search(self) -> Trial | Result:
        """The search in what is open, and in what is left after each culprit."""
        while True:
            open_ = self.every - self.held_fast - self.held_slow
            if not open_:
                return self._result("confirmed" if self.culprits else "none")
            for end, kind in ((self.held_fast, "necessity"), (self.every - self.held_slow, "sufficiency")):
                if not any(t.reverted == end for t in self.trials):
                    return Trial(end, kind, self.culprits[-1].suspect if self.culprits else "")
                if not self._seen(end):
                    return self._result("confirmed" if self.culprits else "none", "what is left does not start alone")
            belief = self._believe(open_)
            if self.culprits and not self.held_slow and not self._worth(belief):
                return self._result("confirmed")
            self.belief = belief
            if step := self._interaction(belief):
                if isinstance(step, Trial):
                    return step
                self.culprits.append(step)
                self.held_slow |= {step.suspect}
                continue
            least = 1 if belief.none >= SURE else len(open_) / 4 if self._astray(open_, belief) else math.inf
            if self._set_aside(belief, least):
                continue
            if belief.none >= SURE:
                return self._one_by_one(open_, belief) or self._unexplained(belief)
            top = max(sorted(open_), key=lambda s: belief.probability[s])
            if belief.probability[top] < 0.5:
                return self._half(open_, belief)
            found = self._confirm(top, belief)
            if isinstance(found, Trial):
                return found
            if not found.only_with:
                self.culprits = [
                    replace(c, only_with=found.suspect) if c.only_with == OTHERS else c for c in self.culprits
                ]
            self.culprits.append(found)
            # What the search has learnt of the spread holds for what is left of the gap too.
            self._spread = Spread(belief.sigma, self.problem.spread.freedom + len(self.trials))
            if self.held_slow:
                return self._result("confirmed")
            self.held_fast = frozenset(c.suspect for c in self.culprits)

    def _one_by_one(self, open_: frozenset[str], belief: Belief) -> Trial | None:
        """Where few are left and the gap is plainly there, each of them alone: of those that act only together each one
        brings the gap back.
        """
        if self.held_slow or len(open_) > FEW or belief.gap < 4 * belief.sigma:
            return None
        left = [s for s in sorted(open_, key=lambda s: -belief.probability[s]) if not self._confirming(s, "necessity")]
        trials = [self._alone(s, "necessity", belief) for s in left]
        return next((t for t in trials if t.reverted not in self._failed), None)

    def _unexplained(self, belief: Belief) -> Result:
        """No single suspect explains what is left; where the gap is plainly there, that is no acquittal."""
        if self.culprits:
            return self._result("confirmed")
        if self._gap > 2.5 * belief.sigma:
            return self._result("unsettled", "the gap is there, but no suspect explains it alone: some act together")
        return self._result("none", "no suspect explains the gap")

    def _seen(self, reverted: frozenset[str]) -> bool:
        return bool(_figures(self.trials, reverted))

    @property
    def _failed(self) -> set[frozenset[str]]:
        """States that gave no figure."""
        return {t.reverted for t in self.trials if t.value is None}

    def _worth(self, belief: Belief) -> bool:
        """Whether what is left of the gap, with the culprits as on the fast side, is worth a search and can be seen."""
        noise = belief.sigma * math.sqrt(1 / max(belief.n_slow, 1) + 1 / max(belief.n_fast, 1))
        # NOTE: one cause that hid another has an effect of its own as large as the gap, and the gap is still there.
        left = belief.gap if self._hidden else min(belief.gap, self._gap - sum(c.effect for c in self.culprits))
        return left > (1 - RECOVERED) * self._gap and belief.gap > 3 * noise

    def _interaction(self, belief: Belief) -> Trial | Culprit | None:
        """A suspect that makes more beside another one than alone: reverted it brings the gap back, and alone it makes
        little or none of it. What it makes alone is its effect; the rest is searched with it as on the slow side.
        """
        near = belief.fast + belief.gap / 4
        if self.held_slow or belief.gap < 4 * belief.sigma:
            return None
        for suspect in sorted({t.suspect for t in self.trials if t.suspect} - self.held_fast):
            need, enough = self._confirming(suspect, "necessity"), self._confirming(suspect, "sufficiency")
            if not need or not enough or _mean(need) > near:
                continue
            if _mean(enough) <= near:
                if len(need) < 2 or len(enough) < 2:
                    return self._alone(suspect, "necessity" if len(need) < len(enough) else "sufficiency", belief)
                return self._culprit(suspect, belief.slow - _mean(need), belief.sigma / 2, belief)
            if self._differ(need, enough, belief):
                error = _error(belief.sigma, enough, belief.n_fast)
                return self._culprit(suspect, _mean(enough) - belief.fast, error, belief)
        return None

    def _differ(self, need: Sequence[float], enough: Sequence[float], belief: Belief) -> bool:
        """Whether a suspect plainly makes less alone than it takes from all of them, by two runs of each kind."""
        if min(len(need), len(enough)) < 2:
            return False
        more = (belief.slow - _mean(need)) - (_mean(enough) - belief.fast)
        return more > CLEAR * _both(need, enough, belief)

    def _astray(self, open_: frozenset[str], belief: Belief) -> bool:
        """Whether each of two causes seems to hide the other: many more trials were run than it takes to find one, and
        most brought nothing back (of two that act only together most do).
        """
        values = [t.value for t in self._in_context() if t.purpose == "search" and t.value is not None]
        many = len(values) > ASTRAY * math.log2(len(open_) + 1)
        middle = (belief.slow + belief.fast) / 2
        return not self._hidden and many and 2 * sum(value > middle for value in values) > len(values)

    def _set_aside(self, belief: Belief, least: float) -> bool:
        """Where each of two causes hides the other, no single one explains anything, though the gap is there.

        What could be reverted without any gain, so many suspects at `least`, is then held as the fast side had it, so
        that one cause is left.
        """
        runs = [t for t in self._in_context() if len(t.reverted - self.held_fast) >= least]
        # NOTE: where each revert gained something, one of several that add up is left where most of the gap is.
        for part in (0.25, 0.5):
            without = [t.reverted for t in runs if t.value is not None and t.value > belief.slow - part * belief.gap]
            if without:
                break
        if not without or belief.gap < 4 * belief.sigma:
            return False
        self.held_fast = max(without, key=lambda s: (len(s), sorted(s)))
        self._hidden = True
        return True

    def _confirming(self, suspect: str, kind: str) -> list[float]:
        """Figures of the runs that confirm or refute a suspect in what is held now, whatever they were run for."""
        exactly = self.held_fast | {suspect} if kind == "necessity" else self.every - self.held_slow - {suspect}
        return [
            t.value for t in self._in_context()
            if t.value is not None and (t.reverted == exactly or (t.purpose, t.suspect) == (kind, suspect))
        ]  # fmt: skip

    def _in_context(self) -> list[Trial]:
        """The trials in which what is held was as it is held."""
        return [t for t in self.trials if self.held_fast <= t.reverted and not self.held_slow & t.reverted]

    def _believe(self, open_: frozenset[str]) -> Belief:
        """The posterior over what is open, from the trials in which what is held was held so."""
        shots = [Shot(t.reverted & open_, t.value) for t in self._in_context() if t.value is not None]
        whole = sum(self.problem.prior[s] for s in open_) or 1.0
        none = self.problem.none
        prior = {s: (1 - none) * self.problem.prior[s] / whole for s in sorted(open_)}
        return believe(prior, none, shots, self._spread)

    def _half(self, open_: frozenset[str], belief: Belief) -> Trial:
        """A set that holds half of the probability, cheap levers first; never one that gave no figure before."""
        failed = self._failed
        draw = random.Random(self.problem.seed * 1000 + len(self.trials))
        target = (1 - belief.none) / 2
        if states := [s for s in self._states(open_) if s | self.held_fast not in failed]:
            nearest = min(states, key=lambda s: abs(sum(belief.probability[n] for n in s) - target))
            return Trial(nearest | self.held_fast, "search")
        chosen: frozenset[str] = frozenset()
        for _ in range(50):
            noise = {s: draw.random() for s in sorted(open_)}
            # NOTE: after a combination that did not start, an order by chance separates what must stay together less.
            order = sorted(
                noise,
                key=lambda s: (self.problem.costs.get(s, 1.0), -belief.probability[s] * (not failed), noise[s]),
            )
            picked: set[str] = set()
            mass = 0.0
            share = draw.random() if failed else 1.0
            for suspect in order:
                p = belief.probability[suspect]
                if p < (1 - SURE) / 2 and draw.random() > share:
                    continue
                if mass + p <= target * 1.05 or (not picked and p < 1 - belief.none - target):
                    picked.add(suspect)
                    mass += p
            chosen = frozenset(picked) | self.held_fast
            if chosen not in failed and picked:
                break
        return Trial(chosen, "search")

    def _states(self, open_: frozenset[str]) -> list[frozenset[str]]:
        """The latest suspects of an order, as many as may be: each set but the empty one and the whole."""
        later = [s for s in reversed(self.problem.order) if s in open_]
        return [frozenset(later[:count]) for count in range(1, len(later))]

    def _confirm(self, top: str, belief: Belief) -> Trial | Culprit:
        """The next confirming run of the leading suspect, or what it is found to do."""
        need, enough = self._confirming(top, "necessity"), self._confirming(top, "sufficiency")
        if belief.probability[top] >= SURE and need and enough:
            by_need, by_enough = belief.slow - _mean(need), _mean(enough) - belief.fast
            error = _both(need, enough, belief)
            effect = (by_need + by_enough) / 2
            # NOTE: one that brings all of the gap back and makes less of it alone may need another one for the rest.
            whole = effect >= RECOVERED * belief.gap or by_need < RECOVERED * belief.gap
            agree = (abs(by_need - by_enough) <= 2 * error and whole) or len(need) + len(enough) >= MOST_CONFIRMING
            # NOTE: a small part of the gap is what noise looks like; it has to stand out by itself.
            if agree and effect > CLEAR * error / 2:
                return self._culprit(top, effect, error / 2, belief)
        if self._differ(need, enough, belief) and _mean(enough) - belief.fast < CLEAR * _error(
            belief.sigma, enough, belief.n_fast
        ):
            error = _error(belief.sigma, need, belief.n_slow)
            return replace(self._culprit(top, belief.slow - _mean(need), error, belief), only_with=OTHERS)
        return self._one_more(top, need, enough, belief)

    def _one_more(self, top: str, need: Sequence[float], enough: Sequence[float], belief: Belief) -> Trial:
        """The run that tells most of what a suspect does: of the kind, or of the end, that rests on the fewest."""
        ends = self.held_fast, self.every - self.held_slow
        end = min(ends, key=lambda state: len(_figures(self.trials, state)))
        if len(_figures(self.trials, end)) < min(len(need), len(enough)):
            return Trial(end, "level", top)
        return self._alone(top, "necessity" if len(need) <= len(enough) else "sufficiency", belief)

    def _culprit(self, top: str, effect: float, error: float, belief: Belief) -> Culprit:
        partner = next(iter(self.held_slow), "")
        interval = effect - 2 * error, effect + 2 * error
        return Culprit(top, belief.probability[top], effect, *interval, effect / self._gap, partner)

    @property
    def _gap(self) -> float:
        runs = self._at_gate()
        return _mean(_figures(runs, frozenset())) - _mean(_figures(runs, self.every))

    def _alone(self, top: str, kind: str, belief: Belief) -> Trial:
        """Only `top` reverted, or only it not; with others that hardly matter where that alone does not start."""
        open_ = self.every - self.held_fast - self.held_slow
        failed = self._failed
        draw = random.Random(self.problem.seed * 1000 + len(self.trials))
        order = {s: place for place, s in enumerate(self.problem.order)}
        for matters in (1 - SURE) / 2, *_MATTERS:
            others = sorted(s for s in open_ if s != top and belief.probability[s] < matters)
            later = [s for s in others if order and (order[s] > order[top]) == (kind == "necessity")]
            for share in (0.0, 1.0, *([0.5] * 20)):
                if share == 1.0:  # what came later goes along first: it may build upon the one in question
                    extra = frozenset(later)
                else:
                    extra = frozenset(s for s in others if share and draw.random() < share)
                reverted = self.held_fast | ({top} | extra if kind == "necessity" else open_ - {top} - extra)
                if reverted not in failed:
                    return Trial(reverted, kind, top)
        return Trial(reverted, kind, top)


def _error(sigma: float, values: Sequence[float], level: float) -> float:
    """Standard error of the mean of some runs less a level that rests on so many."""
    return sigma * math.sqrt(1 / max(len(values), 1) + 1 / max(level, 1))


def _both(need: Sequence[float], enough: Sequence[float], belief: Belief) -> float:
    """Standard error of what a suspect takes away and of what it makes alone, one beside the other."""
    return math.hypot(_error(belief.sigma, need, belief.n_slow), _error(belief.sigma, enough, belief.n_fast))


def _figures(trials: Sequence[Trial], reverted: frozenset[str]) -> list[float]:
    """What the runs of one state gave."""
    return [t.value for t in trials if t.reverted == reverted and t.value is not None]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
