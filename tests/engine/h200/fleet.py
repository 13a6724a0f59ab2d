"""Servers side by side: started together, each on a port of its own, and ended together.

One that does not come up takes none of the others with it. All of them end with the process that started them, however
that ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.planted.trials import bound
from tests.engine.checkout import BASE
from tests.engine.h200.bench import refuse_multicast
from tests.engine.server import Server, answers, end, free_port, shared_memory, sweep

STOP_SECONDS = 1.0
"""They hold nothing that is worth a slow goodbye."""
LATE = 1.5
GRACE_SECONDS = 15.0
"""Where half of them are ready, the others get so many times what the slowest of those took, and so many seconds."""
_POLL = 0.3
_CODE_IS_LOADED = re.compile(r"Capture .*graph|max_total_num_tokens=")
"""In a log: the ranks have made what they compute with, and read no more code of ours."""
_NO_MEMORY = re.compile(r"out of memory|no GPU memory|not enough memory", re.IGNORECASE)
_ENDS_WITH_PARENT = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); os.execvp(sys.argv[1], sys.argv[1:])"
)


@dataclass(frozen=True)
class Spec:
    """A server to be: its command by the port, its environment, the code it runs, CPUs for its ranks by role.

    Command and environment are asked for when it is started, since making them may write files.
    """

    name: str
    command: Callable[[int], Sequence[str]]
    environment: Callable[[], Mapping[str, str]]
    code: str = BASE
    rank_cpus: Mapping[str, int] = field(default_factory=dict)


Stand = Callable[[str], None]
"""Puts the engine's checkout where a server's code is."""


class Missing(Exception):
    """A server that is wanted did not come up; the message ends with the end of its log."""


@dataclass
class Fleet:
    """`servers` by name, those that are ready; `failed` says of the others why they are not.

    `seconds` is what each took to be ready, `code_seconds` what those of one commit took at most to have read it.
    """

    folder: Path
    limit: float
    """Seconds after which no server is waited for."""
    servers: dict[str, Server] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    code_seconds: float = 0.0
    _started: dict[str, tuple[Server, float]] = field(default_factory=dict)

    def server(self, name: str) -> Server:
        """A server that is ready. Raises: Missing."""
        if name not in self.servers:
            raise Missing(f"{name} did not come up: {self.failed.get(name, 'it was not started')}")
        if (code := self.servers[name].process.poll()) is not None:
            raise Missing(f"{name} ended with {code}: {self.servers[name].tail()}")
        return self.servers[name]

    @property
    def short_of_memory(self) -> list[str]:
        """Those that did not come up for lack of memory."""
        return [name for name, reason in self.failed.items() if _NO_MEMORY.search(reason)]

    def start(self, spec: Spec) -> None:
        """Start one. Raises: Unsafe."""
        port = free_port()
        command, environment = list(spec.command(port)), dict(spec.environment())
        refuse_multicast(command, environment)
        log = self.folder / "logs" / f"server-{spec.name.replace('/', '-')}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-S", "-c", _ENDS_WITH_PARENT, *command], env=environment, cwd=self.folder,
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip
        self._started[spec.name] = Server(process, port, log), time.monotonic()

    def process(self, name: str) -> Server:
        """One that was started, ready or not."""
        return self._started[name][0]

    def wait(self, names: Iterable[str], *, for_code: bool = False) -> None:
        """Wait until each of them is ready, or known not to become so; or, `for_code`, has read its code."""
        waiting = [n for n in names if n not in self.servers and n not in self.failed]
        while waiting:
            for name in waiting:
                self._look(name)
            waiting = [n for n in waiting if n not in self.servers and n not in self.failed]
            if for_code:
                waiting = [n for n in waiting if not _CODE_IS_LOADED.search(self.process(n).tail(100_000))]
            if waiting:
                time.sleep(_POLL)

    def _look(self, name: str) -> None:
        server, began = self._started[name]
        passed = time.monotonic() - began
        if (code := server.process.poll()) is not None:
            self.failed[name] = f"the server ended with {code}: {server.tail(3000)}"
        elif answers(f"{server.url}/health", 2.0):
            self.servers[name], self.seconds[name] = server, passed
        elif passed > self._patience:
            self.failed[name] = f"the server was not ready after {passed:.0f} s: {server.tail()}"
            end(server.process, STOP_SECONDS)

    @property
    def _patience(self) -> float:
        """Seconds after which one is given up: a server that hangs must not cost all the time there is."""
        if 2 * len(self.seconds) < len(self._started):
            return self.limit
        return min(self.limit, LATE * max(self.seconds.values()) + GRACE_SECONDS)

    def stop(self) -> None:
        """End all of them."""
        for server, _ in self._started.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
        late = time.monotonic() + STOP_SECONDS
        for server, _ in self._started.values():
            end(server.process, max(late - time.monotonic(), 0.0))


@contextlib.contextmanager
def side_by_side(
    specs: Sequence[Spec], folder: Path, limit: float, *, pioneer: bool = False, stand: Stand | None = None
) -> Iterator[Fleet]:
    """A fleet while the block lasts, all of it ready or given up.

    With `pioneer` the first server is alone until it is ready, since it compiles what all of them use. `stand` puts the
    checkout where a server's code is; servers of other code are started when those before have read theirs.
    """
    before = shared_memory()
    fleet = Fleet(folder, limit)
    with contextlib.ExitStack() as stack:
        stack.callback(sweep, before)
        stack.callback(fleet.stop)
        stages = _stages(specs, pioneer)
        for number, stage in enumerate(stages):
            if stand:
                stand(stage[0].code)
            for spec in stage:
                fleet.start(spec)
                stack.enter_context(bound(fleet.process(spec.name), spec.rank_cpus))
            began = time.monotonic()
            if pioneer and number == 0:
                fleet.wait([stage[0].name])
            elif number < len(stages) - 1:
                fleet.wait((s.name for s in stage), for_code=True)
                fleet.code_seconds = max(fleet.code_seconds, time.monotonic() - began)
        fleet.wait(s.name for s in specs)
        yield fleet


def _stages(specs: Sequence[Spec], pioneer: bool) -> list[list[Spec]]:
    """Those that may be started at once: of one code, the changed ones first, so that the checkout ends at the base."""
    alone = list(specs[:1]) if pioneer else []
    left = specs[len(alone) :]
    codes = sorted({s.code for s in left}, key=lambda code: (code == BASE, code))
    return [*([alone] if alone else []), *([s for s in left if s.code == code] for code in codes)]
