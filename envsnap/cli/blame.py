"""Show when a reading changed over the runs of the store, and how the metric moved with it.

KEY is a key, a path, or a pattern in which * stands for anything. Exit code 0: it changed, 1: it never did.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, Trouble, did_you_mean
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap blame 'worker[*].env[NCCL_PROTO]'"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("key", metavar="KEY", help="a key, a path or a pattern")
    parser.add_argument("--metric", default="", metavar="NAME", help="default: the first that most runs have")
    parser.add_argument("--label", default="", metavar="LABEL", help="the runs of this label alone")
    parser.add_argument("--all", action="store_true", help="cut nothing")
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Look through the runs and print."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.collectors import keys
    from envsnap.explain.blame import blame, first_metric
    from envsnap.report import blame as report
    from envsnap.store import Store

    store = Store(Path(args.store) if args.store else None)
    entries = [e for e in store.entries() if not args.label or e.label == args.label]
    if not entries:
        raise Trouble("There are no runs to look through.", ["envsnap", "log"])
    metric = args.metric or first_metric(entries)
    found = blame(args.key, entries, store.states(), metric)
    if not found:
        raise Trouble(f"No run has a reading {args.key!r}{did_you_mean(args.key, keys())}", ["envsnap", "key"])
    if args.format == "json":
        emit_json(report.as_json(args.key, found, metric))
    else:
        emit(report.text(found, metric, args.all))
    return EXIT_OK if any(each.changed for each in found) else EXIT_DIFFERENT
