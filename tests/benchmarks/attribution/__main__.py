"""Run the board: `python -m tests.benchmarks.attribution --help`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from envsnap.explain import Weights, explain
from envsnap.explain.weights import WEIGHTS
from tests.benchmarks.attribution import report
from tests.benchmarks.attribution.build import lay
from tests.benchmarks.attribution.cases import CULPRIT, LEFT_OUT, NONE, Case, families, invented, public
from tests.benchmarks.attribution.leave_out import own_stories, without_own_category
from tests.benchmarks.attribution.score import Judged, judge


@dataclass(frozen=True)
class Job:
    """One case to be explained `draws` times."""

    case: Case
    draws: int
    weights: Weights = WEIGHTS
    without_own_story: bool = False
    with_culprit: bool = True


def worked(job: Job) -> list[Judged]:
    """The judged explanations of a job; in every other draw the slow side stands first."""
    without = own_stories(lay(job.case, 0)) if job.without_own_story else ()
    found = []
    for number in range(job.draws):
        laid = lay(job.case, number, with_culprit=job.with_culprit)
        swapped = number % 2 == 1
        sides = (laid.slow, laid.fast) if swapped else (laid.fast, laid.slow)
        explanation = explain(*sides, without=without, weights=job.weights)
        if not job.with_culprit:
            laid = replace(laid, case=replace(laid.case, group=NONE), culprits=frozenset())
        found.append(judge(laid, explanation, swapped))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the board."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.attribution", description=__doc__)
    parser.add_argument("--draws", type=int, default=20, help="draws of innocent changes a case")
    parser.add_argument("--json", type=Path, help="write all figures and draws there")
    parser.add_argument("--case", action="append", default=[], help="only this case, with its evidence; repeatable")
    parser.add_argument("--without-own-story", action="store_true", help="only with each case's own story left out")
    parser.add_argument("--leave-out-category", action="store_true", help="only with weights from other categories")
    parser.add_argument("--brief", action="store_true", help="no line for each case")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    chosen = [c for c in public() if c.group != LEFT_OUT]
    made = [c for c in invented() if c.group != LEFT_OUT]
    if given.case:
        return _some([c for c in (*chosen, *made, *families()) if c.id in given.case], given.draws)
    boards: dict[str, list[Job]] = {}
    every = not (given.without_own_story or given.leave_out_category)
    if every:
        boards["public reports"] = [Job(c, given.draws) for c in chosen]
    if every or given.leave_out_category:
        fitted = without_own_category(chosen)
        boards["weights without the own category"] = [Job(c, given.draws, fitted[c.category]) for c in chosen]
    if every or given.without_own_story:
        boards["without the own story"] = [Job(c, given.draws, without_own_story=True) for c in chosen]
    if every:
        boards["invented cases"] = [Job(c, given.draws) for c in made]
        few = max(1, given.draws // 4)
        boards["a case of each family"] = [Job(c, few) for c in families()]
        boards["culprit taken out of both records"] = [
            Job(c, few, with_culprit=False) for c in chosen if c.group == CULPRIT and not c.failed
        ]
    results = _worked(boards, given.jobs)
    left = [c for c in public() if c.group == LEFT_OUT]
    for title, board in results.items():
        print("\n".join(report.lines(title, board, cases=not given.brief)))
        print()
    for case in left:
        print(f"left out: {case.id}: {case.why}")
    print(report.TARGETS)
    count = sum(len(draws) for board in results.values() for draws in board.values())
    print(f"{count} explanations, {time.perf_counter() - started:.0f} s")
    if given.json:
        given.json.write_text(json.dumps(report.as_json(results), indent=1) + "\n")
    return 0


def _worked(boards: dict[str, list[Job]], processes: int) -> dict[str, dict[str, list[Judged]]]:
    jobs = [job for held in boards.values() for job in held]
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
            judged = iter(list(pool.map(worked, jobs)))
    else:
        judged = iter([worked(job) for job in jobs])
    return {title: {job.case.id: next(judged) for job in held} for title, held in boards.items()}


def _some(cases: Iterable[Case], draws: int) -> int:
    """Each draw of a few cases: what leads, and what was said of the culprit."""
    for case in cases:
        print(f"== {case.id} ({case.group}; own stories: {', '.join(own_stories(lay(case, 0))) or 'none'})")
        for number, each in enumerate(worked(Job(case, draws))):
            leads = f"{each.leading} {each.leading_probability:.2f}"
            print(f"  {number}: rank {each.rank:g}, {each.probability:.2f}; leads {leads} {each.ruled_out}")
            print("\n".join(f"       {line}" for line in each.evidence))
    return 0


if __name__ == "__main__":
    sys.exit(main())
