"""Remove runs from the store, with their samples, logs and records; none where one of the names is not known."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from envsnap.cli import EXIT_OK
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap rm fast@2"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("names", nargs="+", metavar="RUN", help="a label, LABEL@N, last, last~N, a group's or run's id")
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Remove."""
    from envsnap.cli._output import emit_json
    from envsnap.report import done
    from envsnap.store import Store
    from envsnap.wording import plural

    removed = Store(Path(args.store) if args.store else None).remove(*args.names)
    if args.format == "json":
        emit_json(done.removed(removed))
    else:
        print(f"removed {plural(len(removed), 'run')}: {', '.join(removed)}")
    return EXIT_OK
