"""Make a copy of a snapshot without what says whose machine it is.

Labels are removed; user names, home directories, host names, network and hardware addresses, UUIDs and serial numbers
are replaced by stand-ins, the same one by the same stand-in everywhere. Secrets stay the hashes that they are. Patches,
command lines, variables, and names of repositories, branches and models stay: look them over before you publish.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from envsnap.cli import EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap share before.json -o public.json"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("snapshot", metavar="SNAP", help="a snapshot's file; - is standard input")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="", help="where to write; - is standard output (default: SNAP.shared)"
    )
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Write the copy."""
    from envsnap.cli._output import emit_json
    from envsnap.report import done
    from envsnap.share import left_over, share
    from envsnap.snapshot import dumps, load, write

    target = args.output or _beside(args.snapshot)
    if target == "-" and args.format == "json":
        raise Trouble("The copy and --format json would both go to standard output; name a file with -o.")
    copy = share(load(args.snapshot))
    if target == "-":
        sys.stdout.write(dumps(copy))
        return EXIT_OK
    try:
        write(copy, target)
    except OSError as error:
        raise Trouble(f"Cannot write {target}: {error.strerror or error}.") from error
    free = left_over(copy)
    if args.format == "json":
        emit_json(done.shared(target, free))
        return EXIT_OK
    if free:
        shown = ", ".join(free[:6]) + (f" and {len(free) - 6} more" if len(free) > 6 else "")
        print(f"envsnap: look over before you publish: {shown}", file=sys.stderr)
    print(target)
    return EXIT_OK


def _beside(source: str) -> str:
    """`before.json.gz` -> `before.shared.json.gz`; standard input goes to standard output."""
    if source == "-":
        return "-"
    path = Path(source)
    stem, dot, suffixes = path.name.partition(".")
    return str(path.with_name(f"{stem}.shared{dot}{suffixes}"))
