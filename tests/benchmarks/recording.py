"""What the record from within costs the process that it is in. Prints a table; run it alone on a quiet machine.

python tests/benchmarks/recording.py [PYTHON ...]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

INERT = """
import os, sys, time, typing  # as every engine has
begin = time.perf_counter()
from envsnap.integrations import engines
engines.sglang()
print((time.perf_counter() - begin) * 1e3)
"""

# Calls, branches, attributes and a comprehension: what a scheduler's Python does between two steps of the GPU.
BUSY = """
import sys, time

class Batch:
    def __init__(self):
        self.items = list(range(32))

    def step(self, turn):
        total = 0
        for item in self.items:
            if (item + turn) % 3:
                total += self.weigh(item)
            else:
                total -= 1
        return total + sum(x for x in self.items if x > 5)

    def weigh(self, item):
        return item * 2

def spin(seconds):
    # By the processor time of all threads: other processes on the machine count less, the recorder counts in full.
    batch, turns, begin = Batch(), 0, time.process_time()
    while time.process_time() - begin < seconds:
        batch.step(turns)
        turns += 1
    return turns / (time.process_time() - begin)

time.sleep(2)
spin(0.5)
print(spin(float(sys.argv[1])))
"""


def run(python: str, code: str, *arguments: str, **env: str) -> float:
    """The number that a program prints."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "program.py").write_text(code)
        base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": folder}
        done = subprocess.run(
            [python, f"{folder}/program.py", *arguments],
            env={**base, **env},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)


def main() -> None:
    for python in sys.argv[1:] or [sys.executable]:
        version = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        inert = [run(python, INERT) for _ in range(9)]
        print(f"{version}: plug-in without the variable {statistics.median(inert):.2f} ms")
        ratios = []
        with tempfile.TemporaryDirectory() as records:
            asked = {"ENVSNAP_RECORD": records, "PYTHONPATH": f"{ROOT / 'envsnap' / 'integrations' / 'site'}:{ROOT}",
                     "ENVSNAP_RECORD_SETTLE_SECONDS": "1"}  # fmt: skip
            for turn in range(10):  # in alternating order, since machines drift
                arms = [{}, asked] if turn % 2 else [asked, {}]
                speeds = {bool(arm): run(python, BUSY, "4", **arm) for arm in arms}
                ratios.append(speeds[True] / speeds[False])
        low, *_, high = sorted(ratios)
        print(f"{version}: busy loop while recorded {(statistics.median(ratios) - 1) * 100:+.2f} % "
              f"(single pairs {(low - 1) * 100:+.2f} to {(high - 1) * 100:+.2f} %)")  # fmt: skip


if __name__ == "__main__":
    main()
