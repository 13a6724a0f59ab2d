"""What the verbs cost as whole processes, against what they should: wall and CPU time, peak memory.

Run: python tests/benchmarks/run.py [--runs N] [--json] [capture|diff|help|shell …]

Each figure is the median over N runs of a process of its own, Python's start included. `capture` alternates with
`pyperf collect_metadata` where that is installed, so that both meet the same machine. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from envsnap.collectors import keys
from envsnap.diff import diff
from envsnap.keys import Kind, Type, path_of
from envsnap.reading import Json
from envsnap.snapshot import Section, Snapshot, load, write

READINGS = 6000


@dataclass(frozen=True)
class Cost:
    """One run of a process."""

    wall_seconds: float
    cpu_seconds: float
    peak_rss_mb: float


@dataclass(frozen=True)
class Figure:
    """A median and what it should stay under."""

    name: str
    value: float
    unit: str
    target: float | None = None


def cost(command: Sequence[str], env: dict[str, str]) -> Cost:
    """Run a command; its usage counts that of the children it waited for."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    wall = time.perf_counter() - started
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def alternate(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, Cost]:
    """Medians of commands that take turns, after one run each that warms caches."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    found: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            once = cost(command, env)
            if number:
                found[name].append(once)
    return {
        name: Cost(*(statistics.median(column) for column in zip(*(asdict(c).values() for c in costs))))
        for name, costs in found.items()
    }


def bench_capture(folder: Path, runs: int) -> list[Figure]:
    """A whole capture of this machine."""
    commands = {"envsnap": [*ENVSNAP, "capture", "-q", "-o", str(folder / "a.json")]}
    if importlib.util.find_spec("pyperf"):
        commands["pyperf"] = [sys.executable, "-m", "pyperf", "collect_metadata"]
    found = alternate(commands, runs)
    own = found["envsnap"]
    figures = [
        Figure("capture, wall", own.wall_seconds, "s", 0.40),
        Figure("capture, CPU", own.cpu_seconds, "s", 0.35),
        Figure("capture, peak memory", own.peak_rss_mb, "MB", 80),
    ]
    if "pyperf" in found:
        other = found["pyperf"].wall_seconds
        figures += [
            Figure("pyperf collect_metadata, wall", other, "s"),
            Figure("capture beyond pyperf, wall", own.wall_seconds - other, "s", 0.15),
        ]
    sections = load(folder / "a.json").sections
    slowest = sorted(sections.items(), key=lambda item: -item[1].seconds)[:5]
    return figures + [Figure(f"  section {name}, in the last run", s.seconds, "s") for name, s in slowest]


def bench_diff(folder: Path, runs: int) -> list[Figure]:
    """Two snapshots of 6,000 readings that differ in a hundred of them."""
    a, b = _made_up(0), _made_up(100)
    write(a, folder / "a.json")
    write(b, folder / "b.json")
    inside = []
    for _ in range(max(3, runs)):
        started = time.perf_counter()
        diff(a, b)
        inside.append(time.perf_counter() - started)
    command = [*ENVSNAP, "diff", str(folder / "a.json"), str(folder / "b.json")]
    whole = alternate({"diff": command}, runs)["diff"]
    return [
        Figure(f"diff of {len(a.values):,} readings, inside", statistics.median(inside), "s", 0.020),
        Figure("diff, wall", whole.wall_seconds, "s", 0.30),
        Figure("diff, CPU", whole.cpu_seconds, "s"),
        Figure("diff, peak memory", whole.peak_rss_mb, "MB"),
    ]


def bench_help(folder: Path, runs: int) -> list[Figure]:
    """What a user waits for before anything happens."""
    whole = alternate({"help": [*ENVSNAP, "--help"], "python": [sys.executable, "-c", "pass"]}, runs)
    return [
        Figure("--help, wall", whole["help"].wall_seconds, "s", 0.12),
        Figure("python -c pass, wall", whole["python"].wall_seconds, "s"),
    ]


COMPLETE = "import os; os.dup2(1, 8); from envsnap.cli import main; main([])"
"""What a shell runs when Tab is pressed, but for where the answer goes."""


def bench_shell(folder: Path, runs: int) -> list[Figure]:
    """What a user waits for after Tab, and for the doctor."""
    lines = {"an option": "envsnap prove --me", "a verb": "envsnap pro", "a label": "envsnap log --label ",
             "a key": "envsnap key gpu[].pow"}  # fmt: skip
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_SHELL": "bash"}
    commands = {
        name: ["env", *(f"{k}={v}" for k, v in asked.items()), f"COMP_LINE={line}", f"COMP_POINT={len(line)}",
               sys.executable, "-c", COMPLETE]
        for name, line in lines.items()
    }  # fmt: skip
    found = alternate({**commands, "doctor": [*ENVSNAP, "doctor"]}, runs)
    targets = {"a key": 0.5, "doctor": 1.0}
    return [
        Figure(name if name == "doctor" else f"completion of {name}", costs.wall_seconds, "s", targets.get(name, 0.2))
        for name, costs in found.items()
    ]


def _made_up(changed: int) -> Snapshot:
    """Readings of all declared keys, over as many instances as it takes, the first `changed` of them different."""
    from envsnap.collectors import section_of

    values: dict[str, dict[str, Json]] = {}
    comparable = [k for k in keys().values() if k.kind in (Kind.IDENTITY, Kind.TUNABLE) and k.type is Type.STRING]
    several = [key for key in comparable if "[]" in key.pattern]
    count = 0
    while count < READINGS:
        key = several[count % len(several)]
        path = path_of(key.pattern, *[str(count // len(several))] * key.pattern.count("[]"))
        values.setdefault(section_of(path), {})[path] = f"value {count}{' changed' if count < changed else ''}"
        count += 1
    sections = {name: Section("ok", True, 0.01, "made up", values=held) for name, held in values.items()}
    return Snapshot("2026-01-01T00:00:00.000+00:00", sections, "0")


ENVSNAP = [sys.executable, "-m", "envsnap"]

BENCHMARKS: dict[str, Callable[[Path, int], list[Figure]]] = {
    "capture": bench_capture,
    "diff": bench_diff,
    "help": bench_help,
    "shell": bench_shell,
}


def main() -> None:
    """Run what was asked for and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=[*BENCHMARKS, []], default=[])
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = [f for what in args.what or BENCHMARKS for f in BENCHMARKS[what](Path(name), args.runs)]
    if args.json:
        print(json.dumps({"runs": args.runs, "figures": [asdict(figure) for figure in figures]}, indent=1))
        return
    for f in figures:
        target = f"  target {f.target:g} {f.unit}" if f.target is not None else ""
        print(f"{f.name:<42} {f.value:8.3f} {f.unit:<3}{target}")


if __name__ == "__main__":
    main()
