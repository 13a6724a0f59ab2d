"""What `envsnap run` costs a benchmark: interleaved pairs with and without it, and what it adds before and after.

Run: python tests/benchmarks/run_overhead.py [PAIRS] [-- BENCHMARK…]

A benchmark prints the seconds it took by its own clock as `seconds: X`; the default is two busy processes.
Targets: not distinguishable from none in 20 pairs, half-width of the interval under 1 %; start and end under 1.0 s.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from envsnap.runs.verdict import Design, judge

BENCHMARK = """
import multiprocessing, time
def work(n):
    total = 0
    for i in range(n): total += i * i
    return total
if __name__ == "__main__":
    began = time.perf_counter()
    with multiprocessing.Pool(1) as pool:
        for _ in range(8): pool.map(work, [4_000_000])
    print("seconds:", time.perf_counter() - began)
"""


def once(command: list[str], folder: Path, watched: bool) -> tuple[float, float]:
    """Seconds by the benchmark's own clock, and of the whole."""
    prefix = [sys.executable, "-m", "envsnap", "run", "--store", str(folder), "--"] if watched else []
    began = time.perf_counter()
    done = subprocess.run([*prefix, *command], capture_output=True, text=True, check=True)
    whole = time.perf_counter() - began
    match = re.search(r"seconds: (\S+)", done.stdout)
    assert match, done.stdout + done.stderr
    return float(match[1]), whole


def main() -> None:
    """Print the interval and the fixed cost."""
    arguments = sys.argv[1:]
    command = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    pairs = int(arguments[0]) if arguments and arguments[0] != "--" else 20
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "benchmark.py"
        script.write_text(BENCHMARK)
        command = command or [sys.executable, str(script)]
        once(command, folder, False)
        plain: list[float] = []
        watched: list[float] = []
        added: list[float] = []
        for _ in range(pairs):
            for kind in random.sample((False, True), 2):
                own, whole = once(command, folder, kind)
                (watched if kind else plain).append(own)
                if kind:
                    added.append(whole - own)
                else:
                    startup = whole - own
        verdict = judge(plain, watched, Design.INTERLEAVED)
        assert verdict.low is not None
        assert verdict.high is not None
        print(f"{pairs} pairs, benchmark of {statistics.median(plain):.2f} s")
        print(f"with / without envsnap run: {verdict.ratio:.4f}, 95 % {verdict.low:.4f} to {verdict.high:.4f} "
              f"(half-width {(verdict.high - verdict.low) / 2:.2%}, target under 1 %)")  # fmt: skip
        print(f"before and after the benchmark: {statistics.median(added) - startup:.2f} s (target under 1.0 s)")
        last = sorted((folder / ".envsnap" / "runs").glob("*.json.gz"))
        print(f"runs kept: {len([p for p in last if '.samples.' not in p.name])}")
        listed = subprocess.run([sys.executable, "-m", "envsnap", "log", "--format", "json", "--store", name],
                                capture_output=True, text=True, check=True)  # fmt: skip
        print(f"statuses: {sorted({r['status'] for r in json.loads(listed.stdout)['runs']})}")


if __name__ == "__main__":
    main()
