"""Runs on a machine with H200 GPUs: `python3 -m tests.engine.h200 PART FOLDER --dest KIT`; see --help and README.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from envsnap.jsonfile import write_atomically
from tests.benchmarks.planted import report
from tests.benchmarks.planted.judge import DRAWS, judged
from tests.benchmarks.planted.trials import ROOT, STATE, Board, pairs
from tests.engine.h200 import steps
from tests.engine.h200.lab import Lab, Step
from tests.engine.h200.shapes import SHAPES
from tests.engine.plants import H200, plants_of

SECONDS = 570.0
"""A command may take ten minutes; what it writes has to be packed in that time too."""
RESULTS = ROOT / "tests" / "benchmarks" / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do as much of a part as fits, and pack what is known."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.engine.h200", description=__doc__)
    add = parser.add_argument
    add("part", choices=("first", "search", "plants", "report"))
    add("folder", type=Path, help="keeps results; the same folder goes on where it stopped")
    add("--dest", type=Path, default=Path("/opt/sgl"), help="where kit/install.sh has unpacked the kit")
    add("--resume", type=Path, help="archive of an earlier call, if it is there")
    add("--archive", type=Path, help="where to write the archive")
    add("--seconds", type=float, default=SECONDS)
    add("--gpus", type=int, default=0, help="GPUs to use (default: those that are there, at most 2)")
    add("--shape", choices=[s.name for s in SHAPES], help="plants: this shape, whatever the search has found")
    add("--blocks", type=int, default=steps.BLOCKS)
    add("--dry-run", action="store_true", help="print the plan and start nothing")
    add("--write", action="store_true", help="report: keep the board under tests/benchmarks/results/")
    given = parser.parse_args(arguments)
    lab = Lab(given.folder, given.seconds)
    if given.resume and given.resume.exists():
        lab.unpack(given.resume)
    place = steps.Place(given.dest, lab, given.gpus or (2 if given.dry_run else min(2, _gpus())))
    if given.part == "report":
        _report(place, given)
        return 0
    made = _steps(place, given)
    if made is None:
        print("no quiet load is known yet: run `search` first, or name a --shape", file=sys.stderr)
        return 2
    if given.dry_run:
        print("\n".join(lab.plan(made())))
        return 0
    left = _run(lab, made)
    if given.archive:
        print(f"archive: {lab.pack(given.archive):,} bytes")
    print(f"{len(left)} steps are left" if left else "all steps are done")
    return 0


def _run(lab: Lab, made: Callable[[], list[Step]]) -> list[Step]:
    """Do the steps; a search makes its plan anew, as it ends with the first quiet load."""
    left = lab.run(made())
    while not left and (more := [step for step in made() if not lab.is_done(step)]):
        left = lab.run(more)
    return left


def _steps(place: steps.Place, given: argparse.Namespace) -> Callable[[], list[Step]] | None:
    if given.part == "first":
        return lambda: steps.first(place)
    if given.part == "search":
        return lambda: steps.search(place)
    named = next((s for s in SHAPES if s.name == given.shape), None)
    shape = named or steps.quiet_shape(place.lab.results)
    return (lambda: steps.plants(place, shape, given.blocks)) if shape else None


def _gpus() -> int:
    """How many GPUs there are."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    return len(listed.stdout.splitlines())


def _report(place: steps.Place, given: argparse.Namespace) -> None:
    """Judge and print; also what the search found."""
    for name, span in steps.spans(place.lab.results).items():
        print(f"{name}: {steps.FRESH} fresh servers {span:.1%} apart")
    shape = next((s for s in SHAPES if s.name == given.shape), None) or steps.quiet_shape(place.lab.results)
    rows = []
    if shape:
        board = Board(place.lab.folder, place.bench(shape), place.port)
        for plant in plants_of(H200):
            baseline, planted = pairs(board, plant, steps.PARCEL)
            if len(planted) >= 2:
                rows.append(judged(plant, baseline, planted, plant.simulated, DRAWS))
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    made = report.Board(H200, {
        "machine": f"{place.gpus} H200" if rows else report.NOT_RUN,
        "engine": f"SGLang 0.5.16, EAGLE-3, {shape.name if shape else 'no load chosen'}",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit.stdout.strip(),
        "design": f"randomised blocks in parcels of {steps.PARCEL} plants and their own usual state; {STATE}",
        "acceptance": "simulated at 2.5, but for the plants that say by merit",
    }, rows)  # fmt: skip
    print("\n".join(report.lines(made)))
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps(report.as_json(made), indent=1, sort_keys=True)
        write_atomically(RESULTS / f"planted-{H200}.json", f"{text}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
