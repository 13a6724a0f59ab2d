"""Show what a snapshot holds, or the part of it that matches.

PATTERN is a path or the beginning of one, a key's name, or has `*` for anything: `gpu[0]`, `env[NCCL_*]`.
Without SNAP, or with an empty one, the newest in .envsnap/ is shown.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap show before.json 'env[NCCL_*]'"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "snapshot", nargs="?", default="", metavar="SNAP", help="a snapshot's file; - is standard input"
    )
    parser.add_argument("pattern", nargs="*", metavar="PATTERN", help="what to show; default: everything")
    parser.add_argument("--all", action="store_true", help="cut no value")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Show; exit code 1 where nothing matches."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.report import show
    from envsnap.report.lines import width_of
    from envsnap.snapshot import load
    from envsnap.store import newest

    source = args.snapshot or next(map(str, newest()), "")
    if not source:
        raise Trouble("There is no snapshot in .envsnap/ to show.", ["envsnap", "capture"])
    snapshot = load(source)
    if args.format == "json":
        document = show.as_json(snapshot, source, args.pattern)
        emit_json(document)
        return EXIT_OK if document["readings"] else EXIT_DIFFERENT
    lines = show.text(snapshot, args.pattern, width_of(sys.stdout), args.all)
    if not lines:
        print(f"envsnap: nothing in {source} matches {' '.join(args.pattern)}.", file=sys.stderr)
        return EXIT_DIFFERENT
    emit(lines)
    return EXIT_OK
