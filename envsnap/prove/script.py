"""The experiment as a plain shell script, for a machine on which envsnap does not run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from envsnap.prove.gate import pairs_of
from envsnap.prove.journal import Journal
from envsnap.prove.switches import State, Switch, state
from envsnap.prove.trials import Bench

_HEAD = """#!/bin/sh
# Each run prints a line `== NAME` and then the benchmark's own output. The search between runs is not in here:
# compare the pairs first; then go down the suspects, likeliest first, each reverted alone and left alone.
set -u
serve() {{ # serve COMMAND: start the server in a group of its own and wait until it is ready
  setsid sh -c "exec $1" >>server.log 2>&1 & server=$!
  until curl -sf -o /dev/null {ready}; do kill -0 "$server" 2>/dev/null || return 1; sleep 1; done
}}
stop() {{ kill -TERM -- "-$server" 2>/dev/null; sleep 5; kill -KILL -- "-$server" 2>/dev/null; }}
"""


def script(bench: Bench, switches: Sequence[Switch], journal: Journal) -> str:
    """The gate's pairs, then each suspect reverted alone and left alone, likeliest first."""
    return _HEAD.format(ready=shlex.quote(bench.ready)) + "".join(_runs(bench, switches, journal))


def _runs(bench: Bench, switches: Sequence[Switch], journal: Journal) -> Iterator[str]:
    every = frozenset(s.id for s in switches)
    plan: list[tuple[str, frozenset[str]]] = []
    for _ in range(pairs_of(journal.problem.spread)):
        plan += [("all as slow", frozenset()), ("all as fast", every)]
    for switch in sorted(switches, key=lambda s: -s.probability):
        plan += [
            (f"only {switch.id} as fast", frozenset({switch.id})),
            (f"only {switch.id} as slow", every - {switch.id}),
        ]
    for name, reverted in plan:
        made = state(bench.commands, switches, reverted, journal.folder / "empty")
        yield f"\necho {shlex.quote(f'== {name}')}\n{_block(made)}"


def _block(made: State) -> str:
    lines = ["("]
    for variable, value in made.environment.items():
        lines.append(f"  unset {variable}" if value is None else f"  export {variable}={shlex.quote(value)}")
    bench = shlex.join(made.commands.benchmark)
    if made.commands.server:
        lines.append(f"  serve {shlex.quote(shlex.join(made.commands.server))} && {bench}; stop")
    else:
        lines.append(f"  {bench}")
    return "\n".join([*lines, ")\n"])
