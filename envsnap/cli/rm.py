"""Remove runs from the store, with their samples, logs and records."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from envsnap.cli import EXIT_OK

EXAMPLE = "envsnap rm fast@2"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("names", nargs="+", metavar="RUN", help="a label, LABEL@N, last, last~N, a group's or run's id")
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")


def run(args: Any) -> int:
    """Remove."""
    from envsnap.store import Store
    from envsnap.wording import plural

    store = Store(Path(args.store) if args.store else None)
    for name in args.names:
        removed = store.remove(name)
        print(f"removed {plural(len(removed), 'run')}: {', '.join(removed)}")
    return EXIT_OK
