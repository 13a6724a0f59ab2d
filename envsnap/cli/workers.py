"""Did it reach the workers: each variable from the shell over the launcher to every worker, and who changed it.

Shows the variables with which something happened after the shell: set, changed or lost on the way, or different
between ranks. Name variables (NCCL_*, * is the only wildcard) to see those, or --all. Without a file the newest
snapshot in .envsnap/ is read; it has to be one of processes. With --match or --pid it is those processes as they are
now, with --via those of another machine, and all else that is named is a NAME. Exit code 0: every rank is like its
siblings, 1: one is not, 2: trouble, 3: something could not be read.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, EXIT_UNKNOWN, Trouble
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.report.lines import Line
    from envsnap.snapshot import Snapshot

EXAMPLE = "envsnap workers --match sglang 'NCCL_*'"

_RANK = (EXIT_OK, EXIT_UNKNOWN, EXIT_DIFFERENT)

limit = shared.live_limit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("snapshot", nargs="?", default="", metavar="SIDE", help="a snapshot, or runs by name")
    parser.add_argument("variables", nargs="*", metavar="NAME", help="variables to show; * is a wildcard")
    parser.add_argument("--all", action="store_true", help="every variable, and cut nothing")
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    shared.add_live_side(parser)
    shared.add_format(parser, "json", "markdown")


def run(args: Any) -> int:
    """Show, of one machine or of every one behind `--via`; the exit code is that of the worst."""
    from envsnap.cli._sides import live_sides, load_side
    from envsnap.store import newest

    if shared.live_count(args):
        patterns = [*filter(None, [args.snapshot]), *args.variables]
        sides = live_sides(args)
        return max((_show(args, side.snapshot, patterns, name) for name, side in sides), key=_RANK.index)
    source = args.snapshot or next(map(str, newest()), "")
    if not source:
        raise Trouble("There is no snapshot.", ["envsnap", "workers", "--match", "sglang"])
    return _show(args, load_side(source, args.store).snapshot, args.variables)


def _show(args: Any, snapshot: Snapshot, asked: list[str], heading: str = "") -> int:
    from envsnap.cli._output import emit, emit_json
    from envsnap.report import workers as report
    from envsnap.report.lines import width_of
    from envsnap.workers.propagation import State, propagation

    found = propagation(snapshot)
    patterns = asked or (["*"] if args.all else [])
    if args.format == "json":
        emit_json(report.as_json(found, asked))
    elif args.format == "markdown":
        sys.stdout.write(report.markdown(found, patterns))
    else:
        title: list[Line] = [[(f"== {heading}", "title")]] if len(args.via) > 1 else []
        emit([*title, *report.text(found, patterns, width_of(sys.stdout), args.all or bool(asked))])
    rows = report.chosen(found, patterns) if patterns else found.variables
    if any(row.odd for row in rows):
        return EXIT_DIFFERENT
    unknown = not found.processes or any(c.state is State.UNKNOWN for row in rows for c in row.cells.values())
    return EXIT_UNKNOWN if unknown else EXIT_OK
