"""Check this machine, or a snapshot, against a good one: its identities and tunables must hold.

Only the sections that the baseline has are captured and compared. Exit code 0: pass, 1: fail, 2: trouble, 3: what
the baseline requires could not be read (a pass with --allow-unknown).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, EXIT_UNKNOWN, Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap check --baseline good.json --ignore repo --ignore 'env[*_PORT]'"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "snapshot", nargs="?", metavar="SNAP", help="check this instead of capturing; - is standard input"
    )
    parser.add_argument("--baseline", required=True, metavar="SNAP", help="the good snapshot")
    parser.add_argument("--allow-unknown", action="store_true", help="pass where something could not be read")
    parser.add_argument("--ignore", action="append", default=[], metavar="PATTERN", help="paths that are not required")
    parser.add_argument("--all", action="store_true", help="cut nothing")
    parser.add_argument("-q", "--quiet", action="store_true", help="the exit code alone")
    shared.add_capture(parser)
    shared.add_format(parser, "json", "markdown")


def limit(args: Any) -> float | None:
    """Seconds after which nobody waits for a capture any longer."""
    return None if args.snapshot else shared.deadline_limit(args)


def run(args: Any) -> int:
    """Check and print."""
    from envsnap.check import check
    from envsnap.cli._output import emit, emit_json
    from envsnap.report import check as report
    from envsnap.snapshot import load

    if args.snapshot == args.baseline == "-":
        raise Trouble("Only one of the snapshots can come from standard input.")
    baseline = load(args.baseline)
    snapshot = load(args.snapshot) if args.snapshot else _captured(args, baseline)
    result = check(snapshot, baseline, ignore=args.ignore)
    if args.quiet:
        pass
    elif args.format == "json":
        emit_json(report.as_json(result, args.snapshot or "this machine", args.baseline))
    elif args.format == "markdown":
        sys.stdout.write(report.markdown(result, args.all))
    else:
        emit(report.text(result, args.all))
    if result.failed:
        return EXIT_DIFFERENT
    return EXIT_UNKNOWN if result.unknown and not args.allow_unknown else EXIT_OK


def _captured(args: Any, baseline: Any) -> Any:
    """This machine, in the baseline's scope where none is given; process ids and logs are of one run alone."""
    from dataclasses import replace

    from envsnap.collectors import names

    scope = shared.scope_of(args)
    kept: dict[str, Any] = {
        name: getattr(scope, name) or tuple(map(str, then))
        for name in ("match", "repos", "models", "servers")
        if isinstance(then := baseline.scope.get(name), list)
    }
    only = [name for name in names() if name in baseline.sections]
    if not only:
        raise Trouble("The baseline holds no section that this envsnap knows.")
    scope = replace(scope, python=scope.python or str(baseline.scope.get("python", "")), **kept)
    return shared.take(args, scope, only, shared.redactor_of(args))
