"""What reading live environments costs, and what it does to the processes that are read.

    python tests/benchmarks/live_env.py

Prints figures; decides nothing. Ten workers with 120 variables each; then one busy worker that counts what it
gets done and notes its longest pause, alone and beside a reader that never rests.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from envsnap.capture import capture
from envsnap.host import LiveHost
from envsnap.scope import Scope
from envsnap.workers import live_env
from tests.workers.running import python_program, reported, running

# Steps for each second of CPU time leave out what other processes take; a pause counts from 1 ms.
BUSY = """
import sys, time
clock = time.perf_counter_ns
end, cpu = clock() + int(float(sys.argv[1]) * 1e9), time.process_time()
steps, pauses, last = 0, [], clock()
while last < end:
    now = clock()
    if now - last > 1_000_000:
        pauses.append(now - last)
    last, steps = now, steps + 1
print(steps / (time.process_time() - cpu), len(pauses), max(pauses, default=0))
"""


def cost() -> None:
    """Elapsed and CPU time of reading ten workers, in ms."""
    with running(python_program(sys.executable, "spawn:10", "many")) as process:
        pids = [int(report["pid"]) for report in reported(process, 10)]
        for name, one in (("same host", LiveHost()), ("new host", None)):
            elapsed, cpu = [], []
            for _ in range(30):
                host = one or LiveHost()
                start, used = time.perf_counter(), time.process_time()
                found = live_env.read_all(host, pids)
                elapsed.append(1e3 * (time.perf_counter() - start))
                cpu.append(1e3 * (time.process_time() - used))
            counts = {len(e.variables) for e in found.values() if isinstance(e, live_env.Environment)}
            print(f"10 workers, {counts} variables, {name}: first {elapsed[0]:.1f} ms, "
                  f"then median {statistics.median(elapsed[1:]):.1f} ms, worst {max(elapsed[1:]):.1f} ms, "
                  f"CPU {statistics.median(cpu[1:]):.1f} ms")  # fmt: skip
        for _ in range(3):
            snapshot = capture(Scope(pids=(process.pid,)), only=["worker"])
            section = snapshot.sections["worker"]
            print(f"section worker: {len(section.values)} readings, {1e3 * section.seconds:.1f} ms, "
                  f"CPU {1e3 * snapshot.cost['cpu_seconds']:.1f} ms")  # fmt: skip


def disturbance(seconds: float = 3.0, rounds: int = 5) -> None:
    """A busy process alone, beside a reader of another process, and while it is read itself, in turn.

    The second is the control: the reader takes CPU time and memory bandwidth whomever it reads.
    """
    print("busy process: million steps per CPU second, pauses over 1 ms, the longest")
    for _ in range(rounds):
        for arm in ("alone", "another is read", "read itself"):
            speed, pauses, longest, readings = _busy(seconds, arm)
            rate = readings / seconds
            print(f"   {arm:16} {speed / 1e6:6.3f}  {pauses:3.0f}  {longest / 1e6:6.2f} ms   {rate:5.0f} readings/s")


def _busy(seconds: float, arm: str) -> tuple[float, float, float, int]:
    idle = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with subprocess.Popen([sys.executable, "-c", BUSY, str(seconds)], stdout=subprocess.PIPE, text=True) as busy:
        time.sleep(0.3)
        target = busy.pid if arm == "read itself" else idle.pid
        readings = 0
        while busy.poll() is None:
            if arm == "alone":
                time.sleep(0.01)
            else:
                readings += isinstance(live_env.read_all(LiveHost(), [target])[target], live_env.Environment)
        assert busy.stdout
        speed, pauses, longest = map(float, busy.stdout.read().split())
    idle.kill()
    idle.wait()
    return speed, pauses, longest, readings


if __name__ == "__main__":
    cost()
    disturbance()
