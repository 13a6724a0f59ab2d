"""Levels of a search on a made-up engine: which commit and which hunk, that no run is repeated, and what is beside."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from envsnap.prove.belief import Spread
from envsnap.prove.journal import NOT_BUILT, Journal, Record
from envsnap.prove.levels import Level, below
from envsnap.prove.parts import Code, build
from envsnap.prove.search import Problem, Result, Trial
from envsnap.prove.switches import Setting, Switch
from envsnap.prove.trees import Tree
from envsnap.prove.trials import Found, search_of, top_level
from tests.collectors.git_repo import Repo, isolate
from tests.prove.test_parts import text

GAP = math.log(1.5)
NAMES = [f"env:{i}" for i in range(6)]
GIT = "git:engine"
Cost = Callable[[frozenset[str], str], float]
"""Log cost by the suspects of the top level that are reverted, and the text of a.py as it was built."""


class Bench:
    """A search without processes: what a run gives is what `cost` says of the code that was put together."""

    def __init__(self, folder: Path, repo: Repo, commits: tuple[str, str], cost: Cost) -> None:
        self.folder, self.cost = folder, cost
        self.code = Code(GIT, *(Tree(str(repo.root), commit, "") for commit in commits))
        prior = dict.fromkeys((*NAMES, GIT), 0.7 / 7)
        self.journal = Journal(folder / "x.json", Problem(prior, 0.3, Spread(0.01, 6.0), GAP))
        self.switches = [Switch(n, n, p, Setting(), Setting()) for n, p in prior.items() if n != GIT]
        self.switches.append(Switch(GIT, GIT, 0.1, Setting(), Setting(), code=self.code))

    def searched(self, level: Level, budget: int = 60) -> Found:
        while True:
            search = search_of(self.journal, budget, level)
            if isinstance(search.step, Result):
                return Found(level, search)
            self.journal.records.append(self.run(level, search.step))

    def run(self, level: Level, trial: Trial) -> Record:
        number = len(self.journal.records)
        parts, undone = level.chain, trial.reverted | level.undone
        beside = level.top_beside
        if not level.owner:  # the whole repository is one part there
            parts, undone, beside = [], frozenset(), trial.reverted
            commit = self.code.fast if GIT in trial.reverted else self.code.slow
            code = Code(GIT, commit, commit)
        else:
            code = self.code
        target = self.folder / f"tree-{number}"
        why = build(code, parts, undone, target)
        cost = None if why else self.cost(beside, (target / "a.py").read_text()) + 0.01 * math.sin(number)
        status = NOT_BUILT if why else "ok"
        return Record(tuple(sorted(trial.reverted)), trial.purpose, trial.suspect, "" if why else f"r{number}", status,
                      why, cost, cost, 1.0, within=level.owner)  # fmt: skip

    def deeper(self, found: Found) -> Found:
        (culprit,) = [c for c in found.result.culprits if c.suspect.startswith(GIT)]
        level = below(found.level, culprit, found.search, self.switches, lambda suspect, part: 1.0)
        assert isinstance(level, Level), level
        return self.searched(level)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    isolate(tmp_path, monkeypatch)
    return Repo.new(tmp_path / "engine")


def history(repo: Repo) -> tuple[str, str]:
    """Six commits, of which the fourth changes three places of a.py."""
    fast = repo.commit({"a.py": text(), "b.py": "b = 0\n"})
    for number in (1, 2, 3):
        repo.commit({"b.py": f"b = {number}\n"}, f"b {number}")
    repo.commit({"a.py": text(l5="x = 1", l25="SLOW = 1", l50="y = 1")}, "three places")
    repo.commit({"c.py": "c = 1\n"}, "c")
    return fast, repo.commit({"a.py": text(l5="x = 1", l25="SLOW = 1", l40="z = 1", l50="y = 1")}, "another place")


def titles(found: Found) -> list[str]:
    return [found.level.titles[c.suspect] for c in found.result.culprits]


def test_the_commit_and_then_the_hunk_are_found_and_no_state_is_run_twice(repo: Repo, tmp_path: Path) -> None:
    bench = Bench(tmp_path, repo, history(repo), lambda beside, a: GAP if "SLOW" in a else 0.0)
    top = bench.searched(top_level(bench.journal, {}))
    assert [c.suspect for c in top.result.culprits] == [GIT]
    before = bench.journal.runs
    commits = bench.deeper(top)
    assert [t.partition(" (")[2] for t in titles(commits)] == ["three places)"]
    hunks = bench.deeper(commits)
    assert titles(hunks) == ["a.py:26"]
    assert bench.journal.runs - before <= 12
    alone = [(r.within, r.reverted) for r in bench.journal.records if r.purpose != "gate"]
    assert len(set(alone)) == len(alone)
    for found in (commits, hunks):
        gate = [r for r in bench.journal.records if r.within == found.level.owner and r.purpose == "gate"]
        assert len(gate) <= 2, "the ends of a level were run in the level above"


def test_parts_are_searched_beside_what_else_was_found(repo: Repo, tmp_path: Path) -> None:
    """Two causes of which each hides the other: in the slow side's state no commit makes any difference."""

    def cost(beside: frozenset[str], a: str) -> float:
        return GAP if "SLOW" in a or "env:2" not in beside else 0.0

    bench = Bench(tmp_path, repo, history(repo), cost)
    top = bench.searched(top_level(bench.journal, {}))
    assert {c.suspect for c in top.result.culprits} == {GIT, "env:2"}
    commits = bench.deeper(top)
    assert "env:2" in commits.level.top_beside
    assert [t.partition(" (")[2] for t in titles(commits)] == ["three places)"]
    assert titles(bench.deeper(commits)) == ["a.py:26"]


def test_a_commit_that_cannot_be_taken_back_alone_goes_with_what_builds_on_it(repo: Repo, tmp_path: Path) -> None:
    fast = repo.commit({"a.py": text(), "b.py": "b = 0\n"})
    repo.commit({"b.py": "b = 1\n"}, "before")
    repo.commit({"a.py": text(l25="SLOW = 1")}, "slow")
    slow = repo.commit({"a.py": text(l25="SLOW = 2")}, "on top of it")
    bench = Bench(tmp_path, repo, (fast, slow), lambda beside, a: GAP if "SLOW" in a else 0.0)
    top = bench.searched(top_level(bench.journal, {}))
    commits = bench.deeper(top)
    assert [t.partition(" (")[2] for t in titles(commits)] == ["slow)"]
    failed = [r for r in bench.journal.records if r.status == NOT_BUILT]
    assert failed, "it was tried alone"
    assert all("cannot be put together" in r.reason and not r.run for r in failed)
    assert titles(bench.deeper(commits)) == ["a.py:26"]


def test_a_budget_is_for_all_levels_together(repo: Repo, tmp_path: Path) -> None:
    bench = Bench(tmp_path, repo, history(repo), lambda beside, a: GAP if "SLOW" in a else 0.0)
    top = bench.searched(top_level(bench.journal, {}))
    spent = bench.journal.runs
    (culprit,) = top.result.culprits
    level = below(top.level, culprit, top.search, bench.switches, lambda suspect, part: 1.0)
    assert isinstance(level, Level)
    found = bench.searched(level, budget=spent + 1)
    assert found.result.outcome == "budget"
    assert bench.journal.runs == spent + 1
