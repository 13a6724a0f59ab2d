"""Searches: `envsnap prove` on a plant's runs, among innocent changes that it can pull as well."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envsnap.explain import Side, explain
from envsnap.jsonfile import write_atomically
from envsnap.runs.run import Run, packed
from tests.benchmarks.planted.innocent import innocents
from tests.benchmarks.planted.judge import METRIC, holds, interleaved, judged
from tests.benchmarks.planted.report import Search
from tests.benchmarks.planted.trials import Board
from tests.engine.plants import Lever, Plant

BUDGET = 24
"""Runs that a search may take."""


def search(board: Board, plant: Plant, baseline: list[Run], planted: list[Run], seconds: float) -> Search:
    """Run or continue a search, and judge what it says. The sides lie in `prove/PLANT` of the board's folder."""
    place = board.folder / "prove" / plant.id
    a, b = interleaved(plant.id, baseline, planted)
    one, two = Side.of_runs(a).snapshot, Side.of_runs(b).snapshot
    laid = innocents(one, two, f"{plant.id} prove", levers=True)
    sides = {"fast": laid.over(a, 0), "slow": laid.over(b, 1)}
    for name, runs in sides.items():
        _write(place / name, runs)
    row = judged(plant, baseline, planted, None, draws=1)
    names = ("fast", "slow") if row.ratio < 1 else ("slow", "fast")
    told = _prove(board, plant, place, names, seconds)
    found = explain(Side.of_runs(sides["fast"]), Side.of_runs(sides["slow"]))
    theirs = {s.id for s in found.suspects if holds(plant, s)}
    culprits = [c["suspect"] for c in told["culprits"]]
    right = bool(theirs & {*culprits}) if row.cause else told["outcome"] in ("not_reproducible", "none")
    return Search(told["outcome"], culprits, len(told["trials"]), right, f"among {len(laid.deeds)} innocent changes")


def _write(folder: Path, runs: list[Run]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for run in runs:
        (folder / f"{run.id}.json.gz").write_bytes(packed(run.as_json()))


def _prove(board: Board, plant: Plant, place: Path, names: tuple[str, str], seconds: float) -> dict[str, Any]:
    """What the command line answers, as JSON."""
    out, asked = place / "figures.json", board.bench.asked(plant.ranks)
    board.checkout.put()
    metrics = [word for figure in board.figures for word in ("--metric", figure)]
    command = [
        sys.executable, "-m", "envsnap", "prove", *(str(place / n) for n in names), "--store", str(place), "--format",
        "json", "--budget", str(BUDGET), "--ready", f"{board.url}/health", "--by",
        METRIC, "--server", shlex.join(board.bench.command(board.port, plant.ranks, Lever())), *metrics,
        "--metrics", str(out), "--", *board.benchmark(out, board.prompts(asked), asked, board.url),
    ]  # fmt: skip
    environment = board.environment(Lever(), plant.ranks, plant.simulated)
    environment.pop("ENVSNAP_RECORD")
    with (place / "log").open("ab") as log:
        done = subprocess.run(command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=log, timeout=seconds)
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(f"prove ended with {done.returncode}; see {place / 'log'}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def load(folder: Path) -> dict[str, Search]:
    """The searches that are done."""
    path = folder / "searches.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    return {name: Search(**told) for name, told in found.items()}


def keep(folder: Path, name: str, found: Search) -> None:
    """Keep what a search said."""
    every = {**load(folder), name: found}
    write_atomically(folder / "searches.json", json.dumps({n: asdict(s) for n, s in every.items()}, indent=1).encode())
