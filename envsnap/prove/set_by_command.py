"""Levers that are words of a command: variables, options, CPUs and memory nodes, revisions of models."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from envsnap.change import Change
from envsnap.collectors._model_names import REVISIONS, named_in
from envsnap.explain.effective import computes
from envsnap.explain.explanation import Side
from envsnap.explain.setting import resolved_arguments
from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.prove.sides import Ends, NoLever, Sides
from envsnap.prove.switches import Setting, options_of
from envsnap.reading import Json, Value
from envsnap.redact import HASH

# Patterns of variables, the most trusted first: what workers have, what they recorded, what the shell exported.
_VARIABLES = ("worker[].env[]", "record[].env[]", "server[].dp[].env[]", "worker[].env_at_exec[]", "env[]")
_ARGUMENTS = ("server[].argument[]", "record[].argument[]", "server[].runtime_argument[]", "record[].typed_argument[]")
_LONG = {"tp_size": ("tp", "tensor_parallel_size", "tensor_parallel"), "dp_size": ("dp",)}
_NUMACTL = {"bind": "--membind", "prefer": "--preferred", "interleave": "--interleave"}
"""The kernel's words for a memory policy, and those of numactl."""


def variables(changes: Sequence[Change], sides: Sides) -> Ends:
    """Each variable as the most trusted of its readings has it."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for pattern in _VARIABLES:
        readings: dict[str, Counter[tuple[str | None, str | None]]] = {}
        for change in changes:
            names = instances_of(change.path)
            if pattern_of(change.path) == pattern and (len(names) == 1 or computes(names[0])):
                readings.setdefault(names[-1], Counter())[(text_of(change.before), text_of(change.after))] += 1
        for name, pairs in readings.items():
            found.setdefault(name, pairs.most_common(1)[0][0])
    for name, pair in found.items():
        if any(value is not None and HASH.search(value) for value in pair):
            raise NoLever(f"the value of {name} is secret, and only its hash was kept")
    return Setting({n: a for n, (a, _) in found.items()}), Setting({n: b for n, (_, b) in found.items()})


def text_of(reading: object) -> str | None:
    """A value as text; None where there is none."""
    return str(reading.value) if isinstance(reading, Value) else None


def options(changes: Sequence[Change], sides: Sides) -> Ends:
    """Options as each side typed them, else as the engine resolved them and with the usual spelling."""
    names = dict.fromkeys(name for c in changes for name in _argument_names(c))
    if not names:
        return Setting(), Setting()
    typed = [_typed(side) for side in (sides.fast, sides.slow)]
    # NOTE: an argument may be an object, which is told field by field; an engine that can be given one has it typed.
    names = dict.fromkeys(n for n in names if "." not in n or any(n in held for held in typed))
    if not names:
        raise NoLever("it is a part of what the engine works out, and no option sets it by itself")
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


def cpus(changes: Sequence[Change], sides: Sides) -> Ends:
    """The CPUs that the command was started with."""
    change = next((c for c in changes if c.path == "inherited.cpus"), None)
    if change is None:
        return Setting(), Setting()
    lists = [text_of(change.before), text_of(change.after)]
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


def memory_nodes(changes: Sequence[Change], sides: Sides) -> Ends:
    """The memory policy that all computing processes have from the command, by numactl."""
    found = {
        (text_of(c.before), text_of(c.after))
        for c in changes if pattern_of(c.path) == "worker[].numa_policy" and computes(instances_of(c.path)[0])
    }  # fmt: skip
    if not found:
        return Setting(), Setting()
    pair, *others = found
    if others:
        raise NoLever("processes of one server have different memory policies: the engine binds them itself")
    made = [_bound(text) for text in pair]
    return made[0], made[1]


def _bound(text: str | None) -> Setting:
    policy, _, nodes = (text or "").partition(":")
    if policy in ("default", "local"):
        return Setting(policy=policy)
    option = _NUMACTL.get(policy.partition("=")[0])
    if option is None or not nodes:
        raise NoLever(f"{text!r} is no memory policy that numactl can set")
    if shutil.which("numactl") is None:
        raise NoLever(f"there is no numactl here to set the memory policy {text}")
    if missing := [n for n in sorted(_numbers(nodes)) if not Path(f"/sys/devices/system/node/node{n}").exists()]:
        raise NoLever(f"there is no memory node {missing[0]} now")
    return Setting(prefix=("numactl", f"{option}={nodes}"), policy=str(text))


def revisions(changes: Sequence[Change], sides: Sides) -> Ends:
    """Commits of models on the hub, of which both are at hand, by the option of the engine that names them."""
    made = Setting(), Setting()
    if any(name for c in changes for name in _argument_names(c)):
        return made  # an option that differs names the model or its revision already
    names = dict.fromkeys(instances_of(c.path)[0] for c in changes if c.path.startswith("model["))
    for name in names:
        options_ = [_revision_option(name, side) for side in (sides.fast, sides.slow)]
        if options_[0] != options_[1] or not options_[0]:
            raise NoLever(f"no option of the server's command names a revision of {name}")
        ends = []
        for side in (sides.fast, sides.slow):
            held = side.snapshot.values
            commit, place = (held.get(path_of(f"model[].{what}", name)) for what in ("revision", "path"))
            if not isinstance(commit, str) or not commit:
                raise NoLever(f"the files of {name} differ, and no commit of the hub was recorded that has them")
            if not Path(str(place)).is_dir():
                raise NoLever(f"revision {commit[:10]} of {name} is not in the cache any more")
            if Path(str(place)).name != commit:
                raise NoLever(f"{name} is a directory, for which the engine takes no revision")
            option = options_[0]
            ends.append({option: (f"--{option.replace('_', '-')}", commit)})
        made = (
            Setting(options={**made[0].options, **ends[0]}), Setting(options={**made[1].options, **ends[1]})
        )  # fmt: skip
    return made


def _revision_option(name: str, side: Side) -> str:
    """The option that says which commit of a model this side's server takes."""
    words = [word for held in _typed(side).values() for word in held]
    for named in named_in(words):
        # NOTE: a tokenizer's is that of the model too, or its default.
        if named.what != "tokenizer" and named.model.rstrip("/").endswith(name):
            return next(iter(REVISIONS.get(named.option, ())), "").lstrip("-").replace("-", "_")
    return ""
