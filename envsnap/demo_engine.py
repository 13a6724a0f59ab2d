"""A pretend inference engine: two spawned ranks that decode in step and tell how fast.

The demo copies this file into a repository of its own and runs it. A step computes, then the ranks exchange what
they have; like NCCL, they do that in one message under the protocol LL, and in several rounds under Simple, which is
slower for messages as small as those of decoding. It ends when its standard input does.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection, wait

RANKS = 2
COMPUTE_SECONDS = 0.009
ROUND_SECONDS = 0.0014
ROUNDS = {"LL": 1, "Simple": 6}
WINDOW_SECONDS = 0.5


def step(peer: Connection) -> None:
    """Decode one token: compute, then meet the other rank as often as the protocol takes."""
    time.sleep(COMPUTE_SECONDS)
    for _ in range(ROUNDS.get(os.environ.get("NCCL_PROTO", "LL"), 1)):
        time.sleep(ROUND_SECONDS)
        peer.send_bytes(bytes(4096))
        peer.recv_bytes()


def rank(index: int, peer: Connection, report: Connection | None) -> None:
    """One rank: decodes until the other one is gone, and reports its speed if it is the first."""
    os.environ["RANK"] = str(index)
    try:
        while True:
            started, tokens = time.monotonic(), 0
            while time.monotonic() - started < WINDOW_SECONDS:
                step(peer)
                tokens += 1
            if report is not None:
                report.send(tokens / (time.monotonic() - started))
    except (EOFError, OSError, KeyboardInterrupt):
        pass


def main() -> None:
    """Launch the ranks, print what the first one reports, end with standard input."""
    spawn = multiprocessing.get_context("spawn")
    pair = spawn.Pipe()
    reader, report = spawn.Pipe(duplex=False)
    ranks = [
        spawn.Process(target=rank, args=(i, pair[i], report if i == 0 else None), daemon=True) for i in range(RANKS)
    ]
    for process in ranks:
        process.start()
    while wait([sys.stdin.fileno(), reader]) == [reader]:
        print(f"{reader.recv():.1f} tok/s", flush=True)
    for process in ranks:
        process.terminate()


if __name__ == "__main__":
    main()
