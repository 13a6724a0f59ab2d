"""A lab: steps with a time each, done once and in order, within a deadline; results in one file, and one archive.

A machine is held for minutes and is bare the next time, so that everything that a later call needs lies in the archive:
results, runs and the store's key. A step that does not fit into the time that is left is not begun.
"""

from __future__ import annotations

import json
import tarfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envsnap.jsonfile import write_atomically
from envsnap.reading import Json

LIMIT_BYTES = 15 << 20
"""An archive may have 16 MB."""
TRIES = 2
"""A step that failed so often is left alone."""


@dataclass(frozen=True)
class Step:
    """One piece of work. `seconds` is what it takes at most, as far as is known."""

    id: str
    seconds: float
    work: Callable[[], Json]


@dataclass
class Lab:
    """`folder` keeps everything. `clock` is a clock in seconds."""

    folder: Path
    seconds: float
    clock: Callable[[], float] = time.monotonic
    results: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take up what is there already."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.began = self.clock()
        if self._file.exists():
            self.results = json.loads(self._file.read_text())

    @property
    def _file(self) -> Path:
        return self.folder / "results.json"

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (self.clock() - self.began)

    def is_done(self, step: Step) -> bool:
        """Whether it has a result, or has failed too often."""
        kept = self.results.get(step.id) or {}
        return bool(kept) and (kept["status"] == "ok" or kept["tries"] >= TRIES)

    def run(self, steps: Sequence[Step], say: Callable[[str], None] = print) -> list[Step]:
        """Do the steps that are not done, as far as the time goes; what is left over."""
        todo = [step for step in steps if not self.is_done(step)]
        while todo:
            step = todo[0]
            if step.seconds > self.left:
                say(f"{step.id} needs {step.seconds:.0f} s and {self.left:.0f} s are left: for the next call")
                return todo
            began = self.clock()
            tries = self.results.get(step.id, {}).get("tries", 0) + 1
            try:
                found: dict[str, Json] = {"status": "ok", "result": step.work()}
            except Exception as error:  # one step must not take the others with it
                found = {
                    "status": "failed",
                    "reason": f"{type(error).__name__}: {error}",
                    "trace": traceback.format_exc(),
                }
            took = round(self.clock() - began, 1)
            self.results[step.id] = {**found, "tries": tries, "seconds": took}
            write_atomically(self._file, json.dumps(self.results, indent=1).encode())
            say(f"{step.id}: {found['status']} in {took:.0f} s {found.get('reason', '')}".rstrip())
            todo = [s for s in todo[1:] if not self.is_done(s)] + ([] if self.is_done(step) else [step])
        return []

    def plan(self, steps: Sequence[Step]) -> list[str]:
        """What a call would do, a line a step."""
        left, found = self.seconds, []
        for step in steps:
            if self.is_done(step):
                state = self.results[step.id]["status"]
            elif step.seconds <= left:
                state, left = "now", left - step.seconds
            else:
                state, left = "later", 0.0
            found.append(f"{state:6} {step.seconds:4.0f} s  {step.id}")
        return found

    # -- the archive ----------------------------------------------------------------------------------------

    def pack(self, target: Path) -> int:
        """Write the archive; its size in bytes. Raises: ValueError where it would be too large even without samples."""
        every = sorted(p for p in self.folder.rglob("*") if p.is_file() and _wanted(p.relative_to(self.folder)))
        for chosen in (every, [p for p in every if ".samples." not in p.name and p.suffix not in (".log", ".out")]):
            with tarfile.open(target, "w:gz") as archive:
                for path in chosen:
                    archive.add(path, path.relative_to(self.folder))
            if (size := target.stat().st_size) <= LIMIT_BYTES:
                return size
        raise ValueError(f"the archive has {size} bytes, and may have {LIMIT_BYTES}")

    def unpack(self, source: Path) -> None:
        """Take up what an earlier machine did."""
        with tarfile.open(source) as archive:
            archive.extractall(self.folder, filter="data")
        self.results = json.loads(self._file.read_text())


def _wanted(path: Path) -> bool:
    """Results, snapshots and the store; not the checkout, models, caches, records and the index, which is made anew."""
    first = path.parts[0]
    if first == ".envsnap":
        return path.name != "index.sqlite" and "records" not in path.parts
    return (len(path.parts) == 1 and path.suffix in (".json", ".txt")) or first == "logs"
