"""Capture: run every collector against a host, side by side, within a deadline.

Each collector has a thread of its own. One that hangs, raises or yields nonsense costs its own section alone:
whatever it had yielded is kept, and the section says what happened.
"""

from __future__ import annotations

import math
import resource
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Protocol

from envsnap import __version__, collectors
from envsnap.apart import DRIVER_SECTIONS, Apart
from envsnap.host import Host, LiveHost
from envsnap.keys import Key, Type, is_path, pattern_of
from envsnap.reading import Error, Found, Json, Missing, Unavailable, Value, describe
from envsnap.redact import Redactor
from envsnap.scope import Scope
from envsnap.snapshot import MAX_DEPTH, Section, Snapshot

DEADLINE_SECONDS = 10.0

Progress = Callable[[list[str], float], None]
"""Called with the sections still running and the seconds passed."""


class Cleaner(Protocol):
    """What a collector's readings pass through: a `Redactor`, or nothing where another process will clean them."""

    def clean_path(self, path: str) -> str:
        """A path without secrets in its instances."""

    def clean_value(self, path: str, value: Json) -> Json:
        """The value at a path without secrets."""

    def clean_text(self, text: str) -> str:
        """Free text without secrets."""


class _Uncleaned:
    """Passes everything on as it is."""

    def clean_path(self, path: str) -> str:
        return path

    def clean_value(self, path: str, value: Json) -> Json:
        return value

    def clean_text(self, text: str) -> str:
        return text


@dataclass
class _Work:
    """One collector at work: written by its thread, read by the main one when it is done or late."""

    name: str
    started: float = field(default_factory=time.monotonic)
    values: dict[str, Json] = field(default_factory=dict)
    unavailable: dict[str, Unavailable] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    status: str = "timeout"
    reason: str = ""
    complete: bool = False
    seconds: float = 0.0
    method: str = ""
    done: threading.Event = field(default_factory=threading.Event)

    def take(self, section: Section | None, redactor: Cleaner) -> None:
        """Be what another process made of it; None where that died or was late."""
        self.seconds = time.monotonic() - self.started
        if section is None:
            self.status, self.reason = "timeout", "the driver did not answer in time"
        else:
            self.status, self.complete, self.seconds = section.status, section.complete, section.seconds
            self.method, self.reason = section.method, redactor.clean_text(section.reason)
            for path, value in section.values.items():
                _keep(self, path, Value(value), redactor)
            for path, unavailable in section.unavailable.items():
                _keep(self, path, unavailable, redactor)
            for path, message in section.errors.items():
                _keep(self, path, Error(message), redactor)
        self.done.set()

    def section(self) -> Section:
        late = not self.done.is_set()
        seconds = time.monotonic() - self.started if late else self.seconds
        # NOTE: dict() copies atomically; a late thread may still be writing.
        return Section(
            status="timeout" if late else self.status,
            complete=self.complete and not late,
            seconds=seconds,
            method=self.method,
            reason=f"did not finish within {seconds:.1f} s" if late else self.reason,
            values=dict(self.values),
            unavailable=dict(self.unavailable),
            errors=dict(self.errors),
        )


def capture(
    scope: Scope | None = None,
    host: Host | None = None,
    *,
    deadline: float = DEADLINE_SECONDS,
    only: Iterable[str] = (),
    redactor: Redactor | None = None,
    progress: Progress | None = None,
    apart: bool = False,
) -> Snapshot:
    """Take a snapshot.

    `deadline` is in seconds; `only` names sections (default: all). `progress` is called about once a second
    with the names of the sections still running and the seconds passed. With `apart` the collectors that talk to a
    driver run in a forked process, which only a program with a single thread may ask for. Never raises for anything
    that the machine does: a section says what went wrong. Creates no CUDA context, takes no lock, writes nothing but
    envsnap's own cache (`scope.cache`) and, where a secret was found, the key of its hash.
    """
    scope = scope or Scope()
    host = host or LiveHost()
    redactor = redactor or Redactor()
    started = time.monotonic()
    cpu = _cpu_seconds()
    host.begin(started + deadline)
    wanted = tuple(only) or collectors.names()
    work = [_Work(name) for name in wanted]
    elsewhere = [item for item in work if apart and item.name in DRIVER_SECTIONS]
    if elsewhere:
        _start_apart(elsewhere, host, scope, redactor)
    _start([item for item in work if item not in elsewhere], host, scope, redactor)
    _wait(work, started, deadline, progress)
    sections = {item.name: _swept(item.section(), redactor) for item in work}
    return Snapshot(
        captured_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        sections=sections,
        envsnap=__version__,
        scope=redactor.clean(scope.as_json()),
        cost={
            "wall_seconds": round(time.monotonic() - started, 4),
            "cpu_seconds": round(_cpu_seconds() - cpu, 4),
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        },
        redaction=redactor.summary(),
        via=host.about(),
    )


def _cpu_seconds() -> float:
    """CPU time of this process and of the programs it has run (git)."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def _start(work: list[_Work], host: Host, scope: Scope, cleaner: Cleaner) -> None:
    for item in work:
        threading.Thread(target=_collect, args=(item, host, scope, cleaner), daemon=True, name=item.name).start()


def _start_apart(work: list[_Work], host: Host, scope: Scope, redactor: Redactor) -> None:
    """Make these sections in a forked process; a thread here waits for them."""

    def make(names: Sequence[str], until: float) -> list[Section]:
        host.deadline = until
        items = [_Work(name) for name in names]
        _start(items, host, scope, _Uncleaned())
        began = time.monotonic()
        _wait(items, began, until - began, None)
        return [item.section() for item in items]

    child = Apart([item.name for item in work], make, host.deadline)

    def receive() -> None:
        sections = child.sections()
        for number, item in enumerate(work):
            item.take(sections[number] if sections else None, redactor)

    threading.Thread(target=receive, daemon=True, name="apart").start()


def _swept(section: Section, redactor: Redactor) -> Section:
    """The section without secrets that another one gave away: in the environment by its name, in an argument bare."""
    path = redactor.sweep_path
    return replace(
        section,
        reason=redactor.sweep(section.reason),
        values={path(p): redactor.sweep(value) for p, value in section.values.items()},
        errors={path(p): redactor.sweep(message) for p, message in section.errors.items()},
        unavailable={path(p): replace(u, detail=redactor.sweep(u.detail)) for p, u in section.unavailable.items()},
    )


def _wait(work: list[_Work], started: float, deadline: float, progress: Progress | None) -> None:
    while running := [item for item in work if not item.done.is_set()]:
        passed = time.monotonic() - started
        if passed >= deadline:
            return
        if progress and passed >= 1.0:
            progress([item.name for item in running], passed)
        running[0].done.wait(min(1.0, deadline - passed))


def _collect(work: _Work, host: Host, scope: Scope, redactor: Cleaner) -> None:
    try:
        collector = collectors.collector(work.name)
        work.method = collector.METHOD
        declared = {key.pattern: key for key in collector.KEYS}
        for path, found in collector.collect(host, scope):
            if is_path(path):
                _keep(work, path, _checked(declared, path, found), redactor)
            else:  # kept under its section's name: a file that holds it would not load
                _keep(work, work.name, Error(f"not a path: {path!r}"), redactor)
        work.status, work.complete = "ok", True
    except collectors.Partial as partial:
        work.status, work.reason = "partial", redactor.clean_text(str(partial))
    except Missing as missing:
        work.status, work.reason = ("partial" if work.values else "unavailable"), redactor.clean_text(str(missing))
    except Exception as error:
        work.status, work.reason = "error", redactor.clean_text(describe(error))
    work.seconds = time.monotonic() - work.started
    work.done.set()


def _keep(work: _Work, path: str, found: Found, redactor: Cleaner) -> None:
    path = redactor.clean_path(path)
    if isinstance(found, Value):
        work.values[path] = redactor.clean_value(path, found.value)
    elif isinstance(found, Unavailable):
        work.unavailable[path] = Unavailable(found.why, redactor.clean_text(found.detail))
    else:
        work.errors[path] = redactor.clean_text(found.message)


def _checked(declared: dict[str, Key], path: str, found: Found) -> Found:
    """The reading, or an error where a collector broke its own declaration (garbage from the machine does that)."""
    key = declared.get(pattern_of(path))
    if key is None:
        # A whole branch may be unavailable: its path needs only to lie above declared ones.
        branch = pattern_of(path)
        if not isinstance(found, Value) and any(p.startswith((f"{branch}.", f"{branch}[")) for p in declared):
            return found
        return Error(f"no key is declared for {branch}")
    if isinstance(found, Value) and not has_type(found.value, key.type):
        return Error(f"expected {key.type.value}, found {type(found.value).__name__}")
    return found


def has_type(value: Json, kind: Type) -> bool:
    """Whether a value is of a key's declared type."""
    if kind in (Type.STRING, Type.TEXT):
        return isinstance(value, str)
    if kind is Type.BOOLEAN:
        return isinstance(value, bool)
    if kind is Type.INTEGER:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is Type.NUMBER:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if kind is Type.ANY:
        return value is not None and is_json(value)
    if kind is Type.STRINGS:
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    if kind is Type.INTEGERS:
        return isinstance(value, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in value)
    return isinstance(value, dict) and is_json(value)


def is_json(value: Json, depth: int = MAX_DEPTH) -> bool:
    """Whether a value can stand in a snapshot as it is: plain JSON types, finite numbers, not nested too deeply."""
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(k, str) and is_json(v, depth - 1) for k, v in value.items())
    if isinstance(value, list):
        return depth > 0 and all(is_json(v, depth - 1) for v in value)
    return value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
