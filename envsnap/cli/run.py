"""Run a benchmark, watch the state under load, read its figures.

The benchmark stands behind --, its output goes where it would go (under --format json to standard error), and its exit
code is envsnap's. With --server the server is started for each repetition and stopped after it (--keep-server reuses
it), since the process is the unit of repetition; --server-url measures one that is up. The server's own counters are
read before and after. Figures are found by themselves where the benchmark is told to write them (--output-file and the
like), in a file given with --metrics, or by a pattern.

--a and --b make two arms, run in pairs of random order: variables (NCCL_PROTO=LL, -u:NAME removes), arguments for the
server, or git:REV. Runs are kept in .envsnap/; `envsnap log` lists them, `envsnap diff` compares them.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_TROUBLE, Trouble
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.runs.columns import Columns
    from envsnap.runs.plan import Plan
    from envsnap.runs.run import Run
    from envsnap.store import Store

EXAMPLE = "envsnap run --label fast -n 5 --metrics out.jsonl -- python -m sglang.bench_serving --output-file out.jsonl"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    add = parser.add_argument
    add("benchmark", nargs="*", metavar="-- BENCHMARK…", help="the command to run")
    add("--label", default="", metavar="LABEL", help="a name to find the runs by")
    add("-n", type=int, default=1, metavar="N", help="repetitions (default: 1)")
    add("--server", default="", metavar="CMD", help="command of a server to start for it")
    add("--ready", default="", metavar="URL", help="address that answers 200 when the server is ready")
    add("--ready-timeout", type=float, default=600.0, metavar="S", help="default: 600")
    add("--keep-server", action="store_true", help="one server for all repetitions")
    add("--server-url", default="", metavar="URL", help="a server that is up already")
    add("--api-key-file", default="", metavar="FILE", help="holds the key that the server wants")
    add("--metrics", action="append", default=[], metavar="FILE", help="file of figures; - is the benchmark's output")
    add("--metric", action="append", default=[], metavar="NAME=RE", help="a figure by its pattern, or NAME=json:PATH")
    add("--prompts", default="", metavar="FILE", help="prompts that the benchmark uses: part of what was asked")
    add("--probe-output", type=int, nargs="?", const=3, default=0, metavar="N",
        help="first see what the server answers to N fixed prompts (default: 3)")  # fmt: skip
    add("--a", action="append", default=[], metavar="ARM", help="what the first arm changes")
    add("--b", action="append", default=[], metavar="ARM", help="what the second arm changes")
    add("--seed", type=int, default=None, metavar="N", help="of the order of the arms")
    add("--no-record", action="store_true", help="add nothing to the environment")
    add("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    add("--repo", action="append", default=[], metavar="DIR", help="git repository to record too")
    add("--model", action="append", default=[], metavar="M", help="model directory or hub name")
    add("--python", default="", metavar="EXE", help="interpreter whose packages matter")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Run, keep, report."""
    from tempfile import TemporaryDirectory

    from envsnap.cli._output import emit, emit_json
    from envsnap.report import session as report
    from envsnap.runs.session import SessionError, run_session
    from envsnap.store import Store

    keeper = _Keeper(Store(Path(args.store) if args.store else None))
    with TemporaryDirectory(prefix="envsnap-") as scratch:
        try:
            plan = _plan(args, Path(scratch))
            outcome = run_session(plan, keeper.store.prepare(), keeper.save, keeper.say)
        except SessionError as error:
            raise Trouble(str(error)) from error
    if args.format == "json":
        emit_json(report.as_json(outcome))
    else:
        emit(report.text(outcome), sys.stderr)
    return outcome.exit_code or (EXIT_TROUBLE if keeper.lost else 0)


def _plan(args: Any, scratch: Path) -> Plan:
    """What the arguments ask for; revisions are unpacked to `scratch`."""
    from envsnap.runs import arms, output_probe
    from envsnap.runs.plan import Arm, Plan
    from envsnap.runs.sources import Wanted, pattern_of
    from envsnap.scope import Scope

    _check(args, len(output_probe.PROMPTS))
    try:
        patterns = tuple(pattern_of(text) for text in args.metric)
        server = tuple(shlex.split(args.server))
    except ValueError as error:
        raise Trouble(str(error)) from error
    both = tuple(arms.parse(name, words, bool(server), scratch) for name, words in (("a", args.a), ("b", args.b)))
    return Plan(
        benchmark=tuple(args.benchmark),
        server=server,
        ready=args.ready,
        ready_seconds=args.ready_timeout,
        server_url=args.server_url,
        repeats=args.n,
        keep_server=args.keep_server,
        label=args.label,
        arms=both if args.a else (Arm(),),
        metrics=Wanted(tuple(f for f in args.metrics if f != "-"), "-" in args.metrics, patterns),
        prompts=args.prompts,
        probe=args.probe_output,
        record=not args.no_record,
        seed=args.seed,
        scope=Scope(
            repos=tuple(args.repo), models=tuple(args.model), python=args.python, api_key_file=args.api_key_file
        ),
        aside=args.format == "json",
    )


def _check(args: Any, prompts: int) -> None:
    """Refuse what goes not together. Raises: Trouble."""
    if not args.benchmark:
        raise Trouble("There is no benchmark to run; put its command behind --.", ["envsnap", "run", "--help"])
    if args.n < 1:
        raise Trouble("-n takes a number of repetitions above zero.")
    if bool(args.a) != bool(args.b):
        raise Trouble("--a and --b go together.")
    if args.server and not args.ready:
        raise Trouble("--server needs --ready URL, to know when it can be measured.")
    if args.server and args.server_url:
        raise Trouble("--server starts a server and --server-url names one that is up; give one of them.")
    if not 0 <= args.probe_output <= prompts:
        raise Trouble(f"--probe-output takes a number from 1 to {prompts}.")
    if args.probe_output and not args.server and not args.server_url:
        raise Trouble("--probe-output needs a server: --server or --server-url.")


class _Keeper:
    """Keeps the runs of a session, and tells on standard error how it goes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lost = False
        """Whether a run could not be kept."""
        self._passing = False
        self._said_at = time.monotonic()

    def save(self, run: Run, samples: Columns) -> None:
        """Keep one run."""
        from envsnap.jsonfile import SnapshotError

        try:
            self.store.save(run, samples)
        except (OSError, SnapshotError) as error:
            self.lost = True
            self.say(f"the run could not be kept: {getattr(error, 'strerror', None) or error}")
        reason = f": {run.reason}" if run.reason else ""
        figures = "  ".join(f"{m.name} {m.value:.4g} {m.unit}" for m in run.metrics[:3])
        self.say(f"{run.id}  {run.status}{reason}  {figures}".rstrip())

    def say(self, text: str, passing: bool = False) -> None:
        """Say it; what is passing is overwritten on a terminal, and said twice a minute elsewhere."""
        from envsnap.report.lines import can_overwrite
        from envsnap.wording import printable

        terminal = can_overwrite(sys.stderr)
        if passing and not terminal and time.monotonic() - self._said_at < 30:
            return
        self._said_at = time.monotonic()
        start = "\r\x1b[K" if self._passing else ""
        self._passing = passing and terminal
        sys.stderr.write(f"{start}envsnap: {printable(text)}{'' if self._passing else chr(10)}")
        sys.stderr.flush()
