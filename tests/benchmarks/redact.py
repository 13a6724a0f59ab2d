"""What redaction costs: 10,000 short values and a patch of 1 MB, and the worst texts that are known.

    python tests/benchmarks/redact.py

Prints figures; decides nothing. The patch is made of Python's own library, which is code as patches are.
"""

from __future__ import annotations

import sys
import sysconfig
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from envsnap.redact import Redactor

PATCH_BYTES = 1_000_000
WORST = ("ssh_key=/a", "password=self.", "key=", "token=", "://", "-eyJaaaaaaaa.", "password=,a=")


def values() -> list[tuple[str, str]]:
    """Paths and values as a capture has them: versions, hashes, paths, words, short sentences."""
    kinds: list[Callable[[int], str]] = [
        lambda i: f"{i % 20}.{i % 7}.{i % 13}",
        lambda i: f"{i * 2654435761 % 2**256:064x}",
        lambda i: f"/usr/lib/python3/dist-packages/package{i}/module.py",
        lambda i: "enabled",
        lambda i: f"Some text of {i} words: x={i}",
    ]
    return [(f"section.item[name{i}].field_{i % 7}", kinds[i % len(kinds)](i)) for i in range(10_000)]


def patch() -> str:
    """Added lines of Python."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = "".join(path.read_text("utf-8", "replace") for path in files)
    return "".join(f"+{line}\n" for line in text.splitlines())[:PATCH_BYTES]


def timed(name: str, work: Callable[[], object]) -> None:
    """Print the best of five, in milliseconds of CPU."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    print(f"{name:40} {best * 1000:8.1f} ms")


def main() -> None:
    """Print all figures."""
    redactor, short, long = Redactor(), values(), patch()
    timed("10,000 short values", lambda: [redactor.clean_value(path, value) for path, value in short])
    timed(f"patch of {len(long)} bytes", lambda: redactor.clean_text(long))
    for piece in WORST:
        timed(f"100 kB of {piece!r}", partial(redactor.clean_text, piece * (100_000 // len(piece))))


if __name__ == "__main__":
    main()
