"""Compare two snapshots or sets of runs: whether they differ in speed, then what changed, likeliest causes first.

A side is a file, or a name in the store: a label, LABEL@2 for the group before, last, last~1, the id of a group (/a and
/b are its arms). Identities and tunables are compared always, conditions (clocks, links) only between states under
load. Without arguments the two newest snapshots in .envsnap/ are compared, with one the newest against it. With --match
or --pid the last side is this machine now, with --via another one. Exit code 0: same, 1: different, 2: trouble, 3: same
as far as known, but something is not (with --strict).
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, EXIT_UNKNOWN, Trouble
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.explain.explanation import Explanation, Side
    from envsnap.runs.compare import Comparison

EXAMPLE = "envsnap diff fast.json slow.json"

limit = shared.live_limit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("snapshots", nargs="*", metavar="SIDE", help="before and after; - is standard input")
    parser.add_argument("--volatile", action="store_true", help="compare what moves by itself too (tolerantly)")
    parser.add_argument("--counters", action="store_true", help="compare counters too, as they stand")
    parser.add_argument("--labels", action="store_true", help="compare names and serials too")
    parser.add_argument("--text", action="store_true", help="show excerpts of changed files and patches")
    parser.add_argument("--all", action="store_true", help="cut nothing")
    parser.add_argument("--strict", action="store_true", help="exit 3 where no change but something unknown was found")
    parser.add_argument("-q", "--quiet", action="store_true", help="the exit code alone")
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    shared.add_live_side(parser)
    shared.add_format(parser, "json", "markdown")


def run(args: Any) -> int:
    """Compare and print."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.diff import diff
    from envsnap.keys import Kind
    from envsnap.report import diff as report
    from envsnap.report.lines import width_of

    names, (a, b) = _two_sides(args)
    sides = report.Sides(names, (a.snapshot, b.snapshot))
    asked = {Kind.VOLATILE: args.volatile, Kind.COUNTER: args.counters, Kind.LABEL: args.labels}
    found = diff(*sides.snapshots, also=[kind for kind, wanted in asked.items() if wanted])
    comparison = _compared(a, b, args.store)
    if args.quiet:
        pass
    elif args.format == "json":
        document = report.as_json(found, sides)
        if comparison:
            from envsnap.report import runs

            document["runs"] = runs.as_json(comparison)
        emit_json(document)
    elif args.format == "markdown":
        if comparison:
            from envsnap.report import runs

            sys.stdout.write(runs.markdown(comparison) + "\n")
        sys.stdout.write(report.markdown(found, sides, args.all))
        if comparison:
            from envsnap.report.explain import top_markdown

            sys.stdout.write(top_markdown(_explained(a, b, args.store)))
    else:
        if comparison:
            from envsnap.report import runs

            emit([*runs.text(comparison), []])
        emit(report.text(found, sides, width_of(sys.stdout), args.all, args.text))
        if comparison:
            from envsnap.report.explain import top

            emit([[], *top(_explained(a, b, args.store), width_of(sys.stdout))])
    if found.changes:
        return EXIT_DIFFERENT
    return EXIT_UNKNOWN if args.strict and found.unknown else EXIT_OK


def _compared(a: Side, b: Side, store: str) -> Comparison | None:
    """The comparison of what was measured, where both sides are runs."""
    if not a.runs or not b.runs:
        return None
    from pathlib import Path

    from envsnap.runs.compare import compare
    from envsnap.store import Store

    return compare(a.runs, b.runs, Store(Path(store) if store else None).history(a.runs))


def _explained(a: Side, b: Side, store: str) -> Explanation:
    """Whose first suspects a diff of runs ends with."""
    from pathlib import Path

    from envsnap.explain import explain
    from envsnap.explain.past import of_store
    from envsnap.store import Store

    return explain(a, b, history=of_store(Store(Path(store) if store else None)))


def _two_sides(args: Any) -> tuple[tuple[str, str], tuple[Side, Side]]:
    """Those that were named, and the machines that are captured after them."""
    from envsnap.cli._sides import live_sides, load_side

    names = _names(args.snapshots, shared.live_count(args))
    loaded = [(name, load_side(name, args.store)) for name in names]
    named = [(side.label or name, side) for name, side in loaded]  # a dump's own name may hold a secret
    if shared.live_count(args):
        named += live_sides(args, named[0][1] if named else None)
    (one, a), (two, b) = named
    return (one, two), (a, b)


def _names(given: list[str], live: int = 0) -> list[str]:
    from envsnap.store import newest

    if len(given) + live > 2:
        raise Trouble(f"A diff takes two sides, not {len(given) + live}.")
    names = [*given, *map(str, newest(2 - live - len(given)))] if len(given) + live < 2 else given
    if len(names) + live < 2:
        what = "is no snapshot to compare with" if live else "are no two snapshots to compare"
        raise Trouble(f"There {what}.", ["envsnap", "capture"])
    if names == ["-", "-"]:
        raise Trouble("Only one of the sides can come from standard input.")
    return names
