"""What it takes to capture through a prefix. Prints figures against their targets; run it alone on a quiet machine.

python tests/benchmarks/remote.py [ROUNDS]

Targets: a local way adds under 0.5 s to a capture; what is sent is under 500 KB; with a simulated round trip of 50 ms a
capture takes under 4 s. All are whole commands, `envsnap capture` from its start to its end.
"""

from __future__ import annotations

import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import BinaryIO

ROUND_TRIP_SECONDS = 0.05
DELAY = "--delay"
HERE, LOCAL, FAR, MANY = "here", "--via 'bash -c'", "50 ms away", "50 ms away, four at once"


def relay(command: list[str], seconds: float) -> int:
    """Run a command whose standard input and output come `seconds` late, as over a long line."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin
    assert child.stdout
    ways = [
        threading.Thread(target=_late, args=(sys.stdin.buffer, child.stdin, seconds), daemon=True),
        threading.Thread(target=_late, args=(child.stdout, sys.stdout.buffer, seconds)),
    ]
    for way in ways:
        way.start()
    ways[1].join()
    return child.wait()


def _late(source: BinaryIO, sink: BinaryIO, seconds: float) -> None:
    """Hand on what comes, each piece `seconds` after it came."""
    under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def deliver() -> None:
        while True:
            due, data = under_way.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not data:
                sink.close()
                return
            sink.write(data)
            sink.flush()

    delivering = threading.Thread(target=deliver)
    delivering.start()
    while True:
        data = os.read(source.fileno(), 1 << 16)
        under_way.put((time.monotonic() + seconds, data))
        if not data:
            break
    delivering.join()


def capture(folder: Path, arguments: list[str]) -> float:
    """Seconds of a whole `envsnap capture`."""
    command = [sys.executable, "-m", "envsnap", "capture", "-q", "--no-cache", "-o", "x.json", *arguments]
    began = time.monotonic()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def main() -> None:
    if sys.argv[1:2] == [DELAY]:
        sys.exit(relay(sys.argv[3:], float(sys.argv[2])))
    rounds = int(sys.argv[1]) if sys.argv[1:] else 5
    late = f"{sys.executable} {Path(__file__).resolve()} {DELAY} {ROUND_TRIP_SECONDS / 2}"
    same = ["--python", sys.executable]
    ways = {
        HERE: same,
        LOCAL: ["--via", "bash -c", *same],
        FAR: ["--via", late, *same],
        MANY: ["--via", late] * 4 + same,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    sent = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(rounds):  # in turn, since machines drift
            for way, arguments in ways.items():
                seconds[way].append(capture(folder, arguments))
                via = json.loads((folder / "x.json").read_text()).get("via", {})
                sent = max(sent, via.get("sent_bytes", 0))
    middle = {way: statistics.median(values) for way, values in seconds.items()}
    for way, values in seconds.items():
        print(f"{way:24} {middle[way]:.2f} s  ({min(values):.2f} to {max(values):.2f}, n = {rounds})")
    print(f"a local way adds {middle[LOCAL] - middle[HERE]:.2f} s (target: under 0.5 s)")
    print(f"at a round trip of 50 ms a capture takes {middle[FAR]:.2f} s (target: under 4 s)")
    print(f"sent there: {sent / 1e3:.0f} kB (target: under 500 kB)")


if __name__ == "__main__":
    main()
