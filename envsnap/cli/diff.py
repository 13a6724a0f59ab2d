"""Compare two snapshots: what changed, the likeliest causes of a slowdown first.

Identities and tunables are compared always, conditions (clocks, links) only between snapshots taken under load.
Without arguments the two newest in .envsnap/ are compared, with one the newest against it. Exit code 0: same,
1: different, 2: trouble, 3: same as far as known, but something is not (with --strict).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, EXIT_UNKNOWN, Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap diff fast.json slow.json"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("snapshots", nargs="*", metavar="SNAP", help="before and after; - is standard input")
    parser.add_argument("--volatile", action="store_true", help="compare what moves by itself too (tolerantly)")
    parser.add_argument("--counters", action="store_true", help="compare counters too, as they stand")
    parser.add_argument("--labels", action="store_true", help="compare names and serials too")
    parser.add_argument("--text", action="store_true", help="show excerpts of changed files and patches")
    parser.add_argument("--all", action="store_true", help="cut nothing")
    parser.add_argument("--strict", action="store_true", help="exit 3 where no change but something unknown was found")
    parser.add_argument("-q", "--quiet", action="store_true", help="the exit code alone")
    shared.add_format(parser, "json", "markdown")


def run(args: Any) -> int:
    """Compare and print."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.diff import diff
    from envsnap.keys import Kind
    from envsnap.report import diff as report
    from envsnap.report.lines import width_of
    from envsnap.snapshot import load

    names = _names(args.snapshots)
    sides = report.Sides(names, (load(names[0]), load(names[1])))
    asked = {Kind.VOLATILE: args.volatile, Kind.COUNTER: args.counters, Kind.LABEL: args.labels}
    found = diff(*sides.snapshots, also=[kind for kind, wanted in asked.items() if wanted])
    if args.quiet:
        pass
    elif args.format == "json":
        emit_json(report.as_json(found, sides))
    elif args.format == "markdown":
        sys.stdout.write(report.markdown(found, sides, args.all))
    else:
        emit(report.text(found, sides, width_of(sys.stdout), args.all, args.text))
    if found.changes:
        return EXIT_DIFFERENT
    return EXIT_UNKNOWN if args.strict and found.unknown else EXIT_OK


def _names(given: list[str]) -> tuple[str, str]:
    from envsnap.store import newest

    if len(given) > 2:
        raise Trouble(f"A diff takes two snapshots, not {len(given)}.")
    names = [*given, *map(str, newest(2 - len(given)))] if len(given) < 2 else given
    if len(names) < 2:
        raise Trouble("There are no two snapshots to compare.", ["envsnap", "capture"])
    if names == ["-", "-"]:
        raise Trouble("Only one of the snapshots can come from standard input.")
    return names[0], names[1]
