"""Print the JSON Schema of snapshots, or write all schemas into a folder.

The schemas are generated from the declared keys: what one says about a reading is what `envsnap key` says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from envsnap.cli import EXIT_OK

EXAMPLE = "envsnap schema --write schemas"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("--write", metavar="DIR", help="write one file per section and per output format into DIR")


def run(args: Any) -> int:
    """Print or write."""
    from envsnap import schema

    if args.write is None:
        sys.stdout.write(schema.dumps(schema.bundle()))
        return EXIT_OK
    written = schema.write(Path(args.write))
    print(f"{len(written)} schemas written below {args.write}", file=sys.stderr)
    return EXIT_OK
