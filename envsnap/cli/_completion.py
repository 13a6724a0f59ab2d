"""What a shell may complete: verbs, options and choices from the parsers, values by what a metavar stands for.

argcomplete does the work. The shell asks by running envsnap with `_ARGCOMPLETE` set; only the verb that is being typed
is imported, the store is asked for names through its index alone, and nothing else of the machine is looked at.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from argcomplete.completers import DirectoriesCompleter, FilesCompleter
from argcomplete.finders import CompletionFinder
from argcomplete.lexers import split_line

from envsnap import cli

Completer = Callable[..., Mapping[str, str]]


def answer() -> None:
    """Tell the shell what can stand at the cursor, and end the process."""
    words = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3][1:]
    CompletionFinder()(parser_for(words), always_complete_options=False, default_completer=_nothing)  # type: ignore[arg-type]


def parser_for(words: list[str]) -> argparse.ArgumentParser:
    """The parser of the words that are complete, its arguments knowing what may stand for them."""
    if "--" in words:  # a command of its own, which is none of envsnap's
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("words", nargs="*", metavar="FILE")
    else:
        verb = next((w for w in words if not w.startswith("-")), "")
        parser = cli.parser(verb if verb in cli.verbs() else None)
    for action in actions(parser):
        if action.choices is None and action.nargs != 0:
            cast(Any, action).completer = VALUES.get(meaning(action), _nothing)
    return parser


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All actions of a parser and of those below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from actions(inner)


def meaning(action: argparse.Action) -> str:
    """What stands for an action: its metavar, the first of several."""
    return action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar or ""


def _files(prefix: str, **_: Any) -> Mapping[str, str]:
    return dict.fromkeys(FilesCompleter()(prefix), "")


def _folders(prefix: str, **_: Any) -> Mapping[str, str]:
    return dict.fromkeys(DirectoriesCompleter()(prefix), "")


def _nothing(**_: Any) -> Mapping[str, str]:
    return {}


def _labels(parsed_args: Any, **_: Any) -> Mapping[str, str]:
    """Labels in the store, with how often each was measured."""
    from envsnap.wording import plural

    counts: dict[str, int] = {}
    for entry in _entries(parsed_args):
        if entry.label and entry.label.isprintable():
            counts[entry.label] = counts.get(entry.label, 0) + 1
    return {label: plural(count, "run") for label, count in counts.items()}


def _runs(prefix: str, parsed_args: Any, **_: Any) -> Mapping[str, str]:
    """Names of runs: labels, `last`, and once something is typed the ids of groups and runs."""
    entries = _entries(parsed_args)
    found = dict(_labels(parsed_args))
    if entries:
        found["last"] = f"the newest group, {entries[0].label or entries[0].group}"
    for entry in entries if prefix else ():
        arm = f"/{entry.arm}" if entry.arm else ""
        for name in (entry.group, f"{entry.group}{arm}", entry.id):
            if name.startswith(prefix):
                found.setdefault(name, f"{entry.started_at[:16]} {entry.label}".rstrip())
    return found


def _entries(parsed_args: Any) -> list[Any]:
    from envsnap.store import Store

    folder = getattr(parsed_args, "store", "")
    return Store(Path(folder) if folder else None).known()


def _sides(prefix: str, parsed_args: Any, **_: Any) -> Mapping[str, str]:
    return {**_files(prefix), **_runs(prefix, parsed_args)}


def _keys(**_: Any) -> Mapping[str, str]:
    from envsnap.collectors import keys

    return {key.pattern: key.meaning for key in keys().values()}


def _sections(prefix: str, **_: Any) -> Mapping[str, str]:
    from envsnap.collectors import names

    return _of_list(prefix, names())


def _probes(prefix: str, **_: Any) -> Mapping[str, str]:
    from envsnap.probe.declared import PROBES

    return _of_list(prefix, [probe.name for probe in PROBES])


def _of_list(prefix: str, names: Any) -> Mapping[str, str]:
    """The last of several words that are separated by commas; none twice."""
    before, comma, _ = prefix.rpartition(",")
    return {f"{before}{comma}{name}": "" for name in names if name not in before.split(",")}


def _searches(parsed_args: Any, **_: Any) -> Mapping[str, str]:
    store = Path(parsed_args.store) if getattr(parsed_args, "store", "") else Path()
    found = {path.stem: "" for path in (store / ".envsnap" / "prove").glob("*.json")}
    return {"last": "the one that ran last", **found} if found else {}


def _rules(**_: Any) -> Mapping[str, str]:
    from envsnap.check.rules import codes

    return dict.fromkeys(codes(), "")


VALUES: Mapping[str, Completer] = {
    **dict.fromkeys(("FILE", "PATH", "SNAP", "EXE", "M", "-- BENCHMARK…"), _files),
    **dict.fromkeys(("SIDE", "FAST", "SLOW", "A0"), _sides),
    **dict.fromkeys(("KEY", "PATTERN"), _keys),
    "DIR": _folders,
    "RUN": _runs,
    "LABEL": _labels,
    "SECTION,…": _sections,
    "PROBE,…": _probes,
    "CODE": _rules,
    "ID": _searches,
}
"""What can stand for a metavar, by its name."""

FREE = frozenset("ARM CMD ID N N,… NAME NAME=RE P PREFIX RE RUNS S STORY SUSPECT TEXT URL".split())  # noqa: SIM905
"""Metavars that stand for what nobody can guess."""
