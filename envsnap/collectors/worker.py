"""Workers: what each process of interest has, by role: live environment, arguments, binding, limits, libraries.

The processes are those named with --pid or --match, all below them, and the launchers above them up to the shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envsnap import cache
from envsnap.collectors import Partial, _worker_libraries, _worker_state
from envsnap.collectors._env_rules import ENV_AT
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Unavailable, Value, Why, attempt
from envsnap.scope import Scope
from envsnap.workers import denied, exec_env, live_env, maps, roles
from envsnap.workers.live_env import Environment
from envsnap.workers.tree import Process, of_interest

METHOD = "process memory (libc's environ), /proc/PID"

MAX_PROCESSES = 256

_ANY = (Effect.COMMUNICATION, Effect.VERIFY, Effect.COMPUTE, Effect.HOST_LAUNCH)

KEYS = (
    Key("worker[].env[]", Type.STRING, Kind.TUNABLE,
        "Environment variable as the process has it now: what it was given, and what it, a library or nccl.conf set "
        "since.", _ANY, 0.2, Lever.ENV, at=ENV_AT),
    Key("worker[].env_at_exec[]", Type.STRING, Kind.TUNABLE,
        "Value that a variable had when the process was started, where it now has another one, none, or one that "
        "cannot be read.", _ANY, 0.1, Lever.ENV, at=ENV_AT),
    Key("worker[].env_added", Type.STRINGS, Kind.TUNABLE,
        "Variables that the process has now and was not started with: it set them itself.", _ANY, 0.1),
    Key("worker[].compile_workers_count", Type.INTEGER, Kind.VOLATILE,
        "Processes of Inductor's compile pool below this one, which are not listed by themselves."),
    *_worker_state.KEYS,
    *_worker_libraries.KEYS,
)  # fmt: skip

Live = Mapping[int, Environment | Unavailable]
AtExec = Mapping[int, Mapping[str, str] | Unavailable]


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    groups = roles.serving(of_interest(host, scope))
    pools = {pid: owner for group in groups for pid, owner in roles.compile_pool(group).items()}
    everyone = {p.pid: p for group in groups for p in (*group.chain, *group.members) if p.pid not in pools}
    processes = list(everyone.values())[:MAX_PROCESSES]
    alive = [p.pid for p in processes if not p.zombie]
    mapped = maps.read_all(host, alive)
    live: dict[int, Environment | Unavailable] = {p.pid: _GONE for p in processes}
    live.update(live_env.read_all(host, alive, mapped))
    at_exec = exec_env.read_all(host, processes)
    refused = [pid for pid, found in live.items() if isinstance(found, Unavailable) and found.why is Why.DENIED]
    live.update(denied.explain(host, refused))
    names = roles.assign(groups, _known(processes, live, at_exec))
    uptime, own, answers = _worker_state.read(host, processes)
    now = attempt(lambda: float(host.self()["time"]))
    for process in processes:
        role = names[process.pid]
        yield from _environment(role, live[process.pid], at_exec[process.pid])
        yield from _worker_state.readings(role, process, answers[process.pid], uptime, own, now)
        if process.parent in names:
            yield path_of("worker[].parent", role), Value(names[process.parent])
        yield path_of("worker[].compile_workers_count", role), Value(list(pools.values()).count(process.pid))
    with cache.opened(host, scope, "worker_libraries") as held:
        yield from _worker_libraries.readings(host, held, names, mapped)
    if len(everyone) > len(processes):
        raise Partial(f"{len(everyone) - len(processes)} of {len(everyone)} processes were left out")


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


def _environment(
    role: str, live: Environment | Unavailable, at_exec: Mapping[str, str] | Unavailable
) -> Iterator[tuple[str, Found]]:
    branch, before = path_of("worker[].env", role), path_of("worker[].env_at_exec", role)
    added = path_of("worker[].env_added", role)
    if isinstance(live, Unavailable):
        yield branch, live
        yield added, live
    else:
        for name, value in sorted(live.variables.items()):
            yield path_of("worker[].env[]", role, name), Value(value)
        if live.torn:
            torn = Unavailable(Why.TORN, f"these changed while they were read: {', '.join(live.torn[:20])}")
            yield branch, torn
            yield added, torn
    if isinstance(at_exec, Unavailable):
        yield before, at_exec
        if isinstance(live, Environment) and not live.torn:
            yield added, at_exec
        return
    now = live.variables if isinstance(live, Environment) else {}
    for name, value in exec_env.replaced(now, at_exec).items():
        yield path_of("worker[].env_at_exec[]", role, name), Value(value)
    if isinstance(live, Environment) and not live.torn:
        yield added, Value(exec_env.added(now, at_exec))
