"""A file shown while it grows: what the benchmark writes for a reader is seen by its user too."""

from __future__ import annotations

import sys
import threading
from pathlib import Path


class Follower:
    """Copies what a file grows by to standard output, or `aside` to standard error, until told to stop."""

    def __init__(self, path: Path, aside: bool = False) -> None:
        self._path = path
        self._aside = aside
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="follower")

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def stop(self) -> None:
        """Copy what is left, and end."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        stream = (sys.stderr if self._aside else sys.stdout).buffer
        with open(self._path, "rb") as file:
            while True:
                last = self._stop.is_set()
                while chunk := file.read(1 << 16):
                    try:
                        stream.write(chunk)
                        stream.flush()
                    except (OSError, ValueError):  # the reader went away, which ends the copy and not the benchmark
                        return
                if last:
                    return
                self._stop.wait(0.05)
