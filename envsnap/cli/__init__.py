"""The command line: one module per verb; the only place that prints or exits.

A verb is a module with a docstring (its first line is the help text, the rest is shown by `--help`), EXAMPLE
(a command line), `arguments(parser)` and `run(args) -> int`. Heavy imports belong inside `run`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from typing import Any, NoReturn

from envsnap import __version__

EXIT_OK, EXIT_DIFFERENT, EXIT_TROUBLE, EXIT_UNKNOWN = 0, 1, 2, 3


class Trouble(Exception):
    """Something that the user has to mend: one sentence, and where there is one the command that helps."""

    def __init__(self, message: str, next_step: list[str] | None = None) -> None:
        super().__init__(message)
        self.next_step = next_step or []


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Trouble(f"{message[:1].upper()}{message[1:]}.", [*self.prog.split(), "--help"])


def verbs() -> list[str]:
    """The names of all verbs, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = _Parser(
        prog="envsnap",
        description="Why is the same benchmark slow today? Record the state that can matter, compare two records, "
        "check a machine.",
        epilog="Exit codes: 0 same or pass, 1 different or fail, 2 trouble, 3 something required is unknown. "
        "ENVSNAP_DISABLE=1 turns every use into a no-op that says so.",
    )
    top.add_argument("--version", action="version", version=f"envsnap {__version__}")
    sub = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name in verbs():
        module = importlib.import_module(f"{__name__}.{name}")
        doc = module.__doc__ or ""
        verb = sub.add_parser(
            name,
            help=doc.split("\n")[0].rstrip("."),
            description=doc,
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.arguments(verb)
        verb.add_argument("--debug", action="store_true", help="show the traceback of an unforeseen error")
        verb.set_defaults(module=module)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code and never raises (but for --debug)."""
    arguments = sys.argv[1:] if argv is None else argv
    if os.environ.get("ENVSNAP_DISABLE") == "1":
        print("envsnap: disabled by ENVSNAP_DISABLE=1, nothing was done.", file=sys.stderr)
        return EXIT_OK
    args: Any = None
    try:
        top = parser()
        args = top.parse_args(arguments)
        if args.verb is None:
            top.print_help()
            return EXIT_TROUBLE
        code: int = args.module.run(args)
        return code
    except Trouble as trouble:
        return _report(str(trouble), trouble.next_step, "--format" in arguments and "json" in arguments)
    except KeyboardInterrupt:
        return 130


def _report(message: str, next_step: list[str], as_json: bool) -> int:
    import json

    if as_json:
        print(json.dumps({"format": "envsnap.error", "version": 1, "error": message, "next": next_step}))
    else:
        print(f"envsnap: {message}", file=sys.stderr)
    return EXIT_TROUBLE
