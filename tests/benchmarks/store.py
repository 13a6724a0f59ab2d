"""How long `envsnap log` takes to list many runs, as a whole process; and what making the index anew costs.

Run: python tests/benchmarks/store.py [RUNS]

Target: 10,000 runs list in under 0.3 s where the index is there.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from envsnap import run_index
from envsnap.capture import capture
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.run import Run, packed
from envsnap.store import Store

METRICS = tuple(Metric(f"metric_{i}", 94.0 + i, "tok/s", Better.HIGHER, "test") for i in range(12))


def fill(store: Store, count: int) -> list[Run]:
    """Write `count` runs in groups of five. The state is this machine's, the same for each."""
    runs: list[Run] = []
    store.prepare()
    snapshot = replace(capture(only=["kernel", "cpu", "environ"]), moment="before")
    begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
    first: bytes = b""
    for number in range(count):
        started = (begin + timedelta(minutes=number)).isoformat(timespec="milliseconds")
        run = Run(
            id=f"{number // 5:012x}-{number % 5:03d}", group=f"{number // 5:012x}", label=f"label{number // 500}",
            index=number % 5, started_at=started, seconds=60.0, status="ok", exit_code=0, metrics=METRICS,
            command=("python", "-m", "sglang.bench_serving", "--num-prompts", "200", "--output-file", "out.jsonl"),
            snapshots={"before": snapshot},
        )  # fmt: skip
        first = first or packed(run.as_json())
        document = run.as_json() if number % 100 == 0 else None
        # NOTE: most files are copies of one, which costs less; only their names matter where the index is there.
        (store.runs / f"{run.id}.json.gz").write_bytes(packed(document) if document else first)
        (store.runs / f"{run.id}.samples.json.gz").write_bytes(b"")
        (store.runs / run.id).mkdir()
        runs.append(run)
    return runs


def main() -> None:
    """Print the times."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as name:
        store = Store(Path(name))
        runs = fill(store, count)
        began = time.perf_counter()
        with run_index.opened(store.folder / "index.sqlite") as index:
            for run in runs:
                run_index.note(index, run)
        print(f"index of {count:,} runs written in {time.perf_counter() - began:.1f} s, "
              f"{(store.folder / 'index.sqlite').stat().st_size / 1e6:.1f} MB")  # fmt: skip
        for arguments in (["log"], ["log", "--label", "label1"], ["log", "--format", "json"]):
            command = [sys.executable, "-m", "envsnap", *arguments, "--store", name]
            times = []
            for _ in range(7):
                began = time.perf_counter()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                times.append(time.perf_counter() - began)
            print(f"envsnap {' '.join(arguments):22} median {statistics.median(times):.3f} s, best {min(times):.3f} s")


if __name__ == "__main__":
    main()
