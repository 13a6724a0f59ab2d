"""The server of a repetition: started, waited for, found to be gone, stopped."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from envsnap.host import Host, HostError
from envsnap.reading import Missing, Value
from envsnap.redact import Redactor
from envsnap.runs import logs, shared_memory
from envsnap.runs.command import Command, start
from envsnap.runs.plan import Plan, Say, SessionError
from envsnap.runs.supervise import Signals
from envsnap.workers import tree

POLL_SECONDS = 0.2
SAY_EVERY_SECONDS = 2.0
DYING_SECONDS = 5.0
_LISTEN = "0A"


class Server:
    """A server that was started, its log, and the address that tells whether it is ready."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], log: Path, ready: str) -> None:
        """Start it. Raises: CommandError."""
        self.log = log
        self.ready = ready
        self._shm_before = shared_memory.listed()
        self.command: Command = start(argv, environment, log)

    @property
    def pid(self) -> int:
        """The root of its processes."""
        return self.command.pid

    def wait(self, host: Host, seconds: float, signals: Signals, say: Say) -> str:
        """Wait until it is ready, or told to stop. Returns why it will not be ready; empty if it is, or if told."""
        began = said = time.monotonic()
        while not signals.ending:
            if not self.command.running:
                code = self.command.exit_code
                return f"the server ended with exit code {code} before it was ready; see {self.log}"
            now = time.monotonic()
            if answers(host, self.ready):
                if said > began:
                    say(f"the server is ready after {now - began:.0f} s")
                return ""
            if now - began > seconds:
                return f"the server was not ready after {seconds:.0f} s; see {self.log}"
            if now - said > SAY_EVERY_SECONDS:
                said = now
                say(f"waiting for the server, {now - began:.0f} s", passing=True)
            self.command.wait(POLL_SECONDS)
        return ""

    def gone(self, host: Host) -> str:
        """Why it serves no more; empty while it does. A command that left its server behind still serves."""
        if self.command.running or answers(host, self.ready):
            return ""
        return f"the server ended with exit code {self.command.exit_code}"

    def failing(self, host: Host, suspected: bool) -> str:
        """Why it serves no more, once the benchmark has ended; one that is `suspected` gets time to end."""
        if suspected and not answers(host, self.ready):
            self.command.wait(DYING_SECONDS)
            return self.gone(host) or f"the server stopped answering at {self.ready}"
        return self.gone(host)

    def stop(self, host: Host, redactor: Redactor) -> None:
        """End it, and everything in its group; its log is kept without secrets.

        What its processes held in /dev/shm goes with them: engines leave it there when they are killed.
        """
        try:
            shared = shared_memory.held_by(host, tree.below(tree.table(host).values(), self.pid)) - self._shm_before
        except (Missing, HostError):  # it has to be stopped, whatever cannot be told
            shared = frozenset()
        self.command.stop()
        if shared:
            shared_memory.remove_unheld(host, shared)
        logs.clean(self.log, redactor)


def answers(host: Host, url: str, seconds: float = 2.0) -> bool:
    """Whether an address answers with status 200."""
    try:
        return bool(host.one("http", url, {}, seconds)["status"] == 200)
    except Missing:
        return False


def refuse_a_strange_server(plan: Plan, host: Host) -> int | None:
    """The port of the server to start, if it is known and free. Some benchmarks use whatever server answers there.

    Raises: SessionError.
    """
    if not plan.server:
        return None
    try:
        port = urlsplit(plan.ready).port
    except ValueError as error:
        raise SessionError(f"{plan.ready!r} is no address ({error}).") from error
    if port and host.one("listening", port):
        raise SessionError(
            f"Something already listens at port {port}; stop it, or measure it as it is with --server-url."
        )
    return port


def wait_until_free(host: Host, port: int | None, seconds: float = 10.0) -> None:
    """Wait until nothing listens at a port, at most so long."""
    began = time.monotonic()
    while port and host.one("listening", port) and time.monotonic() - began < seconds:
        time.sleep(0.1)


def listener(host: Host, port: int | None) -> int | None:
    """The oldest process that listens at a local TCP port, as far as this user may see."""
    tables = host.read_all(("/proc/net/tcp", "/proc/net/tcp6"), 4 << 20)
    rows = [line.split() for t in tables.values() if isinstance(t, Value) for line in str(t.value).splitlines()[1:]]
    sockets = {r[9] for r in rows if len(r) > 9 and r[3] == _LISTEN and r[1].endswith(f":{port or 0:04X}")}
    if not sockets:
        return None
    processes = sorted(tree.table(host).values(), key=lambda p: p.start_ticks)
    pattern = rf"socket:\[(?:{'|'.join(sorted(sockets))})\]$"
    held = host.found([["links", f"/proc/{p.pid}/fd", pattern] for p in processes])
    return next((p.pid for p, links in zip(processes, held) if isinstance(links, Value) and links.value), None)
