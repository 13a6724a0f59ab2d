"""Write a page about one side or two: one HTML file that needs no network, for a browser, a phone or a printer.

A side is what `envsnap diff` takes: a file of a snapshot or a run, a folder of runs, a name in the store. Of two sides
the page shows whether they differ in speed and by which term, the suspects with their evidence, clocks, power, links
and CPUs over time, variables by processes, the code that differs and where it ran, and on demand all that is equal; of
one side what was measured and read. Exit code 0: written, 2: trouble.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.explain.explanation import Side
    from envsnap.report.page import Content

EXAMPLE = "envsnap report fast slow -o slow.html"

FILE = "report.html"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("sides", nargs="*", metavar="SIDE", help="one side, or two in any order")
    parser.add_argument(
        "-o", "--output", default="", metavar="FILE", help=f"the page (default: {FILE}); - is standard output"
    )
    shared.add_explained(parser)
    parser.add_argument("--store", default="", metavar="DIR", help="folder that holds .envsnap (default: this one)")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Write the page, and say where it is."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.host import LiveHost
    from envsnap.jsonfile import write_atomically
    from envsnap.report import done
    from envsnap.report.explain import headline
    from envsnap.report.page import render

    target = _target(args)
    content = _content(args)
    page = render(content, LiveHost()).encode("utf-8", "backslashreplace")
    if target is None:
        sys.stdout.write(page.decode("utf-8"))
        return EXIT_OK
    try:
        write_atomically(target, page)
    except OSError as error:
        raise Trouble(f"Cannot write {target}: {error.strerror or error}.") from error
    if args.format == "json":
        emit_json(done.page(str(target), len(page), content))
    else:
        said = headline(content.explanation) if content.explanation else "Written."
        emit([[(said, "title"), (f"  {len(page) / 1e6:.2f} MB, needs no network", "dim")]], sys.stderr)
        sys.stderr.flush()
        print(target)
    return EXIT_OK


def _content(args: Any) -> Content:
    from envsnap.cli._samples import load_samples
    from envsnap.cli._sides import load_side
    from envsnap.report.page import Content
    from envsnap.wording import printable

    if len(args.sides) not in (1, 2):
        raise Trouble(f"A page is about one side or two, not {len(args.sides)}.", ["envsnap", "report", "--help"])
    if args.sides == ["-", "-"]:
        raise Trouble("Only one of the sides can come from standard input.")
    if args.control and len(args.sides) != 2:
        raise Trouble("A control pair goes with two sides.")
    sides = tuple(load_side(name, args.store) for name in args.sides)
    samples = {}
    for name, side in zip(args.sides, sides):
        found, trouble = load_samples(name, side, args.store)
        samples.update(found)
        for sentence in trouble:
            print(f"envsnap: {printable(sentence)} Its timelines are left out.", file=sys.stderr)
    names = tuple(side.label or name for name, side in zip(args.sides, sides))
    if len(sides) == 1:
        return Content(sides, names, samples)
    return _compared(args, (sides[0], sides[1]), names, samples)


def _compared(args: Any, sides: tuple[Side, Side], names: tuple[str, ...], samples: Any) -> Content:
    """Two sides with their diff and what explains it."""
    from envsnap.cli._sides import load_side
    from envsnap.diff import diff
    from envsnap.explain import explain
    from envsnap.explain.past import of_store
    from envsnap.report.page import Content
    from envsnap.store import Store

    if sys.stderr.isatty():
        print("envsnap: comparing and explaining …", file=sys.stderr)
    control = (load_side(args.control[0], args.store), load_side(args.control[1], args.store)) if args.control else None
    history = of_store(Store(Path(args.store) if args.store else None)) if args.history else []
    return Content(
        sides,
        names,
        samples,
        diff(sides[0].snapshot, sides[1].snapshot),
        explain(*sides, control=control, history=history),
    )


def _target(args: Any) -> Path | None:
    """The file to write, None for standard output; refused before the work is done, not after."""
    if args.output == "-":
        if args.format == "json":
            raise Trouble("-o - and --format json would both write to standard output.")
        return None
    path = Path(args.output or FILE)
    if path.exists() and not path.is_file():
        raise Trouble(f"Cannot write {path}: it is not a regular file.")
    if not path.parent.is_dir():
        raise Trouble(f"Cannot write {path}: there is no directory {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise Trouble(f"Cannot write {path}: no permission to write in {path.parent}.")
    if not args.output and path.exists() and not _is_ours(path):
        raise Trouble(
            f"{path} is here already, and no page of envsnap.", ["envsnap", "report", *args.sides, "-o", "FILE"]
        )
    return path


def _is_ours(path: Path) -> bool:
    """Whether a file is a page that envsnap wrote, which it may write anew without being told."""
    from envsnap.report.page.document import MARK

    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(4096)
    except OSError:
        return False
