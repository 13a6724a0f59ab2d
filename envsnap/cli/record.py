"""Record this machine into a folder that replays anywhere: for a bug report, or as a test.

Holds everything that a capture asks the machine, without secrets, and with stand-ins for user names, home directories,
host names, addresses, UUIDs and serial numbers. Look over its calls.jsonl before you publish it: command lines,
patches, and names of branches, remotes, repositories and models are in it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.capture import Progress
    from envsnap.recording import Recorded
    from envsnap.remote import RemoteHost

EXAMPLE = "envsnap record slow-machine --match sglang"

limit = shared.deadline_limit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("folder", metavar="DIR", help="where to write; empty, new, or a recorded machine")
    shared.add_capture(parser)
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Capture and write the folder."""
    folder = Path(args.folder)
    try:
        recorded = _recorded(args, folder)
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


def _recorded(args: Any, folder: Path) -> Recorded:
    """Record this machine, or the one behind `--via`. Raises: Trouble, OSError."""
    from envsnap.recording import record
    from envsnap.redact import Redactor

    scope = shared.scope_of(args)
    redactor = Redactor(reveal=args.reveal, redact=args.redact)
    if not args.via:
        return record(folder, scope, deadline=args.deadline, redactor=redactor)
    if len(args.via) > 1:
        raise Trouble("A folder holds one machine: give one --via at a time.")
    from envsnap.cli import _live

    def work(host: RemoteHost, progress: Progress) -> Recorded:
        return record(folder, scope, host, deadline=args.deadline, redactor=redactor)

    recorded = _live.on_each(args, work)[0].result
    assert recorded is not None  # else there was trouble
    return recorded
