"""The command line: one module per verb; the only place that prints or exits.

A verb is a module with a docstring (its first line is the help text, the rest is shown by `--help`), EXAMPLE
(a command line), `arguments(parser)` and `run(args) -> int`. Heavy imports belong inside `run`. A verb that
touches the machine also has `limit(args)`: unless that is None it is run in a child that the command does not
wait for longer than that many seconds, because a driver can hang in a way that nothing ends.

One with TAKES_COMMAND is given what stands behind `--` as `args.command`, and with `finish(args, code) -> int` has the
last word in the process that was called, whatever came of its run.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from envsnap import __version__
from envsnap.jsonfile import SnapshotError
from envsnap.wording import printable

EXIT_OK, EXIT_DIFFERENT, EXIT_TROUBLE, EXIT_UNKNOWN, EXIT_WARNING = range(5)
EXIT_SIGNAL = 128


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
    # NOTE: a verb that is a word of Python's has an underscore behind its module's name.
    return sorted(m.name.removesuffix("_") for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def module_of(verb: str | None) -> Any:
    """The module of a verb."""
    return importlib.import_module(f"{__name__}.{verb}{'_' if keyword.iskeyword(verb or '') else ''}")


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The whole command line, or that of one verb alone, which spares importing the others."""
    top = _Parser(
        prog="envsnap",
        description="Why is the same benchmark slow today? Record the state that can matter, compare two records, "
        "check a machine.",
        epilog="Exit codes: 0 same or pass, 1 different or fail, 2 trouble, 3 something required is unknown, 4 warnings"
        " under check --strict. "
        "ENVSNAP_DISABLE=1 turns every use into a no-op that says so.",
    )
    top.add_argument("--version", action="version", version=f"envsnap {__version__}")
    sub = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name in [only] if only else verbs():
        module = module_of(name)
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
    if "_ARGCOMPLETE" in os.environ:
        from envsnap.cli._completion import answer

        answer()
    _prepare_streams()
    if os.environ.get("ENVSNAP_DISABLE") == "1":
        print("envsnap: disabled by ENVSNAP_DISABLE=1, nothing was done.", file=sys.stderr)
        return _guarded(lambda: _only_the_command(arguments), arguments)
    return _guarded(lambda: _dispatch(arguments), arguments)


def _prepare_streams() -> None:
    """Streams that take any text, whatever the locale, and that are there even where the caller closed them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _only_the_command(arguments: Sequence[str]) -> int:
    """A script that puts a command behind `--` wants it to run in any case."""
    if "--" not in arguments or not arguments[arguments.index("--") + 1 :]:
        return EXIT_OK
    from envsnap.cli._command import become

    return become(arguments[arguments.index("--") + 1 :])


def _dispatch(arguments: Sequence[str]) -> int:
    first = next((a for a in arguments if not a.startswith("-")), None)
    if first is not None and first not in verbs():
        raise Trouble(f"There is no verb {first!r}{did_you_mean(first, verbs())}", ["envsnap", "--help"])
    command: list[str] = []
    if "--" in arguments and getattr(module_of(first), "TAKES_COMMAND", False):
        at = arguments.index("--")
        arguments, command = arguments[:at], list(arguments[at + 1 :])
    top = parser(first)
    args: Any = top.parse_args(arguments)
    if args.verb is None:
        top.print_help()
        return EXIT_TROUBLE
    if not hasattr(args.module, "finish"):
        return _run(args, arguments)
    args.command = command
    code: int = args.module.finish(args, _guarded(lambda: _run(args, arguments), arguments))
    return code


def _run(args: Any, arguments: Sequence[str]) -> int:
    seconds = args.module.limit(args) if hasattr(args.module, "limit") else None
    if seconds is None:
        code: int = args.module.run(args)
        return code
    from envsnap.cli._supervise import supervised

    ended = supervised(lambda: _guarded(lambda: args.module.run(args), arguments), seconds)
    if ended is None:
        raise Trouble(f"Nothing came back within {seconds:.0f} s: a driver or a file system hangs.")
    return ended


def _guarded(work: Callable[[], int], arguments: Sequence[str]) -> int:
    """The exit code of `work`; whatever it raises is told in one sentence."""
    as_json = "--format=json" in arguments or ("--format", "json") in pairwise(arguments)
    try:
        code = work()
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse, after --help and --version
        return stop.code if isinstance(stop.code, int) else EXIT_OK
    except KeyboardInterrupt as interrupt:
        return EXIT_SIGNAL + (interrupt.args[0] if interrupt.args else 2)
    except BrokenPipeError:  # the reader went away, which is its right
        _discard_output()
        return EXIT_SIGNAL + 13
    except Trouble as trouble:
        return _report(str(trouble), trouble.next_step, as_json)
    except SnapshotError as error:
        return _report(str(error), [], as_json)
    except OSError as error:
        if "--debug" in arguments:
            raise
        _discard_output()
        where = f": {error.filename}" if error.filename else ""
        return _report(f"{error.strerror or error}{where}.", [], False)
    except Exception as error:
        if "--debug" in arguments:
            raise
        text = f"{type(error).__name__}: {str(error)[:200]}".rstrip(": ")
        return _report(f"Unforeseen error, {text}.", ["envsnap", *arguments, "--debug"], as_json)


def _discard_output() -> None:
    """Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(message: str, next_step: list[str], as_json: bool) -> int:
    """Tell what is wrong. What was typed may stand in it, and with that a password."""
    import json
    import shlex

    from envsnap.redact import Redactor

    redactor = Redactor()
    message, next_step = redactor.clean_text(message), [redactor.clean_text(word) for word in next_step]
    if as_json:
        print(json.dumps({"format": "envsnap.error", "version": 1, "error": message, "next": next_step}))
    else:
        hint = f" Try: {shlex.join(next_step)}" if next_step else ""
        print(f"envsnap: {printable(message + hint)}", file=sys.stderr)
    return EXIT_TROUBLE


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: `; did you mean X?`, or a full stop where nothing is close."""
    import difflib

    close = difflib.get_close_matches(word, list(choices), n=1)
    return f"; did you mean {close[0]}?" if close else "."
