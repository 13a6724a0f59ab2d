"""Show what a snapshot or a run holds, or the part of it that matches.

SIDE is a file, or a name in the store as for `envsnap diff`: a label, last, the id of a group or a run. Of a run its
figures, costs, reason and logs come first, then the state it was measured in. PATTERN is a path or the beginning of
one, a key's name, or has `*` for anything: `gpu[0]`, `env[NCCL_*]`. Without SIDE, or with an empty one, the newest
snapshot in .envsnap/ is shown. With --match, --pid or --via it is the state now, and all that is named is a PATTERN.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.explain.explanation import Side

EXAMPLE = "envsnap show before.json 'env[NCCL_*]'"

limit = shared.live_limit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "snapshot",
        nargs="?",
        default="",
        metavar="SIDE",
        help="a file, or a run by its label or id; - is standard input",
    )
    parser.add_argument("pattern", nargs="*", metavar="PATTERN", help="what to show; default: everything")
    parser.add_argument("--all", action="store_true", help="cut no value")
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    shared.add_live_side(parser)
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Show; exit code 1 where nothing matches."""
    from pathlib import Path

    from envsnap.cli._sides import live_sides, load_side
    from envsnap.store import newest

    if shared.live_count(args):
        patterns = [*filter(None, [args.snapshot]), *args.pattern]
        return max(_show(args, side, name, patterns) for name, side in live_sides(args))
    source = args.snapshot or next(map(str, newest(root=Path(args.store) if args.store else None)), "")
    if not source:
        raise Trouble("There is no snapshot in .envsnap/ to show.", ["envsnap", "capture"])
    return _show(args, load_side(source, args.store), source, args.pattern)


def _show(args: Any, side: Side, source: str, patterns: list[str]) -> int:
    from pathlib import Path

    from envsnap.cli._output import emit, emit_json
    from envsnap.report import show
    from envsnap.report.lines import width_of
    from envsnap.store import Store

    if args.format == "json":
        document = show.as_json(side.snapshot, source, patterns)
        emit_json(document)
        return EXIT_OK if document["readings"] else EXIT_DIFFERENT
    width = width_of(sys.stdout)
    lines = show.text(side.snapshot, patterns, width, args.all)
    if side.runs and not patterns:
        from envsnap.report import run as report

        runs = Store(Path(args.store) if args.store else None).runs
        lines = [*report.text(side.runs, runs, 1 << 20 if args.all else width), [], *lines]
    if not lines:
        print(f"envsnap: nothing in {source} matches {' '.join(patterns)}.", file=sys.stderr)
        return EXIT_DIFFERENT
    emit([[(f"== {source}", "title")], *lines] if len(args.via) > 1 else lines)
    return EXIT_OK
