"""Run a benchmark, watch the state under load, read its figures.

The benchmark stands behind --, its output goes where it would go, and its exit code is envsnap's. With --server the
server is started for each repetition and stopped after it (--keep-server reuses it), since the process is the unit
of repetition. Figures are found by themselves where the benchmark is told to write them (--output-file and the
like), in a file given with --metrics, or by a pattern.

--a and --b make two arms, run in pairs of random order: variables (NCCL_PROTO=LL, -u:NAME removes), arguments for the
server, or git:REV. Runs are kept in .envsnap/; `envsnap log` lists them, `envsnap diff` compares them.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from envsnap.cli import Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap run --label fast -n 5 --metrics out.jsonl -- python -m sglang.bench_serving --output-file out.jsonl"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("benchmark", nargs="*", metavar="-- BENCHMARK…", help="the command to run")
    parser.add_argument("--label", default="", metavar="NAME", help="a name to find the runs by")
    parser.add_argument("-n", type=int, default=1, metavar="N", help="repetitions (default: 1)")
    parser.add_argument("--server", default="", metavar="CMD", help="command of a server to start for it")
    parser.add_argument("--ready", default="", metavar="URL", help="address that answers 200 when the server is ready")
    parser.add_argument("--ready-timeout", type=float, default=600.0, metavar="S", help="default: 600")
    parser.add_argument("--keep-server", action="store_true", help="one server for all repetitions")
    parser.add_argument(
        "--metrics", action="append", default=[], metavar="FILE", help="file of figures; - is its output"
    )
    parser.add_argument(
        "--metric", action="append", default=[], metavar="NAME=RE", help="a figure by its pattern, or NAME=json:PATH"
    )
    parser.add_argument("--a", action="append", default=[], metavar="ARM", help="what the first arm changes")
    parser.add_argument("--b", action="append", default=[], metavar="ARM", help="what the second arm changes")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="of the order of the arms")
    parser.add_argument("--no-record", action="store_true", help="add nothing to the environment")
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    parser.add_argument("--repo", action="append", default=[], metavar="DIR", help="git repository to record too")
    parser.add_argument("--model", action="append", default=[], metavar="M", help="model directory or hub name")
    parser.add_argument("--python", default="", metavar="EXE", help="interpreter whose packages matter")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Run, keep, report."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.report import session as report
    from envsnap.runs.session import SessionError, run_session
    from envsnap.store import Store

    store = Store(Path(args.store) if args.store else None)
    try:
        folder = store.prepare()
        plan = _plan(args, folder)
        outcome = run_session(plan, folder, lambda done, samples: _keep(store, done, samples), _say)
    except SessionError as error:
        raise Trouble(str(error)) from error
    if args.format == "json":
        emit_json(report.as_json(outcome))
    else:
        emit(report.text(outcome), sys.stderr)
    return outcome.exit_code


def _plan(args: Any, folder: Path) -> Any:
    from envsnap.runs import arms
    from envsnap.runs.session import Arm, Plan
    from envsnap.runs.sources import Wanted, pattern_of
    from envsnap.scope import Scope

    if not args.benchmark:
        raise Trouble("There is no benchmark to run; put its command behind --.", ["envsnap", "run", "--help"])
    if args.n < 1:
        raise Trouble("-n takes a number of repetitions above zero.")
    if bool(args.a) != bool(args.b):
        raise Trouble("--a and --b go together.")
    if args.server and not args.ready:
        raise Trouble("--server needs --ready URL, to know when it can be measured.")
    try:
        patterns = tuple(pattern_of(text) for text in args.metric)
        server = tuple(shlex.split(args.server))
    except ValueError as error:
        raise Trouble(str(error)) from error
    scratch = folder / "trees"
    if any("git:" in word for word in (*args.a, *args.b)):
        import tempfile

        scratch = Path(tempfile.mkdtemp(prefix="envsnap-"))
    both = tuple(arms.parse(name, words, bool(server), scratch) for name, words in (("a", args.a), ("b", args.b)))
    return Plan(
        benchmark=tuple(args.benchmark),
        server=server,
        ready=args.ready,
        ready_seconds=args.ready_timeout,
        repeats=args.n,
        keep_server=args.keep_server,
        label=args.label,
        arms=both if args.a else (Arm(),),
        metrics=Wanted(tuple(f for f in args.metrics if f != "-"), "-" in args.metrics, patterns),
        record=not args.no_record,
        seed=args.seed,
        scope=Scope(repos=tuple(args.repo), models=tuple(args.model), python=args.python),
    )


def _keep(store: Any, run: Any, samples: Any) -> None:
    from envsnap.wording import printable

    try:
        store.save(run, samples)
    except OSError as error:
        _say(f"the run could not be kept: {error.strerror}")
    reason = f": {run.reason}" if run.reason else ""
    figures = "  ".join(f"{m.name} {m.value:.4g} {m.unit}" for m in run.metrics[:3])
    _say(printable(f"{run.id}  {run.status}{reason}  {figures}".rstrip()))


def _say(text: str) -> None:
    print(f"envsnap: {text}", file=sys.stderr)
