"""Record all state that can matter into a snapshot file.

Writes JSON (gzip where the name ends in .gz) to the file given with -o, to standard output for `-o -`, else to a
file named by the time in .envsnap/. The file's name goes to standard output, a summary to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from envsnap.cli import EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap capture -o before.json --match sglang --note 'driver 580, cold caches'"

MOMENTS = ("standalone", "before", "during", "after")

limit = shared.deadline_limit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="where to write; - is standard output")
    shared.add_capture(parser)
    parser.add_argument("--only", default="", metavar="SECTION,…", help="these sections alone")
    parser.add_argument(
        "--moment", choices=MOMENTS, default=MOMENTS[0], help="of a benchmark; `during` means under load"
    )
    parser.add_argument("--note", default="", metavar="TEXT", help="kept with the snapshot")
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Capture and write."""
    from dataclasses import replace

    from envsnap.cli._output import emit, emit_json
    from envsnap.report import summary
    from envsnap.report.lines import width_of
    from envsnap.snapshot import dumps, write

    scope, only = shared.scope_of(args), shared.sections_of(args.only)
    target = _target(args)
    redactor = shared.redactor_of(args)
    snapshot = shared.take(args, scope, only, redactor)
    snapshot = replace(snapshot, moment=args.moment, note=redactor.clean_text(args.note))
    if target:
        try:
            write(snapshot, target)
        except OSError as error:
            raise Trouble(f"Cannot write {target}: {error.strerror or error}.") from error
    if not args.quiet and args.format == "text":
        emit(summary.text(snapshot, str(target or "standard output"), width_of(sys.stderr)), sys.stderr)
        sys.stderr.flush()
    if not target:
        from envsnap.cli._supervise import lift_limit

        lift_limit()
        sys.stdout.write(dumps(snapshot))
    elif args.format == "json":
        emit_json(summary.as_json(snapshot, str(target)))
    else:
        print(target)
    return EXIT_OK


def _target(args: Any) -> Path | None:
    """The file to write, or None for standard output; refused before the work is done, not after."""
    if args.output == "-":
        if args.format == "json":
            raise Trouble("-o - and --format json would both write to standard output.")
        return None
    if not args.output:
        from envsnap.store import FOLDER, new_file

        try:
            return new_file()
        except OSError as error:
            raise Trouble(
                f"Cannot make {FOLDER}/ here: {error.strerror}.", ["envsnap", "capture", "-o", "FILE"]
            ) from error
    path = Path(args.output)
    if path.exists() and not path.is_file():
        kind = "a directory" if path.is_dir() else "not a regular file"
        raise Trouble(f"Cannot write {path}: it is {kind}.")
    if not path.parent.is_dir():
        raise Trouble(f"Cannot write {path}: there is no directory {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise Trouble(f"Cannot write {path}: no permission to write in {path.parent}.")
    return path
