"""Make a partial snapshot out of other people's dumps: bug reports, nvidia-smi, collect_env, logs, results.

FILE holds one dump or several pasted into one text, gzipped or not; each kind is found by itself, with what mail,
markdown, terminals and log drivers add taken off. What several files say is put together: they have to be of one
machine. Secrets are replaced as a capture does it, before anything is shown or written. With -o the result is written:
a snapshot, or a run where the text holds figures of speed, or a folder of runs where it holds several repetitions.
`envsnap diff`, `explain`, `show` and `check` take such files as they are.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.importers._assembly import Imported

EXAMPLE = "envsnap import bug-report.txt -o theirs.json"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="dumps of one machine; - is standard input")
    parser.add_argument("-o", "--output", default="", metavar="PATH", help="write the snapshot or the runs there")
    parser.add_argument("--list", action="store_true", help="name the kinds of dumps, and which versions were seen")
    parser.add_argument("--all", action="store_true", help="cut nothing")
    parser.add_argument("--reveal", action="append", default=[], metavar="NAME", help="a name that is no secret")
    parser.add_argument("--redact", action="append", default=[], metavar="NAME", help="a name that is one")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Import and say what came of it."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.report import importing as report
    from envsnap.report.lines import width_of

    if args.list:
        if args.format == "json":
            emit_json(report.kinds_json())
        else:
            emit(report.kinds(width_of(sys.stdout), args.all))
        return EXIT_OK
    if not args.files:
        raise Trouble("There is no file to import.", ["envsnap", "import", "--help"])
    if args.files.count("-") > 1:
        raise Trouble("Only one of the files can come from standard input.")
    from envsnap.cli._sides import import_files

    found = import_files(args.files, shared.redactor_of(args))
    written = _write(args.output, found) if args.output else []
    if args.format == "json":
        emit_json(report.as_json(found, written))
    else:
        emit(report.text(found, written, width_of(sys.stdout), args.all))
    return EXIT_OK


def _write(output: str, found: Imported) -> list[str]:
    """Write a snapshot, a run, or a folder of runs; returns the files."""
    from pathlib import Path

    from envsnap.jsonfile import write_atomically
    from envsnap.runs.run import packed
    from envsnap.snapshot import write

    path = Path(output)
    if not found.runs:
        write(found.snapshot, path)
        return [str(path)]
    if len(found.runs) == 1:
        write_atomically(path, _bytes(path, found.runs[0].as_json()))
        return [str(path)]
    if path.is_file():
        raise Trouble(f"{path} is a file, and {len(found.runs)} repetitions need a folder.")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = [path / f"{one.id}.json.gz" for one in found.runs]
    for file, one in zip(files, found.runs):
        write_atomically(file, packed(one.as_json()))
    return [str(file) for file in files]


def _bytes(path: Any, document: Any) -> bytes:
    import json

    from envsnap.runs.run import packed

    return packed(document) if path.suffix == ".gz" else (json.dumps(document, indent=1) + "\n").encode("ascii")
