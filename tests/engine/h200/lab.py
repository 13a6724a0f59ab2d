"""A lab: steps with a time each, the worthiest that fits first, within a deadline; results in a file, and an archive.

A machine is held for minutes and is bare the next time, so that everything that a later call needs lies in the archive:
results, runs and the stores' keys. A step that does not fit into the time that is left is not begun. What servers take
to be ready is learnt from those that were started.
"""

from __future__ import annotations

import json
import tarfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envsnap.jsonfile import write_atomically
from envsnap.reading import Json
from envsnap.store import FOLDER

LIMIT_BYTES = 15 << 20
"""Of a volume of the archive, of 16 MiB that a file may have."""
VOLUMES = 6
"""Of eight files that may come back."""
TRIES = 2
"""A step that failed so often is left alone."""
PACKED_SECONDS = 60.0
"""A call that is killed loses at most what is younger."""
REHEARSED = "rehearsed"
"""In place of a result where a plan is only printed."""


@dataclass(frozen=True)
class Step:
    """One piece of work. `seconds` is what it takes, as far as is known, without its `parts`.

    Parts are results that it leaves one by one, each under its own name, with the seconds of each.
    """

    id: str
    seconds: float
    work: Callable[[], Json]
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """What has to be left for it to be worth a beginning."""
        return self.seconds + next(iter(self.parts.values()), 0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The results that it leaves."""
        return tuple(self.parts) or (self.id,)


Plan = Callable[[], Sequence[Step]]
"""The steps by their worth, as far as can be told now: results change what comes next."""


@dataclass
class Lab:
    """`folder` keeps everything, `archive` is written time and again. `clock` is a clock in seconds."""

    folder: Path
    seconds: float
    clock: Callable[[], float] = time.monotonic
    archive: Path | None = None
    say: Callable[[str], None] = field(default_factory=lambda: _print)
    results: dict[str, Json] = field(default_factory=dict)
    learnt: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take up what is there already."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.began = self.packed = self.clock()
        self._load()

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (self.clock() - self.began)

    def learn(self, name: str, value: float) -> None:
        """Keep what was seen, for estimates."""
        self.learnt[name] = round(value, 3)
        self._write("learnt.json", self.learnt)

    def is_done(self, name: str) -> bool:
        """Whether there is a result, or it has failed too often."""
        kept = self.results.get(name) or {}
        return bool(kept) and (kept["status"] == "ok" or kept["tries"] >= TRIES)

    def found(self, name: str) -> Json:
        """A result; None where there is none."""
        kept = self.results.get(name) or {}
        return kept.get("result") if kept.get("status") == "ok" else None

    # -- work -----------------------------------------------------------------------------------------------

    def run(self, plan: Plan) -> list[Step]:
        """Do steps as far as the time goes; what is left over."""
        begun: Counter[str] = Counter()
        while steps := self._open(plan):
            fitting = [s for s in steps if s.least <= self.left and begun[s.id] < TRIES]
            if not fitting:
                self.say(f"{steps[0].id} needs {steps[0].least:.0f} s, {self.left:.0f} s are left: for the next call")
                return steps
            step = fitting[0]
            begun[step.id] += 1
            if not step.parts:
                self.attempt(step.id, step.work)
                continue
            try:
                step.work()
            except Exception as error:  # one step must not take the others with it
                self.say(f"{step.id}: failed: {type(error).__name__}: {error}")
                for name in step.parts:
                    self._keep(name, _failed(error), 0.0)
        return []

    def attempt(self, name: str, work: Callable[[], Json]) -> None:
        """Do what leaves a result of that name, and keep it, or why there is none."""
        began = self.clock()
        try:
            found: dict[str, Json] = {"status": "ok", "result": work()}
        except Exception as error:  # one step must not take the others with it
            found = _failed(error)
        self._keep(name, found, round(self.clock() - began, 1))

    def _keep(self, name: str, found: Mapping[str, Json], seconds: float) -> None:
        tries = self._tries(name) + 1
        self.results[name] = {**found, "tries": tries, "seconds": seconds}
        self._write("results.json", self.results)
        self.say(f"{name}: {found['status']} in {seconds:.0f} s {found.get('reason', '')}".rstrip())
        if self.archive and self.clock() - self.packed > PACKED_SECONDS:
            self.pack(self.archive)

    def _open(self, plan: Plan) -> list[Step]:
        """What is not done: first what was never tried, then what failed once."""
        steps = [step for step in plan() if not all(self.is_done(name) for name in step.names)]
        return sorted(steps, key=lambda s: min(self._tries(name) for name in s.names if not self.is_done(name)))

    def _tries(self, name: str) -> int:
        return int((self.results.get(name) or {}).get("tries", 0))

    # -- a plan, printed ------------------------------------------------------------------------------------

    def rehearse(self, plan: Plan, calls: int) -> Iterator[str]:
        """What so many calls would do, a line each, if everything takes as long as is reckoned. Nothing is written."""
        for call in range(1, calls + 1):
            left = self.seconds
            while step := next((s for s in self._open(plan) if s.least <= left), None):
                yield f"call {call}  {self.seconds - left:4.0f} s  {step.id:18} {step.seconds:4.0f} s{_more(step)}"
                left -= step.seconds
                for name in step.names:
                    if not any(name in s.names for s in self._open(plan)):
                        continue  # what was found before has made it unnecessary
                    if (seconds := step.parts.get(name, 0.0)) <= left:
                        left -= seconds
                        self.results[name] = {"status": "ok", "tries": 1, "seconds": seconds, "result": REHEARSED}
            yield f"call {call}  {self.seconds - left:4.0f} s  the end"
        for step in self._open(plan):
            yield f"later   {step.id} {', '.join(n for n in step.parts if not self.is_done(n))}".rstrip()

    # -- the archive ----------------------------------------------------------------------------------------

    def pack(self, target: Path) -> int:
        """Write the archive, in as many volumes as it needs; its size in bytes.

        Raises: ValueError where they would be too many even without samples and logs.
        """
        every = sorted(p for p in self.folder.rglob("*") if p.is_file() and _wanted(p.relative_to(self.folder)))
        lean = [p for p in every if ".samples." not in p.name and p.suffix not in (".log", ".out")]
        volumes = next((found for chosen in (every, lean) if len(found := _volumes(chosen)) <= VOLUMES), None)
        if volumes is None:
            raise ValueError(f"the archive needs {len(_volumes(lean))} volumes, and may have {VOLUMES}")
        size, part = 0, target.with_name(f".{target.name}.part")
        for number, paths in enumerate(volumes, 1):
            with tarfile.open(part, "w:gz", compresslevel=6) as archive:
                for path in paths:
                    archive.add(path, path.relative_to(self.folder))
            size += part.stat().st_size
            part.rename(_volume(target, number))
        while (older := _volume(target, number := number + 1)).exists():
            older.unlink()
        self.packed = self.clock()
        return size

    def unpack(self, source: Path) -> None:
        """Take up what an earlier call did, unless this folder holds it, and more, already."""
        if (self.folder / "results.json").exists():
            return
        number = 1
        while (path := _volume(source, number)).exists():
            with tarfile.open(path) as archive:
                archive.extractall(self.folder, filter="data")
            number += 1
        self._load()

    def _load(self) -> None:
        for name, kept in (("results.json", self.results), ("learnt.json", self.learnt)):
            if (path := self.folder / name).exists():
                kept.update(json.loads(path.read_text()))

    def _write(self, name: str, content: Mapping[str, Json]) -> None:
        write_atomically(self.folder / name, json.dumps(content, indent=1).encode())


def _print(text: str) -> None:
    print(text, flush=True)  # a call that is killed must have said how far it came


def _failed(error: Exception) -> dict[str, Json]:
    return {
        "status": "failed", "reason": f"{type(error).__name__}: {error}",
        "trace": "".join(traceback.format_exception(error)),
    }  # fmt: skip


def _more(step: Step) -> str:
    return "".join(f"\n{'':17}{name} {seconds:.0f} s" for name, seconds in step.parts.items())


def _volume(archive: Path, number: int) -> Path:
    """The file of a volume: lab.tar.gz, lab-2.tar.gz, …"""
    name, _, kind = archive.name.partition(".")
    return archive if number == 1 else archive.with_name(f"{name}-{number}.{kind}")


def _volumes(paths: Sequence[Path]) -> list[list[Path]]:
    """Files by volume, in their order: by their sizes, since most of them are compressed already."""
    found: list[list[Path]] = [[]]
    left = LIMIT_BYTES
    for path in paths:
        size = path.stat().st_size
        if size > left and found[-1]:
            found.append([])
            left = LIMIT_BYTES
        found[-1].append(path)
        left -= size
    return found


def _wanted(path: Path) -> bool:
    """Results, snapshots and stores; not the checkout, models, caches, records and indices, which are made anew."""
    if path.parts[0] == "sampler":
        return False
    if FOLDER in path.parts:
        return path.name not in ("index.sqlite", "lock") and not {"records", "code", "empty"} & {*path.parts}
    return path.parts[0] == "logs" or (len(path.parts) <= 2 and path.suffix in (".json", ".txt", ".md"))
