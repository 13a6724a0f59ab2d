"""Which lines ran: what the workers of one side recorded of the code that they imported and ran.

The record is one reading, `record.code_reach`, of all workers together. It proves that a line ran; that one did not run
it proves only where every computing worker was watched, while it served, for most of what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from envsnap.explain.ranks import computing
from envsnap.explain.story import Facts
from envsnap.keys import instances_of, path_of
from envsnap.reading import Json
from envsnap.runs.run import Run
from envsnap.snapshot import Snapshot

REACH = "record.code_reach"

MIN_SECONDS = 10.0
"""A window of serving has to be as long, where nothing tells when something was measured in it."""
MIN_COVERED = 0.8
"""How much of a measurement a window has to cover."""


@dataclass(frozen=True)
class Lines:
    """Lines of a file that ran. `whole`: nothing of the file can have run at start-up without being seen."""

    start_up: frozenset[int]
    serving: frozenset[int]
    whole: bool

    @cached_property
    def seen(self) -> frozenset[int]:
        """Those that ran at all."""
        return self.start_up | self.serving


class Ran:
    """What one side's workers imported and ran. `why` says why nothing can be concluded from not seeing a line."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._files: dict[str, dict[str, Json]] = {}
        self._newer: set[str] = set()
        reasons = ["no worker recorded itself (ENVSNAP_RECORD)"]
        told = list(_told(facts))
        if told:
            reasons = [_why_not(reach, snapshot, run) for reach, snapshot, run in told]
        for reach, snapshot, _ in told:
            for file, held in _object(reach.get("files")).items():
                self._add(file, _object(held))
            newer = (v for p, v in snapshot.values.items() if p.startswith("record[") and p.endswith("].source_newer"))
            self._newer.update(str(file) for files in newer if isinstance(files, list) for file in files)
        self.why = "" if "" in reasons else reasons[0]
        self._started_whole = any(_started_whole(reach) for reach, _, _ in told)

    def _add(self, file: str, held: Mapping[str, Json]) -> None:
        known = self._files.setdefault(file, {"start_up": set(), "serving": set()})
        known["blob"] = held.get("blob", known.get("blob", ""))
        for window in ("start_up", "serving"):
            known[window] |= set(_numbers(held.get(window)))

    def imported(self, root: str, path: str) -> bool | None:
        """Whether a worker imported a file of a tree; None where that is not known."""
        if f"{root}/{path}" in self._files:
            return True
        known = any(file.startswith(f"{root}/") for file in self._files) or self.elsewhere(root)
        return False if known and self._all_came else None

    def elsewhere(self, root: str) -> str:
        """Where the workers imported their packages from, if that is known and is not this tree; else empty."""
        origins = {str(v) for v in self.facts.values("record[].package_origin[]").values()}
        chosen = {**self.facts.values("worker[*].env[ENVSNAP_RECORD_CODE]"),
                  **self.facts.values("record[*].env[ENVSNAP_RECORD_CODE]")}  # fmt: skip
        if not origins or chosen or any(f"{origin}/".startswith(f"{root}/") for origin in origins):
            return ""
        return sorted(origins, key=len)[0]

    @cached_property
    def _all_came(self) -> bool:
        states = {instances_of(path)[0]: state for path, state in self.facts.values("record[].state").items()}
        return bool(states) and all(states[role] in ("arrived", "stale") for role in computing(states))

    def blob(self, root: str, path: str) -> str:
        """Git's name of the content that was imported; empty where not known, or where the file changed later."""
        file = f"{root}/{path}"
        return "" if file in self._newer else str(self._files.get(file, {}).get("blob", ""))

    @property
    def blobs(self) -> dict[str, str]:
        """Of every recorded file."""
        return {file: str(held["blob"]) for file, held in self._files.items() if held["blob"]}

    def lines(self, root: str, path: str) -> Lines | None:
        """The lines of a file that ran; None where the file is not among what was recorded."""
        held = self._files.get(f"{root}/{path}")
        if held is None:
            return None
        return Lines(frozenset(held["start_up"]), frozenset(held["serving"]), self._started_whole)


Told = tuple[dict[str, Json], Snapshot, "Run | None"]


def _told(facts: Facts) -> Iterator[Told]:
    for snapshot, run in holding(facts, REACH):
        yield snapshot.values[REACH], snapshot, run


def holding(facts: Facts, path: str) -> Iterator[tuple[Snapshot, Run | None]]:
    """Of each run the latest snapshot with an object there: a record made before the benchmark says nothing of it."""
    for run in facts.side.runs:
        for moment in ("after", "during", "before"):
            snapshot = run.snapshots.get(moment)
            if snapshot is not None and isinstance(snapshot.values.get(path), dict):
                yield snapshot, run
                break
    if not facts.side.runs and isinstance(facts.get(path), dict):
        yield facts.snapshot, None


def _why_not(reach: Mapping[str, Json], snapshot: Snapshot, run: Run | None) -> str:
    """Why a record does not prove that a line did not run; empty where it does."""
    workers = {role: _object(w) for role, w in _object(reach.get("workers")).items()}
    if not workers:
        return "no worker recorded itself (ENVSNAP_RECORD)"
    for role in computing(workers):
        worker = workers[role]
        window = _object(_object(worker.get("windows")).get("serving"))
        if worker.get("reason"):
            return f"what ran in {role} was not watched: {worker['reason']}"
        if not window or window.get("complete") is not True:
            return f"{role} was not watched while it served"
        if too_short := _too_short(_span(role, window, snapshot), run):
            return f"{role} was watched {too_short}"
    if not any(_object(held).get("serving") for held in _object(reach.get("files")).values()):
        return "nothing ran while the workers were watched: they served no request by then"
    return ""


def _span(role: str, window: Mapping[str, Json], snapshot: Snapshot) -> tuple[float, float]:
    """A window's begin and end. A record that finds nothing new is only touched, which its age tells."""
    begin, end = _number(window.get("from")), _number(window.get("to"))
    age = snapshot.values.get(path_of("record[].age_seconds", role))
    if isinstance(age, (int, float)):
        end = max(end, _epoch(snapshot.captured_at) - age)
    return begin, end


def _too_short(span: tuple[float, float], run: Run | None) -> str:
    begin, end = span
    if run is not None and run.window is not None:
        started = _epoch(run.started_at)
        first, last = started + run.window[0], started + run.window[1]
        covered = (min(end, last) - max(begin, first)) / (last - first) if last > first else 0.0
        return "" if covered >= MIN_COVERED else f"for {max(0.0, covered):.0%} of the measurement alone"
    return "" if end - begin >= MIN_SECONDS else f"for {max(0.0, end - begin):.0f} s of serving alone"


def _started_whole(reach: Mapping[str, Json]) -> bool:
    workers = {role: _object(w) for role, w in _object(reach.get("workers")).items()}
    windows = [_object(_object(workers[role].get("windows")).get("start_up")) for role in computing(workers)]
    return bool(windows) and all(window.get("complete") is True for window in windows)


def _numbers(ranges: Json) -> Iterator[int]:
    for pair in ranges if isinstance(ranges, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair):
            yield from range(pair[0], min(pair[1], pair[0] + 100_000) + 1)


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _number(value: Json) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def _epoch(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
