"""Say what a key means, where it comes from and what to do about it.

KEY is a path out of a diff, a key, the last part of one, or a variable's name;
without it all keys are listed.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from envsnap.cli import EXIT_OK, Trouble, did_you_mean
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap key 'env[NCCL_PROTO]'"

_VARIABLE = re.compile("[A-Z][A-Z0-9]*_[A-Z0-9_]+")
"""What is an environment variable's name, where no key is called so."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("name", nargs="?", default="", metavar="KEY", help="a path, a key or a part of its name")
    shared.add_format(parser, "json")


def run(args: Any) -> int:
    """Explain one key, or list those that match."""
    from envsnap.cli._output import emit, emit_json
    from envsnap.collectors import keys
    from envsnap.report import key as report
    from envsnap.report.lines import width_of

    name: str = args.name
    found = _find(name) if name else list(keys().values())
    if not found and _VARIABLE.fullmatch(name):
        name = f"env[{name}]"
        found = _find(name)
    if not found:
        raise Trouble(f"There is no key {args.name!r}{did_you_mean(args.name, _words())}", ["envsnap", "key"])
    if args.format == "json":
        emit_json({"format": "envsnap.keys", "version": 1, "keys": [report.as_json(key) for key in found]})
    elif len(found) == 1:
        exact = found[0].pattern in (name, _pattern(name))
        emit(report.text(found[0], name if exact else found[0].pattern, width_of(sys.stdout)))
    else:
        emit(report.listing(found))
    return EXIT_OK


def _find(name: str) -> list[Any]:
    """The key at a path; else every key of which `name` is the beginning, the last part, or a part of it."""
    from envsnap.collectors import keys
    from envsnap.keys import is_path

    declared = keys()
    exact = declared.get(_pattern(name))
    if exact:
        return [exact.for_path(name) if is_path(name) else exact]
    for close in (
        lambda key: key.pattern.startswith((f"{name}.", f"{name}[")),
        lambda key: key.name == name,
        lambda key: name in key.pattern,
    ):
        if found := [key for key in declared.values() if close(key)]:
            return found
    return []


def _pattern(name: str) -> str:
    from envsnap.keys import pattern_of

    return pattern_of(name)


def _words() -> list[str]:
    from envsnap.collectors import keys

    return [*keys(), *{key.name for key in keys().values()}]
