"""Record this machine into a folder that replays anywhere: for a bug report, or as a test.

Holds everything that a capture asks the machine, without secrets, and with stand-ins for user names, home directories,
host names, addresses, UUIDs and serial numbers. Look over its calls.jsonl before you publish it: command lines,
patches, and names of branches, remotes, repositories and models are in it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from envsnap.cli import EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap record slow-machine --match sglang"

limit = shared.deadline_limit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("folder", metavar="DIR", help="where to write; empty, new, or a recorded machine")
    shared.add_capture(parser)
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Capture and write the folder."""
    from envsnap.recording import record
    from envsnap.redact import Redactor

    folder = Path(args.folder)
    redactor = Redactor(reveal=args.reveal, redact=args.redact)
    try:
        recorded = record(folder, shared.scope_of(args), deadline=args.deadline, redactor=redactor)
    except OSError as error:
        raise Trouble(f"Cannot write {error.filename or folder}: {error.strerror}.") from error
    if args.format == "json":
        from envsnap.cli._output import emit_json
        from envsnap.report.done import recording

        emit_json(recording(str(folder), recorded))
        return EXIT_OK
    print(f"envsnap: {recorded.calls} calls, {recorded.secrets} secrets replaced.", file=sys.stderr)
    if recorded.late:
        print(f"envsnap: {recorded.late} more secrets show only on replay: do not publish it.", file=sys.stderr)
    if recorded.lost:
        shown = ", ".join(recorded.lost[:4]) + (f" and {len(recorded.lost) - 4} more" if len(recorded.lost) > 4 else "")
        print(f"envsnap: not in the recording, though read here: {shown}.", file=sys.stderr)
    print(folder)
    return EXIT_OK
