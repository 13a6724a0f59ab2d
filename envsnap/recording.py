"""Recorded machines: a folder with everything that a capture asked a machine, and what it answered.

    machine.json   format, version, when and by which envsnap it was recorded, the scope, and what stands for
                   whatever was never asked: "not_recorded" ("absent" makes it a machine that has nothing else)
    calls.jsonl    one call a line, sorted: [request, answer] as in `machine`
    snapshot.json  what a capture of this folder yields (a golden file), without what depends on the moment

A folder can go into a bug report and serve as a test: it replays on any machine to the same snapshot. Secrets are
replaced by hashes whose key was thrown away; user names, home directories, host names, network, mail and hardware
addresses, UUIDs and serial numbers by stand-ins of the same form, the same one by the same stand-in in requests and
answers, so that replay still finds its way. In memory and other binary answers, what replaces has the length of what
was replaced, so that no offset moves.

Look over before you publish a folder (`calls.jsonl` is text): command lines and titles of processes, patch text, names
of branches, remotes, repositories and models, paths outside home directories, log lines, and the values of environment
variables. None of it is known to be private, all of it may be.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from envsnap import __version__
from envsnap.call_cleaning import Call, cleaned
from envsnap.capture import DEADLINE_SECONDS, capture
from envsnap.host import Host, LiveHost, RecordedHost, RecordingHost, call_id, timeless
from envsnap.jsonfile import SnapshotError, write_atomically
from envsnap.reading import Unavailable, Why
from envsnap.redact import Redactor
from envsnap.scope import Scope
from envsnap.share import learn
from envsnap.snapshot import Snapshot, dumps
from envsnap.standins import StandIns

FORMAT = "envsnap.machine"
VERSION = 1
MACHINE, CALLS, GOLDEN = "machine.json", "calls.jsonl", "snapshot.json"
MAX_BYTES = 256 << 20


@dataclass(frozen=True)
class Recorded:
    """What `record` wrote."""

    calls: int
    secrets: int
    """How many were replaced."""
    late: int
    """How many more are recognised only on replay: 0, or else the folder must not be published."""
    lost: list[str]
    """Paths that were read live, but not on replay."""


def record(
    folder: Path,
    scope: Scope | None = None,
    host: Host | None = None,
    *,
    deadline: float = DEADLINE_SECONDS,
    redactor: Redactor | None = None,
) -> Recorded:
    """Capture a machine (default: this one) and write its folder.

    `redactor` should have no store: the key of its hashes is to be forgotten.
    Raises: FileExistsError where the folder holds something other than a recorded machine; OSError.
    """
    _refuse_foreign(folder)
    scope = replace(scope or Scope(), cache=False)
    host = host or LiveHost()
    recorder = RecordingHost(host)
    redactor, known = redactor or Redactor(), StandIns(keep_length=True)
    live = capture(scope, recorder, deadline=deadline, redactor=redactor)
    learn(known, live)
    calls, scope = cleaned(list(recorder.calls.values()), scope, redactor, known)
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "envsnap": __version__,
        "recorded_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "default": Why.NOT_RECORDED.value,
        "scope": scope.as_json(),
    }
    golden = _replayed(meta, calls)
    late = int(golden.redaction["redacted"])
    files = {
        CALLS: "\n".join(sorted(json.dumps([timeless(request), answer]) for request, answer in calls)) + "\n",
        GOLDEN: dumps(golden),
        MACHINE: json.dumps(meta, indent=1) + "\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_atomically(folder / name, text.encode("ascii"))
    return Recorded(len(calls), int(redactor.summary()["redacted"]), late, _lost(live, golden, known))


def load(folder: str | Path) -> RecordedHost:
    """The machine in a folder. Raises: SnapshotError, in one sentence."""
    meta, calls = _read(Path(folder))
    return RecordedHost({call_id(request): answer for request, answer in calls}, Why(meta["default"]))


def replay(folder: str | Path, deadline: float = 60.0) -> Snapshot:
    """A capture of the machine in a folder, without what depends on the moment. Raises: SnapshotError."""
    return _replayed(*_read(Path(folder)), deadline=deadline)


def _replayed(meta: dict[str, Any], calls: list[Call], deadline: float = 60.0) -> Snapshot:
    host = RecordedHost({call_id(request): answer for request, answer in calls}, Why(meta["default"]))
    snapshot = capture(Scope.from_json(meta["scope"]), host, deadline=deadline)
    return replace(
        snapshot,
        captured_at=meta["recorded_at"],
        envsnap=meta["envsnap"],
        cost={},
        sections={name: replace(section, seconds=0.0) for name, section in snapshot.sections.items()},
    )


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        try:
            _meta(folder)
        except SnapshotError as error:
            raise FileExistsError(17, "is not empty, and no recorded machine", str(folder)) from error


def _lost(live: Snapshot, golden: Snapshot, known: StandIns) -> list[str]:
    """Paths that have a value live and none on replay: a collector that went round the host."""
    return sorted(
        path
        for path in live.values
        if isinstance(found := golden.reading(known.text(path)), Unavailable) and found.why is Why.NOT_RECORDED
    )


# -- reading a folder -----------------------------------------------------------------------------------------


def _read(folder: Path) -> tuple[dict[str, Any], list[Call]]:
    meta = _meta(folder)
    calls: list[Call] = []
    for number, line in enumerate(_text(folder / CALLS).splitlines(), 1):
        try:
            request, answer = json.loads(line)
            if not isinstance(request, list) or not isinstance(answer, list) or not answer:
                raise ValueError("not a call")
        except (ValueError, RecursionError) as error:
            raise SnapshotError(f"{folder / CALLS} has no call in line {number}.") from error
        calls.append((request, answer))
    return meta, calls


def _meta(folder: Path) -> dict[str, Any]:
    try:
        meta = json.loads(_text(folder / MACHINE))
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{folder / MACHINE} is not JSON.") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise SnapshotError(f"{folder} holds no recorded machine; `envsnap record DIR` makes one.")
    if meta.get("version") != VERSION:
        raise SnapshotError(
            f"{folder} has version {meta.get('version')!r}, this envsnap reads {VERSION}; update envsnap."
        )
    try:
        Why(meta["default"])
        datetime.fromisoformat(meta["recorded_at"])
        Scope.from_json(meta["scope"])
        if not isinstance(meta["envsnap"], str):
            raise TypeError("envsnap")
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f"{folder / MACHINE} is malformed: {error}.") from error
    return meta


def _text(path: Path) -> str:
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SnapshotError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise SnapshotError(f"{path} is no text of a recorded machine.") from error
    if len(text) > MAX_BYTES:
        raise SnapshotError(f"{path} is larger than {MAX_BYTES >> 20} MB.")
    return text
