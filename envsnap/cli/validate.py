"""Check files against the schema of their format.

Snapshots, runs and everything that envsnap prints as JSON can be checked. Exit code 1 where a file breaks its schema.
"""

from __future__ import annotations

import argparse
from typing import Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap validate before.json after.json"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file; - is standard input")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Validate and say what is wrong."""
    from envsnap.cli._output import emit, emit_json

    found = {name: _violations(name) for name in args.files}
    if args.format == "json":
        files = [{"name": name, "valid": not wrong, "violations": wrong} for name, wrong in found.items()]
        emit_json({"format": "envsnap.validation", "version": 1, "files": files})
    else:
        for name, wrong in found.items():
            emit([[(f"{name}  ", "path"), ("valid", "good") if not wrong else ("not valid", "bad")]])
            emit([[(f"  {sentence}", "")] for sentence in wrong])
    return EXIT_DIFFERENT if any(found.values()) else EXIT_OK


def _violations(name: str) -> list[str]:
    """Sentences on what is wrong. Raises: SnapshotError for what is no JSON at all."""
    from envsnap.jsonfile import SnapshotError
    from envsnap.runs import run
    from envsnap.schema import violations
    from envsnap.snapshot import FORMAT, from_json
    from envsnap.texts import load_document

    document = load_document(name)
    wrong = violations(document)
    if not wrong:
        try:
            if document["format"] == FORMAT:
                from_json(document, name)
            elif document["format"] == run.FORMAT:
                run.parse(document, name)
        except SnapshotError as error:
            return [str(error)]
    return wrong
