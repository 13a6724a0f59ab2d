"""How long other people's dumps take to be read. python -m tests.benchmarks.importers

Targets: 1 s for a pasted report, and time that grows with the length of a log alone.
"""

from __future__ import annotations

import time

from envsnap.importers._assembly import Imported, imported
from envsnap.importers._text import text_of
from envsnap.redact import Redactor
from tests.importers.samples import FAST, SAMPLES, SLOW

LOG_BYTES = 30_000_000


def timed(text: str) -> tuple[Imported, float]:
    """What a text gives, and the processor time in seconds that it took."""
    began = time.process_time()
    found = imported([text_of(text.encode(), "dump")], Redactor())
    return found, time.process_time() - began


def main() -> None:
    """Print a line for each sample and for the long texts."""
    timed(FAST)  # imports are no part of it
    long_log = SAMPLES["sglang_log"] * (LOG_BYTES // len(SAMPLES["sglang_log"]))
    texts = {**SAMPLES, "report, fast": FAST, "report, slow": SLOW, "log of 30 MB": long_log}
    for name, text in texts.items():
        found, seconds = timed(text)
        readings = sum(len(section.values) for section in found.snapshot.sections.values())
        missed = f"{found.not_understood:,} of {found.lines:,} lines not understood"
        print(f"{name:<20} {len(text):>12,} bytes  {seconds * 1000:>8,.0f} ms  {readings:>5} readings  {missed}")


if __name__ == "__main__":
    main()
