"""The board on the CPU server: `python -m tests.benchmarks.planted measure|prove|report FOLDER`; see --help of each."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from envsnap.jsonfile import write_atomically
from envsnap.reading import Json
from tests.benchmarks.planted import report, searches
from tests.benchmarks.planted.bench import CpuBench
from tests.benchmarks.planted.judge import DRAWS, METRIC, judged
from tests.benchmarks.planted.trials import PORT, ROOT, STATE, Board, alone, pairs, tasks
from tests.engine import environment
from tests.engine.plants import CPU, PLANTS, plants_of
from tests.engine.server import NotServing

RESULTS = ROOT / "tests" / "benchmarks" / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.planted", description=__doc__)
    parser.add_argument("what", choices=("measure", "prove", "report"))
    add = parser.add_argument
    add("folder", type=Path, help="keeps runs; the same folder goes on where it stopped")
    add("--engine", default=os.environ.get(environment.VARIABLE, ""), help="folder of the engine's environment")
    add("--blocks", type=int, default=4)
    add("--first", type=int, default=0, help="number of the first block")
    add("--ranks", type=int, action="append", choices=(1, 2), help="only the plants of so many ranks")
    add("--plant", action="append", default=[], help="only these plants")
    add("--port", type=int, default=PORT)
    add("--lock", default="", help="file to hold while a server is up")
    add("--seconds", type=float, default=3600.0, help="for one search at most")
    add("--draws", type=int, default=DRAWS, help="draws of innocent changes a plant")
    add("--write", action="store_true", help="report: keep the board under tests/benchmarks/results/")
    given = parser.parse_args(arguments)
    engine = environment.find(given.engine)
    if isinstance(engine, str):
        print(engine, file=sys.stderr)
        return 2
    board = Board(given.folder, CpuBench(engine), given.port)
    {"measure": _measure, "prove": _prove, "report": _report}[given.what](board, given)
    return 0


def _measure(board: Board, given: argparse.Namespace) -> None:
    """Measure what is not measured yet."""
    for block in range(given.first, given.blocks):
        for ranks in given.ranks or (1, 2):
            plants = [p for p in plants_of(CPU, ranks) if not given.plant or p.id in given.plant]
            for task in tasks(block, CPU, str(ranks), plants):
                try:
                    with alone(given.lock):
                        board.run(task)
                except NotServing as error:
                    print(f"{task.names[0]}: {error}", file=sys.stderr)


def _prove(board: Board, given: argparse.Namespace) -> None:
    """One search for each plant that is named."""
    for name in given.plant:
        plant = next(p for p in PLANTS if p.id == name)
        with alone(given.lock):
            found = searches.search(board, plant, *pairs(board, plant), given.seconds)
        searches.keep(board.folder, name, found)
        print(name, found, flush=True)


def _report(board: Board, given: argparse.Namespace) -> None:
    """Judge and print."""
    rows, single = [], {}
    for plant in plants_of(CPU):
        baseline, planted = pairs(board, plant)
        if len(planted) >= 2 and (not given.plant or plant.id in given.plant):
            rows.append(judged(plant, baseline, planted, None, given.draws))
        elif planted:
            values = [next(m.value for m in run.metrics if m.name == METRIC) for run in (*baseline, *planted)]
            single[plant.id] = f"{values[0]:.4g} -> {values[1]:.4g}"
    about = {**_about(board), **({"single pairs, which show nothing": single} if single else {})}
    made = report.Board(CPU, about, rows, searches.load(board.folder))
    print("\n".join(report.lines(made)))
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps(report.as_json(made), indent=1, sort_keys=True)
        write_atomically(RESULTS / f"planted-{CPU}.json", f"{text}\n".encode())


def _about(board: Board) -> dict[str, Json]:
    """Of the machine, the day, the commit, and how it was measured."""
    first = next(iter(board.done.values()), None)
    values = board.store.load(first).snapshot.values if first else {}
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {
        "machine": ", ".join(str(values.get(key)) for key in ("cpu.model", "cpu.threads_count", "kernel.release")),
        "engine": f"SGLang {values.get('server[0].version')} on CPU, plain decoding; acceptance does not arise",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit.stdout.strip(),
        "design": "randomised blocks, each with the usual state once and every plant once; " + STATE,
    }


if __name__ == "__main__":
    sys.exit(main())
