"""Say what envsnap can and cannot read here, what is lost by that, and what would change it.

Looks as a capture looks, at an engine too if one runs or is named, and keeps no snapshot. Exit code 0: all that is here
can be read, 1: something is lost, 2: trouble.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap doctor --match sglang"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    add = parser.add_argument
    add("--pid", type=int, action="append", default=[], metavar="N", help="root of a process tree")
    add("--match", action="append", default=[], metavar="RE", help="processes by title (default: known engines)")
    add("--python", default="", metavar="EXE", help="interpreter whose packages matter")
    add("--deadline", type=float, default=5.0, metavar="S", help="seconds at most (default: 5)")
    shared.add_format(parser, "json")


def limit(args: Any) -> float:
    """Seconds after which nobody waits any longer."""
    if args.deadline <= 0:
        raise Trouble("--deadline takes a number of seconds above zero.")
    return float(args.deadline) + shared.MARGIN_SECONDS


def run(args: Any) -> int:
    """Look, judge and print."""
    import os
    import time
    from pathlib import Path

    from envsnap.capture import capture
    from envsnap.cli._output import emit, emit_json
    from envsnap.doctor import ENGINES, HINDERED, diagnose
    from envsnap.host import LiveHost
    from envsnap.redact import Redactor
    from envsnap.report import doctor as report
    from envsnap.report.lines import width_of
    from envsnap.scope import Scope
    from envsnap.store import FOLDER

    named = bool(args.pid or args.match)
    match = tuple(args.match) if named else (ENGINES,)
    scope = Scope(pids=tuple(args.pid), match=match, python=args.python)
    # NOTE: nothing is kept, so that there is no folder to make; the key of a folder that is there is used.
    redactor = Redactor(Path(FOLDER)) if Path(FOLDER).is_dir() else Redactor()
    began = time.monotonic()
    host = LiveHost()
    taken = capture(scope, host, deadline=args.deadline, redactor=redactor, apart=os.path.exists(shared.DRIVER))
    items = diagnose(taken, host)
    seconds = time.monotonic() - began
    if args.format == "json":
        emit_json(report.as_json(items, seconds))
    else:
        emit(report.text(items, seconds, width_of(sys.stdout)))
    return EXIT_DIFFERENT if any(item.state in HINDERED for item in items) else EXIT_OK
