"""An eye on the processes of a run while the benchmark is measured: little work, and less once they stay the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from signal import SIGKILL

from envsnap.host import Host
from envsnap.reading import Missing
from envsnap.runs.command import Command
from envsnap.runs.sampler import Sampler
from envsnap.runs.serving import Server
from envsnap.runs.supervise import Signals
from envsnap.scope import Scope
from envsnap.workers import roles, tree

SETTLE_SECONDS = 1.0
"""How long the processes have to stay the same before they are looked at (again)."""

WITHOUT_SERVER_SECONDS = 10.0
"""How long a benchmark may go on whose server is gone."""

EAGER_SECONDS, CALM_SECONDS = 0.25, 5.0
"""How often the process table is read until then, and after: on a large machine reading it takes 10 ms."""


class Watch:
    """Tells the sampler which workers there are, and calls `look` when the processes below `root` are others.

    `own` is the root of the benchmark's processes, `looked` says that those below `root` were looked at before.
    """

    def __init__(
        self,
        new_host: Callable[[], Host],
        root: int,
        own: int,
        sampler: Sampler,
        look: Callable[[], None],
        looked: bool,
    ) -> None:
        self._new_host = new_host
        self._root = root
        self._own = own
        self._sampler = sampler
        self._look = look
        self._looked = looked
        self._seen = self._known = frozenset[int]()
        self._since = time.monotonic()
        self._pause = EAGER_SECONDS

    def tick(self) -> float:
        """Look at the process table; returns for how many seconds it need not be looked at."""
        # NOTE: a host remembers what it was asked, so each look is one of its own.
        processes = tree.table(self._new_host()).values()
        now = tree.below(processes, self._root)
        if now != self._seen:
            self._seen, self._since, self._pause = now, time.monotonic(), EAGER_SECONDS
        elif self._seen != self._known and time.monotonic() - self._since >= SETTLE_SECONDS:
            if self._known or not self._looked:
                self._look()
            self._sampler.watch(workers(self._new_host(), self._root), self._seen | tree.below(processes, self._own))
            self._known, self._pause = self._seen, CALM_SECONDS
        return self._pause


def until_the_end(command: Command, watch: Watch, signals: Signals, server: Server | None, host: Host) -> None:
    """Wait for the benchmark, with an eye on its processes, on its server, and on what it was told to do."""
    alone_since = None
    while not command.wait(watch.tick()):
        if signals.overdue:
            command.signal(SIGKILL)
        if server and server.gone(host):
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > WITHOUT_SERVER_SECONDS:
                command.stop()


def workers(host: Host, root: int) -> dict[str, int]:
    """The processes below a root by their roles, as in the snapshot of the workers."""
    try:
        groups = tree.of_interest(host, Scope(pids=(root,)))
    except Missing:
        return {}
    members = {p.pid for group in groups for p in group.members if not p.zombie}
    return {role: pid for pid, role in roles.assign(groups, {}).items() if pid in members}
