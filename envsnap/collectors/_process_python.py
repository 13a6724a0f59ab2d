"""Which interpreter the processes of interest run, and with what environment they were started."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from envsnap.host import Host
from envsnap.reading import Missing, Unavailable, Value, Why
from envsnap.scope import Scope
from envsnap.workers.tree import Process, of_interest

_PYTHON = re.compile(r"(python|pypy)[0-9.]*t?\Z")


@dataclass(frozen=True)
class Started:
    """An interpreter by the path that started it, its environment at exec, and what is not certain about them."""

    executable: str
    environ: Mapping[str, str]
    doubts: tuple[str, ...]


def of_processes(host: Host, scope: Scope) -> Started | None:
    """The interpreter of the first process of interest that still tells; None where there is none.

    Raises: Missing where its files are not the ones that can be seen from here, or where all have written titles over
    how they were started, so that the running interpreter would stand for another.
    """
    candidates = _candidates(host, scope)
    if not candidates:
        _refuse_titles(host, scope)
        return None
    from envsnap.workers import exec_env

    process = candidates[0]
    proc = f"/proc/{process.pid}"
    given = exec_env.read_all(host, [process])[process.pid]
    cwd, exe, theirs, ours = host.found(
        [["link", f"{proc}/cwd"], ["link", f"{proc}/exe"], ["link", f"{proc}/ns/mnt"], ["link", "/proc/self/ns/mnt"]]
    )
    if isinstance(theirs, Value) and isinstance(ours, Value) and theirs != ours:
        raise Missing(Why.NOT_SUPPORTED, "the process of interest is in another mount namespace; capture inside it")
    doubts = []
    if isinstance(given, Unavailable):
        doubts.append(f"the environment of the process of interest cannot be read ({given.why.value})")
    environ = host.environ() if isinstance(given, Unavailable) else given
    executable = _executable(host, process.argv[0], environ, str(cwd.value) if isinstance(cwd, Value) else "/")
    if isinstance(exe, Value) and host.realpath(executable) != exe.value:
        executable = str(exe.value)
        doubts.append("the process of interest does not tell by which path, and so from which environment, it runs")
    others = {p.argv[0] for p in candidates if p.argv[0].startswith("/")} - {executable}
    doubts += [f"a process of interest runs {other}" for other in sorted(others)]
    return Started(executable, environ, tuple(doubts))


def _candidates(host: Host, scope: Scope) -> list[Process]:
    """Python's processes that have not written a title over how they were started; launchers count as well."""
    try:
        groups = of_interest(host, scope)
    except Missing:  # none is named, or none runs yet; the section of the processes says so
        return []
    processes = [p for group in groups for p in (*group.members, *reversed(group.chain))]
    return [p for p in processes if p.argv and not p.zombie and not p.retitled and _PYTHON.match(p.program)]


def _refuse_titles(host: Host, scope: Scope) -> None:
    """Raises: Missing where a process that may be Python's no longer tells how it was started."""
    try:
        retitled = [p for group in of_interest(host, scope) for p in group.members if p.retitled and not p.zombie]
    except Missing:
        return
    links = host.found([["link", f"/proc/{p.pid}/exe"] for p in retitled])
    if any(not isinstance(exe, Value) or _PYTHON.match(posixpath.basename(str(exe.value))) for exe in links):
        raise Missing(
            Why.CLOBBERED,
            "all processes of interest have written titles over how they were started; name their Python with --python",
        )


def _executable(host: Host, name: str, environ: Mapping[str, str], cwd: str) -> str:
    """What the first argument means: as Python itself finds it, on the process's own PATH if it is a bare name."""
    if "/" in name:
        return posixpath.normpath(posixpath.join(cwd, name))
    places = [posixpath.join(cwd, d, name) for d in environ.get("PATH", "").split(":")]
    found = zip(places, host.found([["stat", place] for place in places]))
    return next((p for p, stat in found if isinstance(stat, Value) and stat.value["type"] == "file"), name)
