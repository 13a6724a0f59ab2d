"""Switches: how a suspect is put as either side had it, for the processes of one trial and for nothing else.

A switch is made of what a suspect's changes say: variables, options of the server's command, folders put first on the
import path, a list of CPUs. Nothing outside of the trial's own processes is ever changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from envsnap.reading import Json

if TYPE_CHECKING:
    from envsnap.prove.parts import Code

EMPTY_FOLDER = "{empty}"
"""In a variable's value: a folder made anew for each trial."""

RESTART, BUILT, BY_HAND = 1.0, 2.0, 8.0
"""Costs: what takes effect with a restart, what had to be unpacked or installed, what a person has to set."""


@dataclass(frozen=True)
class Content:
    """What a folder that is made for a trial holds: copies of folders at places below it ("" for none: left out), and
    links to all else that the folder `beside` holds."""

    copies: Mapping[str, str] = field(default_factory=dict)
    beside: str = ""

    def joined(self, more: Content) -> Content:
        """Both in one folder. What says more of a place counts: a cold cache holds no results of tuning either."""
        copies = {place: source or self.copies.get(place, "") for place, source in more.copies.items()}
        return Content({**self.copies, **copies}, more.beside or self.beside)


@dataclass(frozen=True)
class Setting:
    """How one side had it. A variable or option that is None is removed; `options` hold the option's words, by name.

    `paths` go first on PYTHONPATH, `prefix` before the command. `resolved` is what the engine made of the options.
    `by_hand` are paths of the machine with their values, which a person sets. `content`: of a variable whose value is
    an empty folder, what that holds. `policy` is the memory policy that processes then have, `packages` say from where
    each is imported.
    """

    environment: Mapping[str, str | None] = field(default_factory=dict)
    options: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    cpus: str = ""
    resolved: Mapping[str, object] = field(default_factory=dict)
    by_hand: Mapping[str, Json] = field(default_factory=dict)
    content: Mapping[str, Content] = field(default_factory=dict)
    policy: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def tells(self) -> bool:
        """Whether it says anything."""
        return bool(self.environment or self.options or self.paths or self.prefix or self.by_hand)


@dataclass(frozen=True)
class Switch:
    """A suspect that an experiment can set and unset. `roles` are the processes in which it differed.

    `home` is the repository's folder whose code `paths` stand for, `code` its two states, which can be taken apart.
    `partly` says what of it could not be switched.
    """

    id: str
    title: str
    probability: float
    fast: Setting
    slow: Setting
    cost: float = RESTART
    roles: frozenset[str] = frozenset()
    home: str = ""
    code: Code | None = None
    partly: str = ""

    def setting(self, reverted: bool) -> Setting:
        """How it is in a trial: as the fast side had it if reverted."""
        return self.fast if reverted else self.slow


@dataclass(frozen=True)
class Manual:
    """A suspect that is left as it is: why, and what a person can do to put it as the fast side had it."""

    id: str
    title: str
    probability: float
    reason: str
    advice: str = ""


@dataclass(frozen=True)
class Commands:
    """What is run: the benchmark, and the server where one is started."""

    benchmark: tuple[str, ...]
    server: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """What one trial runs in: what it adds to the environment (None removes), and its commands.

    `folders` are to be made for it, each with what it holds.
    """

    environment: Mapping[str, str | None]
    commands: Commands
    folders: Mapping[str, Content] = field(default_factory=dict)


def state(base: Commands, switches: Iterable[Switch], reverted: frozenset[str], empty: Path) -> State:
    """The state in which these suspects are as the fast side had them, and the other ones as the slow side had them.

    `empty` is where folders are made that a switch wants empty; the caller makes them.
    """
    environment: dict[str, str | None] = {}
    folders: dict[str, Content] = {}
    paths: list[str] = []
    prefix: tuple[str, ...] = ()
    words = list(base.server or base.benchmark)
    for switch in switches:
        setting = switch.setting(switch.id in reverted)
        for name, value in setting.environment.items():
            folder = str(empty / name.lower())
            environment[name] = value.replace(EMPTY_FOLDER, folder) if value is not None else None
            if value is not None and EMPTY_FOLDER in value:
                folders[folder] = folders.get(folder, Content()).joined(setting.content.get(name, Content()))
        for option, wanted in setting.options.items():
            words = [*without_option(words, option), *(wanted or ())]
        paths += setting.paths
        prefix = (*prefix, *setting.prefix)
    if paths:
        old = environment.get("PYTHONPATH", os.environ.get("PYTHONPATH"))
        environment["PYTHONPATH"] = os.pathsep.join([*paths, *([old] if old else [])])
    command = (*prefix, *words)
    commands = Commands(base.benchmark, command) if base.server else Commands(command)
    return State(environment, commands, folders)


def options_of(argv: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The long options of a command line by name (`tp_size`), each with its words as they stand there."""
    found: dict[str, tuple[str, ...]] = {}
    for start, end, name in _spans(argv):
        found[name] = tuple(argv[start:end])
    return found


def without_option(argv: Sequence[str], name: str) -> list[str]:
    """A command line without an option and its values."""
    kept = list(argv)
    for start, end, found in reversed(_spans(argv)):
        if found == name:
            del kept[start:end]
    return kept


def _spans(argv: Sequence[str]) -> list[tuple[int, int, str]]:
    """Where each long option stands, with its values: whatever follows up to the next option."""
    starts = [i for i, word in enumerate(argv) if word.startswith("--") and len(word) > 2]
    found = []
    for start in starts:
        end = start + 1
        name, equals, _ = argv[start][2:].partition("=")
        while not equals and end < len(argv) and not _is_option(argv[end]):
            end += 1
        found.append((start, end, name.replace("-", "_")))
    return found


def _is_option(word: str) -> bool:
    """A word that starts another option; negative numbers are values."""
    return word.startswith("-") and not word[1:2].isdigit() and len(word) > 1
