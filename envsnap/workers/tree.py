"""The processes of interest: who they are, whose children, and from which shell they were started."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from envsnap.host import Host
from envsnap.reading import Missing, Why
from envsnap.scope import Scope

TICKS_PER_SECOND = 100
"""The kernel's unit of time in /proc on every Linux platform that envsnap supports."""

_MAX_CHAIN = 8
SHELL = re.compile(r"-?(?:ba|z|da|fi|k|mk|tc|c|a)?sh\Z")
# Where a session, a service or a container begins: what is above has nothing to do with the program.
_SESSION = re.compile(
    r"(?:systemd|init|login|sshd.*|tmux.*|screen|containerd-shim.*|conmon|dockerd|containerd)\Z", re.I
)


@dataclass(frozen=True)
class Process:
    """One process by its stat and cmdline."""

    pid: int
    parent: int
    name: str
    """At most 15 characters; titles are cut to that."""
    state: str
    command: str
    """cmdline as it stands, with its NULs; empty for a zombie."""
    start_ticks: int
    """Since boot."""
    threads: int = 1
    nice: int = 0
    policy: int = 0
    realtime_priority: int = 0
    argument_bytes: int = 0
    """Size of the arguments at exec; 0 where this user may not know."""
    environment_bytes: int = 0
    """Size of the environment at exec; 0 where this user may not know."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments; for a retitled process its title, as one string."""
        return tuple(self.command.rstrip("\0").split("\0")) if self.command.strip("\0") else ()

    @property
    def retitled(self) -> bool:
        """Whether it has written a title over its arguments: padded with NULs, or running over their end."""
        return bool(self.command) and (
            not self.command.endswith("\0")
            or (len(self.argv) == 1 and self.command.endswith("\0\0"))
            or 0 < self.argument_bytes < len(self.command.encode("utf-8", "surrogateescape"))
        )

    @property
    def program(self) -> str:
        """The name of the program that it runs, without directories."""
        return posixpath.basename(self.argv[0]) if self.argv else self.name

    @property
    def zombie(self) -> bool:
        """Whether it has ended and only waits for its parent."""
        return self.state in ("Z", "X")


@dataclass(frozen=True)
class Group:
    """One tree of interest: `members` from its root down in order of start, and `chain` from the shell down to it."""

    members: tuple[Process, ...]
    chain: tuple[Process, ...]
    named: bool
    """Named by --pid, rather than found by a pattern."""

    @property
    def root(self) -> Process:
        """The topmost process."""
        return self.members[0]


def table(host: Host) -> dict[int, Process]:
    """Every process but kernel threads, by pid; read once a capture."""
    return host.memo("processes", lambda: {p.pid: p for p in _table(host)})


def below(processes: Iterable[Process], root: int) -> frozenset[int]:
    """The pids of a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    found, pending = {root}, [root]
    while pending:
        new = [pid for pid in children.get(pending.pop(), ()) if pid not in found]
        found.update(new)
        pending += new
    return frozenset(found)


def _table(host: Host) -> Iterable[Process]:
    for stat, command in host.one("processes"):
        try:
            process, kernel_thread = parse(stat, command)
        except (ValueError, IndexError):
            continue
        if not kernel_thread:
            yield process


def parse(stat: str, command: str = "") -> tuple[Process, bool]:
    """A process from the text of its stat, and whether it is a kernel thread. Raises: ValueError, IndexError."""
    pid, _, rest = stat.partition(" (")
    # NOTE: a name may hold blanks and brackets, so it ends at the last bracket.
    name, _, rest = rest.rpartition(") ")
    fields = rest.split()

    def number(field: int) -> int:  # as proc(5) counts them
        return int(fields[field - 3])

    spans = len(fields) > 48
    process = Process(
        pid=int(pid), parent=number(4), name=name, state=fields[0], command=command, start_ticks=number(22),
        threads=number(20), nice=number(19), policy=number(41), realtime_priority=number(40),
        argument_bytes=max(0, number(49) - number(48)) if spans else 0,
        environment_bytes=max(0, number(51) - number(50)) if spans else 0,
    )  # fmt: skip
    return process, bool(number(9) & 0x00200000)


def of_interest(host: Host, scope: Scope) -> tuple[Group, ...]:
    """The trees that the scope names, in order of start; envsnap itself is never among them.

    Raises: Missing (off) where the scope names no process, (absent) where none is found.
    """
    if not scope.pids and not scope.match:
        raise Missing(Why.OFF, "name processes with --pid or --match")
    processes = table(host)
    me = int(host.self()["pid"])
    groups = _groups(processes, scope, me)
    if not groups:
        raise Missing(Why.ABSENT, "no process matches " + " ".join([*map(str, scope.pids), *scope.match]))
    return groups


def _groups(processes: Mapping[int, Process], scope: Scope, me: int) -> tuple[Group, ...]:
    # The pattern stands in envsnap's own command line, and in that of the shell, sudo or ssh that started it.
    own = {me, *(p.pid for p in _ancestors(processes, me))}
    envsnap = {me, *(p.pid for p in processes.values() if _is_envsnap(p))}
    patterns = [_pattern(text) for text in scope.match]
    matched = [
        pid
        for pid, p in processes.items()
        if pid not in own | envsnap and any(pattern.search(" ".join(p.argv)) for pattern in patterns)
    ]
    named = [pid for pid in scope.pids if pid in processes]
    members = descendants(processes, [*named, *matched], envsnap)
    roots = sorted((p for p in map(processes.__getitem__, members) if p.parent not in members), key=_start)
    return tuple(_group(processes, root, members, named, me) for root in roots)


def _group(processes: Mapping[int, Process], root: Process, members: set[int], named: list[int], me: int) -> Group:
    below = [processes[pid] for pid in descendants(processes, [root.pid], ()) & members if pid != root.pid]
    chain: list[Process] = []
    for process in _ancestors(processes, root.pid) if not SHELL.match(root.program) else ():
        if len(chain) == _MAX_CHAIN or _SESSION.match(process.name):
            break
        if process.pid != me and not _is_envsnap(process) and (process.pid != 1 or SHELL.match(process.program)):
            chain.insert(0, process)
        if SHELL.match(process.program):
            break
    members_in_order = (root, *sorted(below, key=_start))
    by_pid = any(p.pid in named for p in (*members_in_order, *_ancestors(processes, root.pid)))
    return Group(members_in_order, tuple(chain), by_pid)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise Missing(Why.NOT_SUPPORTED, f"{text!r} is not a regular expression: {error}") from error


def _start(process: Process) -> tuple[int, int]:
    return process.start_ticks, process.pid


def _is_envsnap(process: Process) -> bool:
    return any(posixpath.basename(part) == "envsnap" for part in process.argv[:3])


def _ancestors(processes: Mapping[int, Process], pid: int) -> list[Process]:
    """From the parent up."""
    found: list[Process] = []
    seen = {pid}
    while pid in processes and (pid := processes[pid].parent) in processes and pid not in seen:
        seen.add(pid)
        found.append(processes[pid])
    return found


def descendants(processes: Mapping[int, Process], roots: Iterable[int], without: Collection[int] = ()) -> set[int]:
    """The running roots and all below them, without `without` and what is below that (unless it is a root itself)."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    pending = [pid for pid in roots if pid in processes]
    while pending:
        if (pid := pending.pop()) not in found:
            found.add(pid)
            pending.extend(child for child in children.get(pid, ()) if child not in without)
    return found - set(without)
