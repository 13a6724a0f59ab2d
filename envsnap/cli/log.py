"""List the runs in the store, newest first."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from envsnap.cli import EXIT_OK, Trouble, did_you_mean
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap log --label fast"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("--label", default="", metavar="LABEL", help="the runs of this label alone")
    parser.add_argument("--changed", default="", metavar="KEY", help="the runs with which a reading of KEY changed")
    parser.add_argument("--all", action="store_true", help="cut nothing")
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """List."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.report import log as report
    from envsnap.store import Store

    store = Store(Path(args.store) if args.store else None)
    chosen = [e for e in store.entries() if not args.label or e.label == args.label]
    if args.changed:
        from envsnap.collectors import keys
        from envsnap.explain.blame import turning_points

        try:
            turned = turning_points(args.changed, chosen, store.states())
        except LookupError:
            near = did_you_mean(args.changed, keys())
            raise Trouble(f"No run has a reading {args.changed!r}{near}", ["envsnap", "key"]) from None
        chosen = [e for e in chosen if e.id in turned]
    if args.format == "json":
        emit_json(report.as_json(chosen))
    else:
        emit(report.text(chosen, args.all, changed=args.changed), sys.stdout)
    return EXIT_OK
