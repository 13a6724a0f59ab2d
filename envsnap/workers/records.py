"""The records that workers write of themselves (`envsnap.integrations`): whose are expected, and which have come."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from envsnap.host import Host
from envsnap.reading import Found, Json, Missing, Unavailable, Value, Why
from envsnap.scope import Scope
from envsnap.workers import census, roles
from envsnap.workers.census import Census
from envsnap.workers.live_env import Environment
from envsnap.workers.maps import Maps
from envsnap.workers.record_file import Record, contents, parsed
from envsnap.workers.tree import TICKS_PER_SECOND, Group, Process

VARIABLE = "ENVSNAP_RECORD"
MAX_ENDED = 64
YOUNG_SECONDS = 20.0
"""A process may be as old as this and have no record yet."""

_NAME = re.compile(r"[\w.]{1,64}-(\d{1,10})-(\d{1,20})\.json\Z")
_HELPER = re.compile(r"(?:.*/)?(?:resource_tracker|forkserver|shell|compile_worker)[\d.]*\Z")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\w?\Z")


@dataclass(frozen=True)
class _Expected:
    """A process that should have written a record, and where."""

    process: Process
    role: str
    directory: str
    seen_from_outside: bool


def read(host: Host, scope: Scope) -> list[Record]:
    """The records of the workers of a scope, in order of their start; those of ended ones where none runs any more.

    Raises: Missing (off) where nobody was asked for records.
    """
    try:
        taken = census.take(host, scope)
    except Missing:
        if not scope.records:
            raise
        return _ended(host, scope.records)
    expected = _expected(taken, scope, host.environ().get(VARIABLE, ""))
    if not expected:
        raise Missing(Why.OFF, f"no process of interest was started with {VARIABLE}=DIR")
    return _running(host, expected)


def _expected(taken: Census, scope: Scope, own: str) -> list[_Expected]:
    directories: dict[int, str | None] = {process.pid: _directory(taken, process) for process in taken.processes}
    parents = {process.pid: process.parent for process in taken.processes}
    found = []
    for process in taken.processes:
        # Where it cannot be known of a retitled process, it holds as for the one that started it, or for us: one
        # script may have started both.
        known = (directories[pid] for pid in _upwards(process.pid, parents))
        directory = next((place for place in known if place is not None), own) or scope.records
        role = taken.roles[process.pid]
        if directory and not process.zombie and not _HELPER.match(role) and _is_python(process, taken.mapped):
            live = isinstance(taken.live[process.pid], Environment)
            found.append(_Expected(process, role, directory, live))
    return found


def _upwards(pid: int, parents: Mapping[int, int]) -> list[int]:
    """A process and those above it, as far as they are known; a circle, which only a false record can make, ends."""
    found = [pid]
    while (pid := parents[pid]) in parents and pid not in found:
        found.append(pid)
    return found


def _directory(taken: Census, process: Process) -> str | None:
    """What a process's environment says; empty where it says nothing, None where it is not known."""
    live, at_exec = taken.live[process.pid], taken.at_exec[process.pid]
    if isinstance(live, Environment):
        known: Mapping[str, str] = live.variables
    elif not isinstance(at_exec, Unavailable):
        known = at_exec
    else:
        return None
    return "" if known.get("ENVSNAP_DISABLE") == "1" else known.get(VARIABLE, "")


def _is_python(process: Process, mapped: Mapping[int, Maps | Unavailable]) -> bool:
    maps = mapped.get(process.pid)
    if isinstance(maps, Maps):
        names = (posixpath.basename(maps.executable), *(m.name.partition(".so")[0] for m in maps.files))
        return any(_PYTHON.match(name.removeprefix("lib")) for name in names)
    return process.retitled or bool(_PYTHON.match(process.program))


# -- of running processes -----------------------------------------------------------------------------------------


def _running(host: Host, expected: Sequence[_Expected]) -> list[Record]:
    requests: list[list[Json]] = [["link", "/proc/self/ns/mnt"], ["read", "/proc/uptime"]]
    for one in expected:
        proc = f"/proc/{one.process.pid}"
        requests += [["link", f"{proc}/ns/mnt"], ["link", f"{proc}/cwd"], ["read", f"{proc}/status"]]
    own, uptime, *answers = host.found(requests)
    roots = [_root(one, own, answers[3 * n]) for n, one in enumerate(expected)]
    places = [root + _place(one, answers[3 * n + 1]) for n, (one, root) in enumerate(zip(expected, roots))]
    statuses = [_status(answer) for answer in answers[2::3]]
    listed = dict(zip(dict.fromkeys(places), host.found([["list", place] for place in dict.fromkeys(places)])))
    files = [_file(one.process, status, listed[p]) for one, status, p in zip(expected, statuses, places)]
    paths = [f"{place}/{name}" for place, name in zip(places, files) if name]
    answers_by_path = dict(zip(paths, contents(host, paths)))
    made = [
        _record(host, one, status, uptime, _why_not(place, listed[place]), answers_by_path.get(f"{place}/{name}"))
        for one, status, place, name in zip(expected, statuses, places, files)
    ]
    return [replace(record, root=root) for record, root in zip(made, roots)]


def _root(one: _Expected, own: Found, namespace: Found) -> str:
    """What stands before the process's file names for us: a container's are found below its own root."""
    elsewhere = isinstance(namespace, Value) and isinstance(own, Value) and namespace != own
    return f"/proc/{one.process.pid}/root" if elsewhere else ""


def _place(one: _Expected, cwd: Found) -> str:
    """The process's directory of records, as it names it."""
    directory = one.directory
    if not directory.startswith("/"):
        directory = posixpath.join(str(cwd.value) if isinstance(cwd, Value) else "/", directory)
    return posixpath.normpath(directory)


def _status(answer: Found) -> dict[str, list[str]]:
    text = str(answer.value) if isinstance(answer, Value) else ""
    return {name: rest.split() for name, rest in re.findall(r"^(NSpid|Uid):(.*)$", text, re.M)}


def _file(process: Process, status: Mapping[str, list[str]], listing: Found) -> str:
    """The file that is this process's by number and start; a container counts its processes by itself."""
    numbers = {str(process.pid), *status.get("NSpid", ())[-1:]}
    for name in listing.value if isinstance(listing, Value) else ():
        match = _NAME.match(name)
        if match and match[1] in numbers and match[2] == str(process.start_ticks):
            return str(name)
    return ""


def _why_not(place: str, listing: Found) -> str:
    if isinstance(listing, Value):
        return (
            f"{place} holds none of it: its engine loads no plug-in there, or envsnap is not installed in its Python "
            "(the directory that `python -m envsnap.integrations` prints, first on PYTHONPATH, serves any)"
        )
    if isinstance(listing, Unavailable) and listing.why is Why.ABSENT:
        return f"{place} does not exist: no process has written a record there"
    return f"{place} cannot be read ({listing})"


def _record(
    host: Host,
    one: _Expected,
    status: Mapping[str, list[str]],
    uptime: Found,
    why_not: str,
    answer: Found | None,
) -> Record:
    if answer is None:
        age = _age(uptime, one.process)
        state = "pending" if age is not None and age < YOUNG_SECONDS else "missing"
        reason = f"the process is {age:.0f} s old; it may still come" if state == "pending" else why_not
        return Record(one.role, state, reason, seen_from_outside=one.seen_from_outside)
    record = parsed(one.role, answer, {int(uid) for uid in status.get("Uid", ())[1:2]}, one.seen_from_outside)
    if record.state != "arrived" or not isinstance(answer, Value):
        return record
    now = float(host.self()["time"])
    age = max(0.0, now - answer.value["mtime_ns"] / 1e9)
    interval = record.content.get("interval_seconds")
    allowed = 10 + 3 * (interval if isinstance(interval, (int, float)) and 0 < interval < 3600 else 5)
    stale = f"it was last renewed {age:.0f} s ago" if age > allowed else ""
    state = "stale" if stale else "arrived"
    return replace(record, state=state, reason=stale, renewed_at=answer.value["mtime_ns"] / 1e9, age_seconds=age)


def _age(uptime: Found, process: Process) -> float | None:
    try:
        now = float(str(uptime.value).split()[0]) if isinstance(uptime, Value) else None
    except (ValueError, IndexError):
        now = None
    return None if now is None else now - process.start_ticks / TICKS_PER_SECOND


# -- of ended processes -------------------------------------------------------------------------------------------


def _ended(host: Host, directory: str) -> list[Record]:
    """The records of the tree of processes that was recorded last, for a command that has come to its end."""
    names = [name for name in host.listdir(directory) if _NAME.match(name)]
    paths = [f"{directory}/{name}" for name in names]
    stats = dict(zip([directory, *paths], host.found([["stat", path, False] for path in (directory, *paths)])))
    times = {p: s.value["mtime_ns"] for p, s in stats.items() if p != directory and isinstance(s, Value)}
    newest = sorted(times, key=lambda path: -times[path])[:MAX_ENDED]
    owner = stats[directory]
    uids = {owner.value["uid"]} if isinstance(owner, Value) else set()
    records = [parsed("", answer, uids, False) for answer in contents(host, newest)]
    processes = {p.pid: (p, r) for r in records if (p := _process(r.part("process"))) is not None}
    if not processes:
        raise Missing(Why.ABSENT, f"{directory} holds no record that can be used")
    parents = {pid: process.parent for pid, (process, _) in processes.items()}
    root = _upwards(next(iter(processes)), parents)[-1]
    members = [process for pid, (process, _) in processes.items() if _upwards(pid, parents)[-1] == root]
    members.sort(key=lambda process: (process.pid != root, process.start_ticks, process.pid))
    named = roles.assign([Group(tuple(members), (), named=True)], {})
    return [replace(processes[process.pid][1], role=named[process.pid]) for process in members]


def _process(found: Mapping[str, Json]) -> Process | None:
    """The process as it described itself."""
    pid, parent, start = found.get("pid"), found.get("ppid"), found.get("start_ticks")
    title, argv = found.get("title"), found.get("argv")
    if not (isinstance(pid, int) and isinstance(parent, int) and isinstance(start, int) and isinstance(argv, list)):
        return None
    # NOTE: a title is padded with NULs, which is how a retitled process is known.
    command = f"{title}\0\0" if title else "".join(f"{word}\0" for word in argv)
    return Process(pid=pid, parent=parent, name="", state="X", command=command, start_ticks=start)
