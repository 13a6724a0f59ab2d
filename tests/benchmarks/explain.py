"""Cost of an explanation as a whole process: 6,000 readings a side, 300 changes, 200 runs of history.

    python tests/benchmarks/explain.py [REPEATS]

Prints the median, and what a part of it costs in process.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from envsnap.collectors import section_of
from envsnap.reading import Json
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.run import Run
from envsnap.snapshot import Section, Snapshot
from envsnap.store import Store

READINGS, CHANGES, RUNS = 6000, 300, 200
TARGET_SECONDS = 1.5


def state() -> dict[str, Json]:
    """About 6,000 readings of the kinds that a server on eight GPUs has."""
    values: dict[str, Json] = {"server[0].argument[tp_size]": 8, "nvml.driver_version": "590.48.01"}
    values |= {f"server[0].argument[option_{i}]": i for i in range(300)}
    values |= {f"worker[scheduler_TP{r}].env[VAR_{i}]": str(i) for r in range(8) for i in range(150)}
    values |= {f"worker[scheduler_TP{r}].env[NCCL_VAR_{i}]": str(i) for r in range(8) for i in range(10)}
    values |= {f"gpu[{g}].{n}": 1 for g in range(8) for n in ("power_limit_watts", "ecc_mode", "pcie_width_lanes")}
    values |= {f"during.gpu[{g}].sm_clock_median_mhz": 1980.0 for g in range(8)}
    packages = (READINGS - len(values)) // 2
    values |= {f"package[p{i}].version": f"{i}.0" for i in range(packages)}
    values |= {f"package[p{i}].record_sha256": f"{i:064}" for i in range(packages)}
    return values


def changed(values: dict[str, Json], count: int, seed: int) -> dict[str, Json]:
    """The same with some readings changed, an NCCL variable of every rank among them."""
    chosen = random.Random(seed).sample(sorted(p for p in values if "NCCL" not in p and "during" not in p), count - 8)
    new = values | {path: 7 if isinstance(values[path], int) else f"{values[path]}.1" for path in chosen}
    return new | {f"worker[scheduler_TP{r}].env[NCCL_VAR_0]": "other" for r in range(8)}


def run(values: dict[str, Json], group: str, index: int, label: str, speed: float, day: int) -> Run:
    """A run in a state."""
    sections: dict[str, dict[str, Json]] = {}
    for path, value in values.items():
        sections.setdefault(section_of(path), {})[path] = value
    sampled = Section("ok", False, 0.0, "made up", values=sections.pop("during"))
    started = f"2026-{1 + day // 28:02}-{1 + day % 28:02}T00:00:{index:02}+00:00"
    snapshot = Snapshot(
        started, {n: Section("ok", True, 0.0, "made up", values=v) for n, v in sections.items()}, "0", "before"
    )
    return Run(
        id=f"{group}-{index}", group=group, started_at=started, seconds=1.0, status="ok", command=("bench",),
        exit_code=0, snapshots={"before": snapshot}, label=label, index=index, sampled=sampled,
        metrics=(Metric("stream_tokens_per_second", speed, "tok/s", Better.HIGHER, "made up"),),
    )  # fmt: skip


def fill(folder: Path) -> None:
    """A store of 200 runs in 100 sessions of 30 states."""
    store, noise, base = Store(folder), random.Random(1), state()
    states = [base, *(changed(base, 100, seed) for seed in range(29))]
    for day in range(RUNS // 2):
        for index in range(2):
            speed = (60 if day % 30 else 94) * noise.uniform(0.98, 1.02)
            store.save(run(states[day % 30], f"g{day}", index, "", speed, day))
    slow = changed(base, CHANGES, 99)
    for index in range(3):
        store.save(run(base, "fast", index, "fast", 94.0 + index, 200))
        store.save(run(slow, "slow", index, "slow", 60.0 + index, 210))


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Median wall time."""
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return median(found)


def main() -> None:
    """Fill a store, measure, print."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begin = time.perf_counter()
        fill(folder)
        print(f"store filled in {time.perf_counter() - begin:.1f} s")
        index = folder / ".envsnap" / "index.sqlite"
        print(f"index {index.stat().st_size / 1e6:.1f} MB")

        def explain(*options: str) -> None:
            command = [sys.executable, "-m", "envsnap", "explain", "fast", "slow", "--store", name, *options]
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)

        print(f"whole process, {RUNS} runs of history   {seconds(explain, repeats):6.3f} s   "
              f"(target {TARGET_SECONDS} s)")  # fmt: skip
        print(f"whole process, no history          {seconds(lambda: explain('--no-history'), repeats):6.3f} s")
        print(f"as JSON                            {seconds(lambda: explain('--format', 'json'), repeats):6.3f} s")
        print(f"states of all runs, in process     {seconds(lambda: Store(folder).states(), repeats):6.3f} s")


if __name__ == "__main__":
    main()
