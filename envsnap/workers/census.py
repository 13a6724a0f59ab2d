"""The workers by role, with the environments that tell them apart: read once a capture, by whoever asks first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envsnap.host import Host
from envsnap.reading import Unavailable, Why
from envsnap.scope import Scope
from envsnap.workers import denied, exec_env, live_env, maps, roles
from envsnap.workers.live_env import Environment
from envsnap.workers.maps import Maps
from envsnap.workers.tree import Process, of_interest

MAX_PROCESSES = 256

Live = Mapping[int, Environment | Unavailable]
AtExec = Mapping[int, Mapping[str, str] | Unavailable]


@dataclass(frozen=True)
class Census:
    """The processes of interest and the launchers above them; every mapping is by pid and holds all of them."""

    processes: tuple[Process, ...]
    roles: Mapping[int, str]
    live: Live
    at_exec: AtExec
    mapped: Mapping[int, Maps | Unavailable]
    """Of those that have not ended."""
    pools: Mapping[int, int]
    """Members of Inductor's compile pools, which are none of `processes` -> the process they work for."""
    left_out: int
    """How many more there are."""


def take(host: Host, scope: Scope) -> Census:
    """The workers of a scope. Raises: Missing (off, absent) as `of_interest` does."""
    return host.memo("workers", lambda: _take(host, scope))


def _take(host: Host, scope: Scope) -> Census:
    groups = roles.serving(of_interest(host, scope))
    pools = {pid: owner for group in groups for pid, owner in roles.compile_pool(group).items()}
    everyone = {p.pid: p for group in groups for p in (*group.chain, *group.members) if p.pid not in pools}
    processes = tuple(everyone.values())[:MAX_PROCESSES]
    alive = [p.pid for p in processes if not p.zombie]
    mapped = maps.read_all(host, alive)
    live: dict[int, Environment | Unavailable] = {p.pid: _GONE for p in processes}
    live.update(live_env.read_all(host, alive, mapped))
    at_exec = exec_env.read_all(host, processes)
    refused = [pid for pid, found in live.items() if isinstance(found, Unavailable) and found.why is Why.DENIED]
    live.update(denied.explain(host, refused))
    names = roles.assign(groups, _known(processes, live, at_exec))
    return Census(processes, names, live, at_exec, mapped, pools, len(everyone) - len(processes))


_GONE = Unavailable(Why.GONE, "the process has ended")


def _known(processes: Sequence[Process], live: Live, at_exec: AtExec) -> dict[int, Mapping[str, str]]:
    """The best that is known of each environment, for roles alone."""
    known: dict[int, Mapping[str, str]] = {}
    for process in processes:
        now, before = live[process.pid], at_exec[process.pid]
        if isinstance(now, Environment):
            known[process.pid] = now.variables
        elif not isinstance(before, Unavailable):
            known[process.pid] = before
    return known
