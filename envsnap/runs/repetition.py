"""One repetition of a benchmark, from the snapshot before it to its figures.

A repetition that fails on the way is a run as far as it came, and says why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from signal import SIGINT
from signal import Signals as Number

from envsnap.capture import capture
from envsnap.host import HostError
from envsnap.reading import Missing, Why
from envsnap.runs import cache_growth, logs, neighbours, output_probe, server_figures, sources
from envsnap.runs.columns import Columns
from envsnap.runs.command import Command, CommandError, find_program, start, take_terminal
from envsnap.runs.follow import Follower
from envsnap.runs.metrics import Measured, NoMetrics
from envsnap.runs.plan import Arm
from envsnap.runs.request import script_sha256
from envsnap.runs.run import Run
from envsnap.runs.sampler import Sampler
from envsnap.runs.samples import section
from envsnap.runs.serving import Server
from envsnap.runs.setting import Setting
from envsnap.runs.watch import Watch, until_the_end, workers
from envsnap.snapshot import Snapshot
from envsnap.workers import tree

CHANGING_SECTIONS = ("worker", "worker_record", "server", "nccl", "gpu")
"""What is looked at again when the processes are others, while the benchmark runs."""

WORKER_SECTIONS = (*CHANGING_SECTIONS, "caches")
GROWING_SECTIONS = ("gpu", "caches", "load", "memory", "worker_record")

_INTERRUPTED = 128 + SIGINT


class Repetition:
    """One repetition at work. `server` is one that was kept, and afterwards the one that can be."""

    def __init__(self, setting: Setting, arm: Arm, index: int, server: Server | None = None) -> None:
        """Make its folder. Raises: OSError."""
        self.setting = setting
        self.plan = plan = setting.plan
        self.arm = arm
        self.server = server
        self.argv = (*plan.benchmark, *arm.arguments)
        self.server_argv = (*plan.server, *arm.server_arguments) if plan.server else ()
        self.host = setting.new_host()
        self.redactor = setting.redactor
        self.hopeless = False
        """Whether it makes no sense to repeat it."""
        self._whole = False
        run_id = f"{setting.group}-{index:03d}{arm.name}"
        self.folder = setting.folder / run_id
        self.folder.mkdir(mode=0o700)
        self.began, self.began_at = time.monotonic(), time.time()
        self.snapshots: dict[str, Snapshot] = {}
        self.costs: dict[str, float] = {}
        self.warnings: list[str] = []
        self.samples = Columns()
        self.draft = Run(
            id=run_id,
            group=setting.group,
            label=plan.label,
            arm=arm.name,
            index=index,
            started_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            seconds=0.0,
            status="failed",
            command=tuple(self.redactor.clean(list(self.argv))),
            server=tuple(self.redactor.clean(list(self.server_argv))),
            exit_code=None,
            added={"ENVSNAP_RECORD": str(self.folder / "records")} if plan.record else {},
            arm_environment=self.redactor.clean(dict(arm.environment)),
            snapshots=self.snapshots,
            recipe=setting.recipe,
        )

    def run(self) -> tuple[Run, Columns]:
        """Go through all steps. Never raises for what the benchmark, the server or a full disk does."""
        try:
            self._take("before", (), None)
            find_program(self.argv, self._environment())
            if self._serve():
                self._measure()
        except CommandError as error:
            self.hopeless = True
            self._fail(str(error), 127)
        except OSError as error:
            self._fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", None)
        ending = self.setting.signals.ending
        if ending and not self._whole:
            self.draft = replace(self.draft, status="interrupted", reason=f"stopped by {Number(ending[0]).name}")
        if self.server and (not self.plan.keep_server or ending):
            self.server.stop(self.setting.new_host(), self.redactor)
            self.server = None
        logs.clean(self.folder / "benchmark.out", self.redactor)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
        done = replace(
            self.draft,
            seconds=time.monotonic() - self.began,
            costs=self.costs,
            warnings=tuple(map(self.redactor.clean_text, self.warnings)),
            reason=self.redactor.clean_text(self.draft.reason),
        )
        return done, self.samples

    def _fail(self, reason: str, exit_code: int | None) -> None:
        self.draft = replace(self.draft, status="failed", reason=reason, exit_code=exit_code)

    # -- the server -----------------------------------------------------------------------------------------

    def _serve(self) -> bool:
        """Have the server ready, if there is one; whether the benchmark can start."""
        signals = self.setting.signals
        if self.server and (why := self.server.gone(self.host)):
            self.server.stop(self.setting.new_host(), self.redactor)
            self.server = None
            self.warnings.append(f"the kept server was gone ({why}), and a new one was started")
        self._warn_of_neighbours()
        if self.plan.server and not self.server and not signals.ending:
            log = self.folder / "server.log"
            log.touch(mode=0o600)
            try:
                self.server = Server(self.server_argv, self._environment(), log, self.plan.ready)
                why = self.server.wait(self.host, self.plan.ready_seconds, signals, self.setting.say)
            except CommandError as error:
                why = str(error)
            if why:
                if self.server:
                    self.server.stop(self.setting.new_host(), self.redactor)
                    self.server = None
                words = logs.last_words(log)
                reason = f"{why}, which ends with: {words}" if words else why
                self.draft = replace(self.draft, status="never_ready", reason=reason)
                return False
        if signals.ending:
            return False
        if self._root:
            self._take("during", WORKER_SECTIONS, self._root)
        if self.plan.probe and self.setting.base:
            self._probe()
        return not signals.ending

    @property
    def _root(self) -> int | None:
        """The root of the server's processes."""
        return self.server.pid if self.server else self.setting.listener

    def _warn_of_neighbours(self) -> None:
        if self.plan.server_url and not self._root:
            return  # which processes are the server's is not known
        processes = tree.table(self.setting.new_host()).values()
        found = neighbours.warnings(self.host, tree.below(processes, self._root) if self._root else ())
        for warning in found:
            self.setting.say(f"warning: {warning}")
        self.warnings += found

    def _probe(self) -> None:
        began = time.monotonic()
        try:
            key = self.plan.scope.api_key_file
            found = output_probe.probe(self.host, self.setting.base, self.plan.probe, key)
            self.draft = replace(self.draft, output_probe=found)
        except (Missing, HostError) as error:
            self.warnings.append(f"the output probe failed ({error})")
        self.costs["probe_seconds"] = round(time.monotonic() - began, 4)

    # -- the benchmark --------------------------------------------------------------------------------------

    def _measure(self) -> None:
        """Run the benchmark, sampling, and read what it measured."""
        signals = self.setting.signals
        first = self.snapshots["during" if self._root else "before"]
        sampler = Sampler(self.host, self.began, self.plan.interval)
        output = self.folder / "benchmark.out" if self.plan.metrics.needs_output else None
        written = sources.mark(self.plan.metrics, self.argv)
        script = script_sha256(self.argv)
        if self._root:
            pids = workers(self.setting.new_host(), self._root)
            sampler.watch(pids, frozenset(pids.values()))
        before = self._sight()
        signals.expect()
        if signals.ending:
            return
        start_at = time.monotonic() - self.began
        command = start(self.argv, self._environment(), output, foreground=True, aside=self.plan.aside)
        signals.attend(command)
        try:
            sampler.start()
            self._watch(command, sampler, output)
            window = (start_at, time.monotonic() - self.began)
            self._whole = not signals.ending
            after = self._sight()
        finally:
            self.samples = sampler.stop()
            signals.attend(None)
            command.stop()
            take_terminal(os.getpgrp())
        if command.paused:
            self.warnings.append("the benchmark was stopped by job control for a while: its figures hold the pause")
        self.draft = replace(self.draft, exit_code=command.exit_code, window=window)
        figures = (
            server_figures.between(before, after)
            if before and after
            else server_figures.unknown(Why.OFF, "no server was named (--server, --server-url)")
        )
        self._take("after", GROWING_SECTIONS, self._root)
        grown = cache_growth.grown(first, self.snapshots["after"])
        self._read(written, output, figures)
        self.warnings += [*figures.warnings, *cache_growth.warnings(grown)]
        request = {**self.draft.request, **self.setting.asked, **({"script_sha256": script} if script else {})}
        percent = 100 * sampler.cpu_seconds / sampler.seconds if sampler.seconds else 0.0
        sampled = section(self.samples, self.draft.window, sampler.seconds, percent)
        sampled = replace(
            sampled,
            values={**sampled.values, **figures.values, **grown},
            unavailable={**sampled.unavailable, **figures.unavailable},
        )
        self.draft = replace(self.draft, request=request, sampled=sampled)

    def _sight(self) -> server_figures.Sight | None:
        base = self.setting.base
        return server_figures.look(self.host, base, self.plan.scope.api_key_file) if base else None

    def _watch(self, command: Command, sampler: Sampler, output: Path | None) -> None:
        """Wait for the benchmark, with an eye on its processes and on the server."""
        follower = Follower(output, self.plan.aside) if output else None
        if follower:
            follower.start()
        root = self._root or command.pid
        look = partial(self._take, "during", CHANGING_SECTIONS, root)
        watch = Watch(self.setting.new_host, root, command.pid, sampler, look, bool(self._root))
        until_the_end(command, watch, self.setting.signals, self.server, self.host)
        if follower:
            follower.stop()

    def _read(self, written: sources.Mark, output: Path | None, figures: server_figures.Figures) -> None:
        """Read the metrics, and decide whether the run is a good one."""
        code = self.draft.exit_code
        problem = "" if code == 0 else f"the benchmark ended with exit code {code}"
        measured = Measured(())
        try:
            measured = sources.read(self.plan.metrics, self.argv, written, output)
        except NoMetrics as error:
            problem = problem or str(error)
        if self.server and (why := self.server.failing(self.host, bool(problem))):
            problem = f"{why} while the benchmark ran; see {self.server.log}" if problem else ""
            self.warnings += [] if problem else [f"{why} before it was stopped"]
        window = self.draft.window
        if measured.window:
            window = (measured.window[0] - self.began_at, measured.window[1] - self.began_at)
        self.warnings += measured.warnings
        if said := server_figures.disagreement(measured.metrics, figures.metrics):
            self.warnings.append(said)
        self.draft = replace(
            self.draft,
            status="interrupted" if code == _INTERRUPTED else "failed" if problem else "ok",
            reason="stopped by SIGINT" if code == _INTERRUPTED else problem,
            metrics=server_figures.joined(measured.metrics, figures.metrics),
            request=self.redactor.clean(measured.request),
            window=window,
        )

    # -- helpers --------------------------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        full = {**os.environ, **self.draft.added, **self.arm.environment}
        return {name: value for name, value in full.items() if value is not None}

    def _take(self, moment: str, only: Sequence[str], root: int | None) -> None:
        """Take the snapshot of a moment, or sections of it anew; with the processes below `root`, and the server."""
        began = time.monotonic()
        scope = replace(
            self.plan.scope,
            pids=(root,) if root else (),
            servers=(self.setting.base,) if root and self.setting.base else (),
        )
        # NOTE: a host remembers what it was asked within one capture, so each capture gets one of its own.
        taken = capture(scope, self.setting.new_host(), only=only, redactor=self.redactor)
        held = self.snapshots[moment].sections if moment in self.snapshots else {}
        self.snapshots[moment] = replace(taken, moment=moment, sections={**held, **taken.sections})
        self.costs[f"{moment}_seconds"] = round(time.monotonic() - began, 4)
