"""Runs on a machine with H200 GPUs: `python3 -m tests.engine.h200 PART FOLDER --dest KIT`; see --help and README.md."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from envsnap.jsonfile import write_atomically
from envsnap.runs.run import Run
from tests.benchmarks.planted import report
from tests.benchmarks.planted.judge import DRAWS, judged
from tests.benchmarks.planted.trials import ROOT, Board, pairs
from tests.engine.h200 import blocks, looking, proving, steps
from tests.engine.h200.bench import NO_MULTICAST, H200Bench
from tests.engine.h200.lab import Lab
from tests.engine.h200.place import CARD_BYTES, Place, free_bytes
from tests.engine.h200.shapes import LOADS
from tests.engine.plants import H200, plants_of

SECONDS = 570.0
"""A command may take ten minutes; what it writes has to be packed in that time too."""
CALLS = 3
"""Calls that a plan is printed for."""
RESULTS = ROOT / "tests" / "benchmarks" / "results"
DESIGN = (
    "randomised blocks, each with the usual state once and every plant once; the servers of a block are started side "
    "by side, a fresh one for each but what the client alone does, which is measured on the usual state's; measured "
    "one after the other while the others stood idle beside it (asleep, on the same card, their memory taken)"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do as much of a part as fits, and pack what is known."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.engine.h200", description=__doc__)
    add = parser.add_argument
    add("part", choices=("all", "first", "plants", "prove", "report"))
    add("folder", type=Path, help="keeps results; the same folder goes on where it stopped")
    add("--dest", type=Path, default=Path("/opt/sgl"), help="where kit/install.sh has unpacked the kit")
    add("--resume", type=Path, help="archive of an earlier call, if it is there and the folder is empty")
    add("--archive", type=Path, help="where to write the archive")
    add("--seconds", type=float, default=SECONDS)
    add("--gpus", type=int, default=0, help="GPUs to use (default: those that are there, at most 2)")
    add("--load", choices=[offered.name for offered in LOADS], help="for the plants, whatever the first look has found")
    add("--blocks", type=int, default=steps.BLOCKS)
    add("--only", nargs="+", default=[], metavar="PLANT", help="in blocks only these, by their worth")
    add("--dry-run", action="store_true", help="print the plan of the calls to come, and start nothing")
    add("--write", action="store_true", help="report: keep the board under tests/benchmarks/results/")
    given = parser.parse_args(arguments)
    os.environ.update(NO_MULTICAST)
    lab = Lab(given.folder.absolute(), given.seconds, archive=given.archive and given.archive.absolute())
    if given.resume and given.resume.exists():
        lab.unpack(given.resume)
    place = _place(lab, given)
    if given.part == "report":
        _report(place, given.write)
        return 0
    plan = steps.plan_of(given.part, place, given.blocks)
    if given.dry_run:
        print("\n".join(lab.rehearse(plan, CALLS)))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers are ended, and what is known is packed
    try:
        left = lab.run(plan)
        print(f"{len(left)} steps are left" if left else "all steps are done", flush=True)
    finally:
        if lab.archive:
            print(f"archive: {lab.pack(lab.archive):,} bytes", flush=True)
    return 0


def _place(lab: Lab, given: argparse.Namespace) -> Place:
    load = next((offered for offered in LOADS if offered.name == given.load), None)
    if not (given.dry_run or given.part == "report"):
        gpus = given.gpus or min(2, len(free_bytes()))
        return Place(given.dest.absolute(), lab, gpus, load=load, only=tuple(given.only))
    gpus, free = given.gpus or 2, [float(CARD_BYTES)]
    return Place(given.dest.absolute(), lab, gpus, free=lambda: free * gpus, load=load, only=tuple(given.only))


def _report(place: Place, write: bool) -> None:
    """Judge and print, with what the first look and the search have found."""
    load = blocks.load_of(place)
    board = Board(place.lab.folder, H200Bench(place.dest, place.lab.folder / "models", load))
    rows = []
    for plant in plants_of(H200):
        baseline, planted = pairs(board, plant)
        if len(planted) >= 2:
            rows.append(judged(plant, baseline, planted, plant.simulated, DRAWS))
    proof = proving.Proof(place)
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    runs = [*(board.store.load(run) for run in board.done.values()), *proof.sides().values()]
    made = report.Board(H200, {
        "machine": _machine(runs),
        "engine": f"SGLang 0.5.16, EAGLE-3, {load.name if rows else 'no load chosen'}",
        "date": max((run.snapshot.captured_at[:10] for run in runs), default=report.NOT_RUN),
        "commit": commit.stdout.strip(),
        "design": DESIGN,
        "acceptance": "simulated at 2.5, but for the plants that say by merit",
        "fresh servers apart": {name: round(span, 4) for name, span in looking.spans(place).items()},
        **looking.costs(place),
        "missing in a block": blocks.missed(place),
    }, rows, proving.search_of(place))  # fmt: skip
    if (path := RESULTS / f"planted-{H200}.json").exists():
        made = report.joined(made, json.loads(path.read_text()))
    print("\n".join(report.lines(made)))
    if write:
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps(report.as_json(made), indent=1, sort_keys=True)
        write_atomically(path, f"{text}\n".encode())
        if (told := proof.report).exists():
            (RESULTS / f"prove-{H200}.md").write_text(told.read_text().replace(f"{ROOT}/", ""))


def _machine(runs: Sequence[Run]) -> str:
    """What the runs have recorded of it: the first one, since they are of one kind."""
    if not runs:
        return report.NOT_RUN
    values = runs[0].snapshot.values
    keys = ("nvml.gpu_count", "gpu[0].name", "nvml.driver_version", "cpu.model", "cpu.threads_count")
    return ", ".join(str(values.get(key)) for key in keys)


if __name__ == "__main__":
    sys.exit(main())
