"""Record all state that can matter into a snapshot file.

Writes JSON (gzip where the name ends in .gz) to the file given with -o, to standard output for `-o -`, else to a
file named by the time in .envsnap/. The file's name goes to standard output, a summary to standard error.
Several --via write FILE-1, FILE-2 and so on.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_OK, EXIT_TROUBLE, Trouble
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.redact import Redactor
    from envsnap.scope import Scope
    from envsnap.snapshot import Snapshot

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
    scope, only = shared.scope_of(args), shared.sections_of(args.only)
    if args.via:
        return _run_there(args, scope, only)
    target = _target(args)
    redactor = shared.redactor_of(args)
    snapshot = _noted(args, shared.take(args, scope, only, redactor), redactor)
    _write(snapshot, target)
    _summarise(args, snapshot, target)
    if not target:
        _print(snapshot)
    elif args.format == "json":
        from envsnap.cli._output import emit_json
        from envsnap.report import summary

        emit_json(summary.as_json(snapshot, str(target)))
    else:
        print(target)
    return EXIT_OK


def _run_there(args: Any, scope: Scope, only: list[str]) -> int:
    """Capture every machine behind `--via`; those that were reached are written before any trouble is told."""
    from envsnap.cli import _live
    from envsnap.cli._output import emit_json
    from envsnap.report import summary

    several = len(args.via) > 1
    if several and args.output == "-":
        raise Trouble("-o - has place for one snapshot, and there are several --via.")
    targets = _numbered(args) if several else [_target(args)]
    redactor = shared.redactor_of(args)
    taken = _live.take(args, scope, only)
    documents = []
    for there in taken.machines:
        noted = _noted(args, there.snapshot, redactor)
        target = targets[there.number] or (_new_file() if several else None)
        _write(noted, target)
        _summarise(args, noted, target)
        documents.append(summary.as_json(noted, str(target)))
        if args.format == "text":
            print(target) if target else _print(noted)
    if args.format == "json":
        emit_json(summary.several(documents, taken.troubles) if several else documents[0])
    elif taken.troubles:
        raise Trouble(" ".join(taken.troubles))
    return EXIT_TROUBLE if taken.troubles else EXIT_OK


def _noted(args: Any, snapshot: Snapshot, redactor: Redactor) -> Snapshot:
    from dataclasses import replace

    return replace(snapshot, moment=args.moment, note=redactor.clean_text(args.note))


def _write(snapshot: Snapshot, target: Path | None) -> None:
    from envsnap.snapshot import write

    if target:
        try:
            write(snapshot, target)
        except OSError as error:
            raise Trouble(f"Cannot write {target}: {error.strerror or error}.") from error


def _summarise(args: Any, snapshot: Snapshot, target: Path | None) -> None:
    """Tell on standard error what was got."""
    from envsnap.cli._output import emit
    from envsnap.report import summary
    from envsnap.report.lines import width_of

    if not args.quiet and args.format == "text":
        emit(summary.text(snapshot, str(target or "standard output"), width_of(sys.stderr)), sys.stderr)
        sys.stderr.flush()


def _print(snapshot: Snapshot) -> None:
    from envsnap.cli._supervise import lift_limit
    from envsnap.snapshot import dumps

    lift_limit()
    sys.stdout.write(dumps(snapshot))


def _numbered(args: Any) -> list[Path | None]:
    """A file for each `--via`: FILE-1.json, FILE-2.json; None for one named by the time when it is written."""
    target = _target(args) if args.output else None
    if target is None:
        return [None] * len(args.via)
    name, dot, suffixes = target.name.partition(".")
    return [target.with_name(f"{name}-{number}{dot}{suffixes}") for number in range(1, len(args.via) + 1)]


def _target(args: Any) -> Path | None:
    """The file to write, or None for standard output; refused before the work is done, not after."""
    if args.output == "-":
        if args.format == "json":
            raise Trouble("-o - and --format json would both write to standard output.")
        return None
    if not args.output:
        return _new_file()
    path = Path(args.output)
    if path.exists() and not path.is_file():
        kind = "a directory" if path.is_dir() else "not a regular file"
        raise Trouble(f"Cannot write {path}: it is {kind}.")
    if not path.parent.is_dir():
        raise Trouble(f"Cannot write {path}: there is no directory {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise Trouble(f"Cannot write {path}: no permission to write in {path.parent}.")
    return path


def _new_file() -> Path:
    from envsnap.store import FOLDER, new_file

    try:
        return new_file()
    except OSError as error:
        raise Trouble(f"Cannot make {FOLDER}/ here: {error.strerror}.", ["envsnap", "capture", "-o", "FILE"]) from error
