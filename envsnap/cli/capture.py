"""Record all state that can matter into a snapshot file."""

from __future__ import annotations

import argparse
from typing import Any

EXAMPLE = "envsnap capture -o before.json --match sglang"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("-o", "--output", metavar="FILE", default="")


def run(args: Any) -> int:
    """Capture and write."""
    import sys

    from envsnap.capture import capture
    from envsnap.snapshot import dumps, write

    snapshot = capture()
    if args.output in ("", "-"):
        sys.stdout.write(dumps(snapshot))
    else:
        write(snapshot, args.output)
    return 0
