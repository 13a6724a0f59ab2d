"""Say which change made it slow, or that none did.

A side is a file of a snapshot or a run, or a name in the store: a label, LABEL@2 for the group before, last, last~1,
the id of a group (/a and /b are its arms). With --fast and --slow all runs of two labels are taken. Suspects are ranked
by what their change can do, by which term of the speed moved, by how large they can be, and by the store's other runs.
--control takes a pair measured in the same two states under another load (without speculation, say): a suspect has to
explain both. Exit code 0: a captured change is the likeliest cause, 1: none is, 2: trouble.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, Trouble, did_you_mean
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.explain.explanation import Side
    from envsnap.explain.past import Past

EXAMPLE = "envsnap explain fast slow --control fast-plain slow-plain"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("sides", nargs="*", metavar="SIDE", help="two sides, in any order")
    parser.add_argument("--fast", default="", metavar="LABEL", help="all runs of this label")
    parser.add_argument("--slow", default="", metavar="LABEL", help="all runs of this label")
    shared.add_explained(parser)
    parser.add_argument("--without", action="append", default=[], metavar="STORY", help="leave a story out of account")
    parser.add_argument("--all", action="store_true", help="cut nothing, and show the weights")
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    shared.add_format(parser, "json", "markdown")


def run(args: Any) -> int:
    """Explain and print."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.cli._sides import load_side
    from envsnap.explain import explain
    from envsnap.report import explain as report
    from envsnap.report.lines import width_of

    a, b = _sides(args)
    control = (load_side(args.control[0], args.store), load_side(args.control[1], args.store)) if args.control else None
    found = explain(a, b, control=control, history=_history(args), without=args.without)
    names = a.label or "A", b.label or "B"
    if args.format == "json":
        from envsnap.report.explain_json import as_json

        emit_json(as_json(found, names))
    elif args.format == "markdown":
        sys.stdout.write(report.markdown(found, names, args.all))
    else:
        emit(report.text(found, names, width_of(sys.stdout), args.all))
    return EXIT_OK if found.suspects[0].changes else EXIT_DIFFERENT


def _sides(args: Any) -> tuple[Side, Side]:
    from envsnap.cli._sides import load_side

    if args.fast or args.slow:
        if args.sides or not (args.fast and args.slow):
            raise Trouble("Give two sides, or both --fast and --slow.", ["envsnap", "explain", "--help"])
        return _labelled(args.fast, args.store), _labelled(args.slow, args.store)
    if len(args.sides) != 2:
        raise Trouble(f"An explanation takes two sides, not {len(args.sides)}.", ["envsnap", "explain", "--help"])
    if args.sides == ["-", "-"]:
        raise Trouble("Only one of the sides can come from standard input.")
    return load_side(args.sides[0], args.store), load_side(args.sides[1], args.store)


def _labelled(label: str, folder: str) -> Side:
    """Every run of a label, whatever its group."""
    from pathlib import Path

    from envsnap.explain.explanation import Side
    from envsnap.store import Store

    store = Store(Path(folder) if folder else None)
    chosen = [e for e in store.entries() if e.label == label]
    if not chosen:
        near = did_you_mean(label, {e.label for e in store.entries() if e.label})
        raise Trouble(f"There is no run of the label {label!r}{near}", ["envsnap", "log"])
    runs = [store.load(e.id) for e in sorted(chosen, key=lambda e: (e.started_at, e.id))]
    return Side.of_runs(runs, label)


def _history(args: Any) -> list[Past]:
    """The store's other runs, in short; none where there is no store."""
    from pathlib import Path

    from envsnap.explain.past import of_store
    from envsnap.store import Store

    return of_store(Store(Path(args.store) if args.store else None)) if args.history else []
