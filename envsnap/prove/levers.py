"""Levers: from what a suspect's changes say to a switch, or to a sentence on why a person has to do it."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envsnap.change import Change
from envsnap.explain.effective import computes
from envsnap.explain.explanation import Side, Suspect
from envsnap.explain.setting import resolved_arguments
from envsnap.keys import Lever, instances_of, pattern_of
from envsnap.prove import trees
from envsnap.prove.switches import BUILT, EMPTY_FOLDER, RESTART, Manual, Setting, Switch, options_of
from envsnap.reading import Json, Unset, Value
from envsnap.redact import HASH

# Patterns of variables, the most trusted first: what workers have, what they recorded, what the shell exported.
_VARIABLES = ("worker[].env[]", "record[].env[]", "server[].dp[].env[]", "worker[].env_at_exec[]", "env[]")
_ARGUMENTS = ("server[].argument[]", "record[].argument[]", "server[].runtime_argument[]", "record[].typed_argument[]")
_NOT_FOR_PROGRAMS = "envsnap changes nothing that takes root or a reboot"


class NoLever(Exception):
    """A suspect that cannot be switched; one sentence without its full stop."""


@dataclass(frozen=True)
class Sides:
    """What both sides are known to have been, and the folders to work in.

    `folder` takes unpacked trees; `wheels` holds wheels for packages, empty where there are none.
    """

    fast: Side
    slow: Side
    folder: Path
    wheels: str = ""


def levers(suspects: Sequence[Suspect], sides: Sides, unpack: bool = True) -> tuple[list[Switch], list[Manual]]:
    """The suspects that can be switched, and those that cannot. Without `unpack` nothing is written."""
    switches: list[Switch] = []
    manual: list[Manual] = []
    for suspect in suspects:
        if not suspect.changes:
            continue
        try:
            switches.append(_switch(suspect, sides, unpack))
        except NoLever as error:
            advice = next((c.key.advice for c in suspect.changes if c.key.advice), "")
            manual.append(Manual(suspect.id, suspect.title, suspect.probability, str(error), advice))
    return switches, manual


def _switch(suspect: Suspect, sides: Sides, unpack: bool) -> Switch:
    """Raises: NoLever."""
    switch = Switch(suspect.id, suspect.title, suspect.probability, Setting(), Setting(), RESTART, _roles(suspect))
    problems: list[str] = []
    for part in (_variables, _nccl_file, _options, _cpus, _cache):
        try:
            switch = _joined(switch, *part(suspect.changes, sides))
        except NoLever as error:
            problems.append(str(error))
    try:
        switch = _code(switch, suspect.changes, sides, unpack)
    except NoLever as error:
        problems.append(str(error))
    if not switch.fast.tells and not switch.slow.tells:
        if not problems and all(c.key.lever in (None, Lever.ROOT) for c in suspect.changes):
            problems.append(_NOT_FOR_PROGRAMS)
        raise NoLever(problems[0] if problems else "there is no way to set it for one run alone")
    return switch


def _roles(suspect: Suspect) -> frozenset[str]:
    return frozenset(
        instances_of(c.path)[0] for c in suspect.changes if pattern_of(c.path) in ("worker[].env[]", "worker[].argv")
    )


def _joined(switch: Switch, fast: Setting, slow: Setting) -> Switch:
    return replace(switch, fast=_merged(switch.fast, fast), slow=_merged(switch.slow, slow))


def _merged(one: Setting, two: Setting) -> Setting:
    return Setting(
        {**one.environment, **two.environment},
        {**one.options, **two.options},
        (*one.paths, *two.paths),
        (*one.prefix, *two.prefix),
        one.cpus or two.cpus,
        {**one.resolved, **two.resolved},
    )


def _variables(changes: Sequence[Change], sides: Sides) -> tuple[Setting, Setting]:
    """Each variable as the most trusted of its readings has it."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for pattern in _VARIABLES:
        readings: dict[str, Counter[tuple[str | None, str | None]]] = {}
        for change in changes:
            names = instances_of(change.path)
            if pattern_of(change.path) == pattern and (len(names) == 1 or computes(names[0])):
                readings.setdefault(names[-1], Counter())[(_text(change.before), _text(change.after))] += 1
        for name, pairs in readings.items():
            found.setdefault(name, pairs.most_common(1)[0][0])
    for name, pair in found.items():
        if any(value is not None and HASH.search(value) for value in pair):
            raise NoLever(f"the value of {name} is secret, and only its hash was kept")
    return Setting({n: a for n, (a, _) in found.items()}), Setting({n: b for n, (_, b) in found.items()})


def _text(reading: object) -> str | None:
    return str(reading.value) if isinstance(reading, Value) else None


def _nccl_file(changes: Sequence[Change], sides: Sides) -> tuple[Setting, Setting]:
    """NCCL's own file of the user, in the trial's folder, through the variable that names it."""
    files = {instances_of(c.path)[0] for c in changes if pattern_of(c.path) == "nccl.conf[].set[]"}
    if not files:
        return Setting(), Setting()
    if files != {"user"}:
        raise NoLever("/etc/nccl.conf is read whatever the environment says")
    made = []
    for name, side in (("fast", sides.fast), ("slow", sides.slow)):
        held = {
            instances_of(p)[1]: v
            for p, v in side.snapshot.values.items()
            if pattern_of(p) == "nccl.conf[].set[]" and instances_of(p)[0] == "user"
        }
        if any(HASH.search(str(v)) for v in held.values()):
            raise NoLever("the file holds a secret, of which only the hash was kept")
        path = sides.folder / f"nccl-{name}.conf"
        path.write_text("".join(f"{n}={v}\n" for n, v in sorted(held.items())), encoding="utf-8")
        made.append(Setting({"NCCL_CONF_FILE": str(path)}))
    return made[0], made[1]


def _options(changes: Sequence[Change], sides: Sides) -> tuple[Setting, Setting]:
    """Options as each side typed them, else as the engine resolved them and with the usual spelling."""
    names = dict.fromkeys(name for c in changes for name in _argument_names(c))
    if not names:
        return Setting(), Setting()
    typed = [_typed(side) for side in (sides.fast, sides.slow)]
    resolved = [resolved_arguments(side.snapshot) for side in (sides.fast, sides.slow)]
    words: tuple[dict[str, tuple[str, ...] | None], dict[str, tuple[str, ...] | None]] = ({}, {})
    for name in names:
        pair = [held.get(_spelled(name, held)) for held in typed]
        if pair[0] == pair[1]:
            if pair[0] is not None or not all(name in held for held in resolved):
                raise NoLever(f"--{name.replace('_', '-')} was typed alike, and the engine chose otherwise")
            pair = [_words(name, held[name]) for held in resolved]
        if pair[0] == pair[1]:
            raise NoLever(f"no option is known that sets {name}")
        spelling = next((_spelled(name, held) for held in typed if held.get(_spelled(name, held))), name)
        for held, value in zip(words, pair):
            held[spelling] = value
    settings = [
        Setting(options=held, resolved={n: known[n] for n in names if n in known})
        for held, known in zip(words, resolved)
    ]
    return settings[0], settings[1]


def _argument_names(change: Change) -> Iterator[str]:
    if pattern_of(change.path) in _ARGUMENTS:
        yield instances_of(change.path)[-1]
    elif change.leaf.startswith("[--"):
        yield change.leaf[3:-1]


_LONG = {"tp_size": ("tp", "tensor_parallel_size", "tensor_parallel"), "dp_size": ("dp",)}


def _spelled(name: str, held: dict[str, tuple[str, ...]]) -> str:
    return next((n for n in (name, *_LONG.get(name, ())) if n in held), name)


def _typed(side: Side) -> dict[str, tuple[str, ...]]:
    """What the command said: that of the server which envsnap started, else that of the workers' main process."""
    run = next((r for r in reversed(side.runs) if r.server), None)
    found = options_of(run.server) if run else {}
    values = side.snapshot.values
    started = [p for p in values if p.startswith("worker[") and p.endswith(".argv") and computes(instances_of(p)[0])]
    for path in sorted(started, key=lambda p: (not instances_of(p)[0].endswith("main"), p))[:1]:
        found = {**options_of([str(w) for w in values[path]]), **found}
    return found


def _words(name: str, value: Json) -> tuple[str, ...] | None:
    """A resolved value as an option; None for one that is absent by default."""
    if value is None or value is False:
        return None
    option = f"--{name.replace('_', '-')}"
    if value is True:
        return (option,)
    if isinstance(value, list):
        return (option, *map(str, value)) if value else None
    return (option, json.dumps(value) if isinstance(value, dict) else str(value))


def _cpus(changes: Sequence[Change], sides: Sides) -> tuple[Setting, Setting]:
    """The CPUs that the command was started with."""
    change = next((c for c in changes if c.path == "inherited.cpus"), None)
    if change is None:
        return Setting(), Setting()
    lists = [_text(change.before), _text(change.after)]
    if shutil.which("taskset") is None:
        raise NoLever("there is no taskset here")
    here = os.sched_getaffinity(0)
    for text in lists:
        if text is None or not _numbers(text) <= here:
            raise NoLever(f"CPUs {text} are not all there now")
    made = [Setting(prefix=("taskset", "-c", str(text)), cpus=str(text)) for text in lists]
    return made[0], made[1]


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise NoLever(f"{text!r} is no list of CPUs")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _cache(changes: Sequence[Change], sides: Sides) -> tuple[Setting, Setting]:
    """A cache that was cold on one side: an empty folder there, and on the other the one there is."""
    from envsnap.collectors.caches import _TOOLS

    fast: dict[str, str | None] = {}
    slow: dict[str, str | None] = {}
    for change in changes:
        if pattern_of(change.path) != "cache[].warm":
            continue
        tool = _TOOLS.get(instances_of(change.path)[0])
        if tool is None:
            raise NoLever("no variable of its own moves this cache")
        variable = next(iter(tool.variables))
        for held, reading in ((fast, change.before), (slow, change.after)):
            if isinstance(reading, Unset) or (isinstance(reading, Value) and not reading.value):
                held[variable] = EMPTY_FOLDER
    return Setting(fast), Setting(slow)


def _code(switch: Switch, changes: Sequence[Change], sides: Sides, unpack: bool) -> Switch:
    """Repositories and packages as either side had them, each in a folder put first on the import path."""
    repositories = dict.fromkeys(instances_of(c.path)[0] for c in changes if pattern_of(c.path).startswith("repo[]."))
    packages = dict.fromkeys(instances_of(c.path)[0] for c in changes if pattern_of(c.path) == "package[].version")
    for name in repositories:
        trees_ = [trees.tree_of(side.snapshot, name) for side in (sides.fast, sides.slow)]
        for tree in trees_:
            if isinstance(tree, str):
                raise NoLever(tree)
        places = []
        for tree, end in zip(trees_, ("fast", "slow")):
            assert isinstance(tree, trees.Tree)
            target = sides.folder / f"tree-{end}-{len(switch.fast.paths)}-{name.replace('/', '_')}"
            if problem := trees.unpack(tree, target) if unpack else trees.missing(tree):
                raise NoLever(problem)
            places.append(Setting(paths=trees.import_paths(target)))
        root = sides.slow.snapshot.values.get(f"repo[{name}].root", "")
        switch = replace(_joined(switch, places[0], places[1]), cost=BUILT, home=str(root))
    # NOTE: a package that is installed from the repository beside it is that repository.
    for name in packages if not repositories else ():
        places = []
        for side, end in ((sides.fast, "fast"), (sides.slow, "slow")):
            version = side.snapshot.values.get(f"package[{name}].version")
            target = sides.folder / f"package-{end}-{name}"
            problem = trees.install(name, str(version), sides.wheels, target, trees.python_of(side.snapshot), unpack)
            if problem:
                raise NoLever(problem)
            places.append(Setting(paths=(str(target),)))
        switch = replace(_joined(switch, places[0], places[1]), cost=BUILT)
    return switch
