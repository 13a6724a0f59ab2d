"""Run the experiment that settles which change made it slow.

FAST and SLOW are sides as `envsnap explain` takes them. Its suspects are put as either side had them, by variables,
arguments and copies of the code; nothing outside of the runs' own processes is changed. First both sides are run in
turn: if the gap does not come back, that is the result. Then sets of suspects are reverted, as few as it takes, until
one is the cause beyond doubt: reverting it alone brings the speed back, and it alone takes it away.

Every run is kept in .envsnap/. The same command, or --continue, goes on where an interrupted search stopped, and
repeats no run. A guilty repository is taken apart: the commit, and then the hunk, is named. What takes root is left
as it is and listed with its command; with --manual the search waits until you have run it.

Exit code 0: a cause is confirmed, 1: the gap does not come back or none of these is the cause, 2: trouble, 3: the
budget is spent, or suspects act together in a way that was not resolved.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, EXIT_SIGNAL, EXIT_TROUBLE, EXIT_UNKNOWN, Trouble
from envsnap.cli import _arguments as shared
from envsnap.jsonfile import SnapshotError

if TYPE_CHECKING:
    from envsnap.prove.journal import Journal
    from envsnap.prove.levels import Level
    from envsnap.prove.search import Search
    from envsnap.prove.switches import Manual, Switch
    from envsnap.prove.trials import Bench
    from envsnap.report.prove import Proof
    from envsnap.store import Store

EXAMPLE = "envsnap prove --metrics out.jsonl fast slow -- python -m sglang.bench_serving --output-file out.jsonl"
TAKES_COMMAND = True

_RUNS = "40"
_EXITS = {
    "confirmed": EXIT_OK,
    "not_reproducible": EXIT_DIFFERENT,
    "none": EXIT_DIFFERENT,
    "failing": EXIT_TROUBLE,
    "budget": EXIT_UNKNOWN,
    "unsettled": EXIT_UNKNOWN,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    add = parser.add_argument
    add("fast", metavar="FAST", nargs="?", default="", help="a side, as for explain")
    add("slow", metavar="SLOW", nargs="?", default="", help="the other side")
    add("benchmark", nargs="*", metavar="-- BENCHMARK…", help="the command to run")
    add("--only", action="append", default=[], metavar="SUSPECT", help="try this suspect alone (can be repeated)")
    add("--server", default="", metavar="CMD", help="command of a server to start for each run")
    add("--ready", default="", metavar="URL", help="address that answers 200 when it is ready (default: /health)")
    add("--ready-timeout", type=float, default=600.0, metavar="S", help="default: 600")
    add("--metrics", action="append", default=[], metavar="FILE", help="file of figures; - is the benchmark's output")
    add("--metric", action="append", default=[], metavar="NAME=RE", help="a figure by its pattern, or NAME=json:PATH")
    add("--by", default="", metavar="NAME", help="the metric to go by (default: step time where that moved)")
    add("--budget", default="", metavar="RUNS", help="runs at most, or hours as in 2h (default: 40)")
    add("--continue", dest="search", default="", metavar="ID", help="go on with a search that stopped; or: last")
    add("--manual", action="store_true", help="wait for you to set what takes root")
    add("--wheels", default="", metavar="DIR", help="wheels to take other versions of packages from")
    add("--again", action="store_true", help="forget an earlier search of the same, and start anew")
    add("--dry-run", action="store_true", help="show what would be tried, and run nothing")
    add("--script", default="", metavar="FILE", help="write the runs as a shell script, and run nothing")
    add("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    shared.add_format(parser, "json", "markdown")


def run(args: Any) -> int:
    """Search, and report."""
    from envsnap.cli._continue import as_before
    from envsnap.prove.aftermath import Unclean
    from envsnap.prove.by_hand import NotSet
    from envsnap.prove.journal import Busy, locked, machine_locked
    from envsnap.runs.session import SessionError
    from envsnap.store import Store

    args.store = str(Path(args.store).absolute() if args.store else Path.cwd())
    store = Store(Path(args.store))
    store.prepare()
    folder = store.folder / "prove"
    folder.mkdir(mode=0o700, exist_ok=True)
    if args.search:
        args = as_before(args, folder)
    elif not args.slow:
        raise Trouble("Prove takes two sides, FAST and SLOW, or --continue ID.", ["envsnap", "prove", "--help"])
    bench = _bench(args)
    try:
        with locked(folder), nullcontext() if args.dry_run or args.script else machine_locked():
            _clean_up(folder)
            proof = _proof(args, bench, store, folder)
    except Busy as error:
        raise Trouble(f"Another search runs {error}; wait for it, since each would disturb the other.") from error
    except SessionError as error:
        raise Trouble(str(error)) from error
    except (Unclean, NotSet) as error:
        raise Trouble(f"{error}.", ["envsnap", "prove", "--continue", "last"]) from error
    if proof is None:
        return EXIT_OK
    if isinstance(proof, int):
        return proof
    _print(proof, args.format)
    return _EXITS[proof.result.outcome]


def _clean_up(folder: Path) -> None:
    """End and remove what a search that was killed left: its processes, its files in /dev/shm, trees and folders."""
    import shutil

    from envsnap.host import LiveHost
    from envsnap.prove.aftermath import sweep, tidy
    from envsnap.prove.journal import Journal
    from envsnap.wording import plural

    paths = list(folder.glob("*.json"))
    sweep(LiveHost(), [p.stem for p in paths], _say)
    for path in paths:
        for made in ("empty", "code"):
            shutil.rmtree(path.with_suffix("") / made, ignore_errors=True)
        try:
            journal = Journal.load(path)
        except SnapshotError:
            continue  # another version's: whoever asks for it is told
        if journal.at_work is not None:
            if gone := tidy(LiveHost(), journal.at_work):
                _say(f"removed {plural(len(gone), 'file')} that an earlier search left in shared memory")
            journal.at_work = None
            journal.save()


def finish(args: Any, code: int) -> int:
    """The exit code is that of the search."""
    return code


def _proof(args: Any, bench: Bench, store: Store, folder: Path) -> Proof | int | None:
    """Search from the sides to the end; an exit code where a signal ended it, nothing where none was to be run."""
    from dataclasses import replace

    from envsnap.cli._prove_start import explained, prepared, shown_of
    from envsnap.prove.acquitted import weigher
    from envsnap.prove.by_hand import Person, look
    from envsnap.prove.trials import Interrupted, prove
    from envsnap.report import prove as report
    from envsnap.wording import plural

    explanation, fast, slow = explained(args, _say)
    journal, switches, manual, bench = prepared(args, explanation, fast, slow, bench, folder)
    names = fast.label or "FAST", slow.label or "SLOW"
    bench = replace(bench, metric=bench.metric or journal.metric)
    if args.script:
        from envsnap.prove.script import script

        Path(args.script).write_text(script(bench, switches, journal), encoding="utf-8")
        Path(args.script).chmod(0o755)
        return None
    if args.dry_run:
        _plan(journal, switches, manual, replace(bench, commands=shown_of(bench, folder)))
        return None
    if journal.records:
        _say(f"search {journal.id} goes on after {plural(journal.runs, 'run')}; --again starts it anew")

    def watch(search: Search, at: Journal, level: Level) -> None:
        _say(report.progress(search, at, level))

    person = Person(_ask, look) if args.manual else None
    try:
        found = prove(bench, switches, journal, store, _say, watch, weigher(fast, slow), person)
    except (Interrupted, KeyboardInterrupt):
        _say(
            f"stopped after {plural(journal.runs, 'run')}; "
            f"the same command goes on from there, or: envsnap prove --continue {journal.id}"
        )
        return EXIT_SIGNAL + 2
    finally:
        for told in person.left() if person else ():
            _say(f"to put it back as it was: {told}")
    return report.Proof(found, journal, switches, manual, shown_of(bench, folder), names)


def _bench(args: Any) -> Bench:
    """What the arguments say of the runs. Raises: Trouble."""
    from envsnap.prove.switches import Commands
    from envsnap.prove.trials import Bench
    from envsnap.runs.sources import Wanted, pattern_of

    benchmark = tuple(getattr(args, "command", None) or args.benchmark)
    if not benchmark:
        raise Trouble("There is no benchmark to run; put its command behind --.", ["envsnap", "prove", "--help"])
    runs, hours = _budget(args.budget)
    try:
        patterns = tuple(pattern_of(text) for text in args.metric)
        server = tuple(shlex.split(args.server))
    except ValueError as error:
        raise Trouble(str(error)) from error
    wanted = Wanted(tuple(f for f in args.metrics if f != "-"), "-" in args.metrics, patterns)
    return Bench(Commands(benchmark, server), args.ready, args.ready_timeout, wanted, args.by, runs=runs, hours=hours)


def _budget(text: str) -> tuple[int, float | None]:
    """Runs, and hours where they are what is limited. Raises: Trouble."""
    text = text or _RUNS
    number = text.removesuffix("h")
    try:
        hours = float(number) if number != text else None
        runs = int(number) if hours is None else 1000
    except ValueError:
        hours, runs = None, 0
    if runs < 1 or (hours is not None and not 0 < hours < 1000):
        raise Trouble(f"--budget takes a number of runs, or hours as in 2h, not {text!r}.")
    return runs, hours


def _plan(journal: Journal, switches: list[Switch], manual: list[Manual], bench: Bench) -> None:
    """Say what would be tried."""
    from envsnap.cli._output import emit
    from envsnap.prove.trials import search_of
    from envsnap.report.lines import Line
    from envsnap.report.prove import command_line

    every = frozenset(s.id for s in switches)
    lines: list[Line] = [[(f"About {search_of(journal, bench.runs).expected} runs, at most {bench.runs}", "title")]]
    lines += [[(f"  {journal.problem.prior.get(s.id, 0):4.0%} {s.title}", "")] for s in switches]
    lines += [[(f"  left as it is: {m.title} ({m.reason})", "dim")] for m in manual]
    for name, reverted in (("fast", every), ("slow", frozenset[str]())):
        lines += [[(f"As the {name} side", "title")]]
        lines += [[(f"  {command_line(bench.commands, switches, reverted, journal.folder / 'empty')}", "")]]
    emit(lines)


def _ask(text: str) -> None:
    """Show what a person is to do, and wait for Enter. Raises: Trouble where nobody can answer."""
    from envsnap.wording import printable

    print(f"envsnap: {printable(text)}", file=sys.stderr, flush=True)
    if not sys.stdin.readline():
        raise Trouble("--manual needs somebody to answer, and standard input has ended.")


def _print(proof: Proof, form: str) -> None:
    from envsnap.cli._output import emit, emit_json
    from envsnap.report import prove as report
    from envsnap.report.proof_json import as_json

    if form == "json":
        emit_json(as_json(proof))
    elif form == "markdown":
        sys.stdout.write(report.markdown(proof))
    else:
        emit(report.text(proof))


def _say(text: str, passing: bool = False) -> None:
    """Tell how it goes, on standard error."""
    from envsnap.wording import printable

    if not passing:
        print(f"envsnap: {printable(text)}", file=sys.stderr, flush=True)
