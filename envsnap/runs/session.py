"""A session: a benchmark repeated, alone or in two interleaved arms, with or without a server of its own.

Every repetition follows the same steps: check that the port is free, freeze a snapshot, start the server and wait
until it is ready, snapshot its workers, sample while the benchmark runs, snapshot what can have grown, stop the
server, read the metrics, save the run. A repetition that fails on the way is saved as far as it came.
"""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import urlsplit

from envsnap.capture import capture
from envsnap.host import Host, LiveHost
from envsnap.reading import Missing
from envsnap.redact import Redactor
from envsnap.runs import sources
from envsnap.runs.columns import Columns
from envsnap.runs.command import Command, CommandError, Follower, forwarding, start, supervised
from envsnap.runs.metrics import Measured, NoMetrics
from envsnap.runs.run import Run
from envsnap.runs.sampler import INTERVAL_SECONDS, Sampler
from envsnap.runs.samples import section
from envsnap.scope import Scope
from envsnap.snapshot import Snapshot
from envsnap.workers import roles, tree
from envsnap.workers.tree import Process

READY_SECONDS = 600.0
SETTLE_SECONDS = 1.0
"""How long the processes have to stay the same before they are looked at (again)."""

EAGER_SECONDS, CALM_SECONDS = 0.25, 5.0
"""How often the process table is read until then, and after: on a large machine reading it takes 10 ms."""

_WORKER_SECTIONS = ("worker", "worker_record", "server", "nccl", "gpu")
_GROWING_SECTIONS = ("gpu", "caches", "load", "memory")


class SessionError(Exception):
    """The session cannot begin; the message is one sentence, and nothing was started."""


@dataclass(frozen=True)
class Arm:
    """One side of a comparison: what is added to the environment and to the commands' arguments. `name` is a or b."""

    name: str = ""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """None removes a variable."""
    server_arguments: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What to run, how often, and where its figures come from.

    `ready` is an address that answers 200 when the server is ready. `metrics` are as in `sources.read`. With two
    `arms` each repetition runs both, in random order by `seed`. `record` lets workers write a record of their own.
    """

    benchmark: tuple[str, ...]
    server: tuple[str, ...] = ()
    ready: str = ""
    ready_seconds: float = READY_SECONDS
    repeats: int = 1
    keep_server: bool = False
    label: str = ""
    arms: tuple[Arm, ...] = (Arm(),)
    metrics: sources.Wanted = field(default_factory=sources.Wanted)
    record: bool = True
    seed: int | None = None
    scope: Scope = field(default_factory=Scope)
    interval: float = INTERVAL_SECONDS


Say = Callable[[str], None]
Save = Callable[[Run, Columns], None]


@dataclass(frozen=True)
class Outcome:
    """The runs of a session in the order they ran, and the exit code for the shell: that of the first that failed."""

    runs: tuple[Run, ...]
    exit_code: int


def run_session(plan: Plan, folder: Path, save: Save, say: Say, new_host: Callable[[], Host] = LiveHost) -> Outcome:
    """Run a plan. Logs and records go to `folder`, which exists; each run is given to `save` as soon as it is done.

    Raises: SessionError before anything is started.
    """
    host = new_host()
    port = _refuse_a_strange_server(plan, host)
    group = uuid.uuid4().hex[:12]
    runs: list[Run] = []
    with supervised():
        served: _Served | None = None
        try:
            for index, arm in _order(plan):
                repetition = _Repetition(plan, arm, index, group, folder, say, new_host, served)
                run, samples = repetition.run()
                runs.append(run)
                save(run, samples)
                served = repetition.served if plan.keep_server and run.status == "ok" else None
                if run.status in ("interrupted", "never_ready"):
                    break
                if not plan.keep_server:
                    _wait_until_free(host, port)
        finally:
            if served:
                served.command.stop()
    return Outcome(tuple(runs), next((code for r in runs if (code := _exit_code(r))), 0))


def _exit_code(run: Run) -> int:
    if run.status == "never_ready":
        return 2
    if run.exit_code is None:
        return 0 if run.status == "ok" else 1
    return run.exit_code or (0 if run.status == "ok" else 1)


def _order(plan: Plan) -> Iterator[tuple[int, Arm]]:
    """Repetitions: with two arms in pairs whose order is drawn at random, so that what drifts hits both alike."""
    draw = random.Random(plan.seed)
    for index in range(plan.repeats):
        for arm in draw.sample(plan.arms, len(plan.arms)):
            yield index, arm


def _refuse_a_strange_server(plan: Plan, host: Host) -> int | None:
    """The server's port, if it is known and free. Some benchmarks silently use whatever server answers there."""
    if not plan.server or not plan.ready:
        return None
    port = urlsplit(plan.ready).port
    if port and host.one("listening", port):
        raise SessionError(
            f"Something already listens at port {port}; stop it, or leave out --server to measure it as it is."
        )
    return port


def _wait_until_free(host: Host, port: int | None, seconds: float = 10.0) -> None:
    began = time.monotonic()
    while port and host.one("listening", port) and time.monotonic() - began < seconds:
        time.sleep(0.1)


@dataclass
class _Served:
    """A server that is up: its command, and where its log is."""

    command: Command
    log: Path


class _Repetition:
    """One repetition at work; `run` goes through its steps."""

    def __init__(
        self,
        plan: Plan,
        arm: Arm,
        index: int,
        group: str,
        folder: Path,
        say: Say,
        new_host: Callable[[], Host],
        served: _Served | None,
    ) -> None:
        self.plan = plan
        self.arm = arm
        self.say = say
        # NOTE: a host remembers what it was asked within one capture, so each capture gets one of its own.
        self.new_host = new_host
        self.host = new_host()
        self.served = served
        self.redactor = Redactor(folder.parent)
        self.id = f"{group}-{index:03d}{arm.name}"
        self.folder = folder / self.id
        self.folder.mkdir(mode=0o700)
        self.added = self._added()
        self.snapshots: dict[str, Snapshot] = {}
        self.costs: dict[str, float] = {}
        self.draft = Run(
            id=self.id,
            group=group,
            label=plan.label,
            arm=arm.name,
            index=index,
            started_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            seconds=0.0,
            status="failed",
            reason="",
            command=(*plan.benchmark, *arm.arguments),
            server=(*plan.server, *arm.server_arguments) if plan.server else (),
            exit_code=None,
            added=self.added,
            snapshots=self.snapshots,
        )

    def run(self) -> tuple[Run, Columns]:
        """Go through all steps. Never raises for what the benchmark or the server does."""
        began = time.monotonic()
        started = time.time()
        samples = Columns()
        command: Command | None = None

        def pass_on(number: int) -> None:
            for child in (command, self.served.command if self.served else None):
                if child and (child is command or number in (signal.SIGTERM, signal.SIGHUP)):
                    child.signal(number)

        with forwarding(pass_on) as received:
            self.snapshots["before"] = self._timed("before", lambda: self._capture((), Scope(), "before"))
            ready = self._serve(received)
            if ready:
                sampler = Sampler(self.host, began, self.plan.interval)
                before = sources.mark(self.plan.metrics, self.draft.command)
                try:
                    output = self.folder / "benchmark.out" if self.plan.metrics.needs_output else None
                    window_start = time.monotonic() - began
                    command = start(self.draft.command, self._environment(), output, foreground=True)
                    sampler.start()
                    self._watch(command, sampler, output)
                    window = (window_start, time.monotonic() - began)
                    samples = sampler.stop()
                    self.draft = replace(self.draft, exit_code=command.exit_code, window=window)
                    self._sampled(samples, window, sampler)
                    self.snapshots["after"] = self._timed(
                        "after", lambda: self._capture(_GROWING_SECTIONS, Scope(), "after")
                    )
                    self._measure(before, output, started)
                except CommandError as error:
                    self.draft = replace(self.draft, reason=str(error), exit_code=127)
            if self.served and not (self.plan.keep_server and ready and not received):
                self.served.command.stop()
            if received:
                name = signal.Signals(received[0]).name
                self.draft = replace(self.draft, status="interrupted", reason=f"stopped by {name}")
        return replace(self.draft, seconds=time.monotonic() - began, costs=self.costs), samples

    # -- steps ----------------------------------------------------------------------------------------------

    def _serve(self, received: list[int]) -> bool:
        """Start the server unless one is kept, and wait until it is ready; whether the benchmark can start."""
        if not self.plan.server or self.served:
            return not received
        log = self.folder / "server.log"
        log.touch(mode=0o600)
        try:
            self.served = _Served(start(self.draft.server, self._environment(), log), log)
        except CommandError as error:
            self.draft = replace(self.draft, status="never_ready", reason=str(error))
            return False
        began = time.monotonic()
        said = began
        while not received:
            passed = time.monotonic() - began
            if not self.served.command.running:
                reason = (
                    f"the server ended with exit code {self.served.command.exit_code} before it was ready; see {log}"
                )
                break
            if self.plan.ready and self._answers(self.plan.ready):
                self._timed("during", lambda: self._look_at_workers(self.served.command.pid if self.served else 0))
                return True
            if passed > self.plan.ready_seconds:
                reason = f"the server was not ready after {self.plan.ready_seconds:.0f} s; see {log}"
                break
            if time.monotonic() - said > 5:
                said = time.monotonic()
                self.say(f"waiting for the server, {passed:.0f} s")
            time.sleep(0.2)
        else:
            return False
        self.draft = replace(self.draft, status="never_ready", reason=reason)
        return False

    def _answers(self, url: str) -> bool:
        try:
            return bool(self.host.one("http", url, {}, 2.0)["status"] == 200)
        except Missing:
            return False

    def _watch(self, command: Command, sampler: Sampler, output: Path | None) -> None:
        """Wait for the benchmark, with an eye on its processes until they stay the same."""
        follower = Follower(output) if output else None
        if follower:
            follower.start()
        root = self.served.command.pid if self.served else command.pid
        seen = looked_at = frozenset[int]()
        since, pause = time.monotonic(), EAGER_SECONDS
        while not command.wait(pause):
            processes = tree.table(self.new_host()).values()
            now = _below(processes, root)
            if now != seen:
                seen, since, pause = now, time.monotonic(), EAGER_SECONDS
            elif seen != looked_at and time.monotonic() - since >= SETTLE_SECONDS:
                if looked_at or "during" not in self.snapshots:
                    self._look_at_workers(root)
                sampler.watch(self._roles(root), seen | _below(processes, command.pid))
                looked_at, pause = seen, CALM_SECONDS
        if follower:
            follower.stop()

    def _look_at_workers(self, root: int) -> None:
        self.snapshots["during"] = self._capture(_WORKER_SECTIONS, replace(self.plan.scope, pids=(root,)), "during")

    def _roles(self, root: int) -> dict[str, int]:
        """The processes below a root by their roles, as in the snapshot of the workers."""
        try:
            groups = tree.of_interest(self.new_host(), Scope(pids=(root,)))
        except Missing:
            return {}
        members = {p.pid for group in groups for p in group.members if not p.zombie}
        return {role: pid for pid, role in roles.assign(groups, {}).items() if pid in members}

    def _sampled(self, samples: Columns, window: tuple[float, float], sampler: Sampler) -> None:
        percent = 100 * sampler.cpu_seconds / sampler.seconds if sampler.seconds else 0.0
        self.draft = replace(self.draft, sampled=section(samples, window, sampler.seconds, percent))

    def _measure(self, before: sources.Mark, output: Path | None, started: float) -> None:
        """Read the metrics, and decide whether the run is a good one."""
        code = self.draft.exit_code
        problem = "" if code == 0 else f"the benchmark ended with exit code {code}"
        measured = Measured(())
        try:
            measured = sources.read(self.plan.metrics, self.draft.command, before, output)
        except NoMetrics as error:
            problem = problem or str(error)
        window = self.draft.window
        if measured.window:
            window = (measured.window[0] - started, measured.window[1] - started)
        self.draft = replace(
            self.draft,
            status="failed" if problem else "ok",
            reason=problem,
            metrics=measured.metrics,
            request=self.redactor.clean(measured.request),
            warnings=measured.warnings,
            window=window,
        )

    # -- helpers --------------------------------------------------------------------------------------------

    def _added(self) -> dict[str, str]:
        """What envsnap itself adds to the environment."""
        if not self.plan.record:
            return {}
        return {"ENVSNAP_RECORD": str(self.folder / "records")}

    def _environment(self) -> dict[str, str]:
        full = {**os.environ, **self.added, **self.arm.environment}
        return {name: value for name, value in full.items() if value is not None}

    def _capture(self, only: Sequence[str], scope: Scope, moment: str) -> Snapshot:
        scope = scope if scope.pids else replace(self.plan.scope, pids=())
        return replace(capture(scope, self.new_host(), only=only, redactor=self.redactor), moment=moment)

    def _timed(self, name: str, act: Callable[[], Snapshot | None]) -> Snapshot:
        began = time.monotonic()
        result = act()
        self.costs[f"{name}_seconds"] = round(time.monotonic() - began, 4)
        return result if result is not None else self.snapshots[name]


def _below(processes: Iterable[Process], root: int) -> frozenset[int]:
    """The pids of a process and all its descendants."""
    parents = {p.pid: p.parent for p in processes}
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return frozenset(found)
