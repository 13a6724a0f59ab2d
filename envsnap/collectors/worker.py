"""Workers: what each process of interest has, by role: live environment, arguments, binding, limits, libraries.

The processes are those named with --pid or --match, all below them, and the launchers above them up to the shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from envsnap import cache
from envsnap.collectors import Partial, _worker_libraries, _worker_state
from envsnap.collectors._env_rules import ENV_AT
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Unavailable, Value, Why, attempt
from envsnap.scope import Scope
from envsnap.workers.tree import of_interest

if TYPE_CHECKING:
    from envsnap.workers.live_env import Environment

METHOD = "process memory (libc's environ), /proc/PID"

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


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    of_interest(host, scope)  # where nothing is, what looks into it need not be imported
    from envsnap.workers import census

    taken = census.take(host, scope)
    uptime, own, answers = _worker_state.read(host, taken.processes)
    now = attempt(lambda: float(host.self()["time"]))
    for process in taken.processes:
        role = taken.roles[process.pid]
        yield from _environment(role, taken.live[process.pid], taken.at_exec[process.pid])
        yield from _worker_state.readings(role, process, answers[process.pid], uptime, own, now)
        if process.parent in taken.roles:
            yield path_of("worker[].parent", role), Value(taken.roles[process.parent])
        helpers = list(taken.pools.values()).count(process.pid)
        yield path_of("worker[].compile_workers_count", role), Value(helpers)
    with cache.opened(host, scope, "worker_libraries") as held:
        yield from _worker_libraries.readings(host, held, taken.roles, taken.mapped)
    if taken.left_out:
        raise Partial(f"{taken.left_out} of {taken.left_out + len(taken.processes)} processes were left out")


def _environment(
    role: str, live: Environment | Unavailable, at_exec: Mapping[str, str] | Unavailable
) -> Iterator[tuple[str, Found]]:
    from envsnap.workers import exec_env
    from envsnap.workers.live_env import Environment

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
