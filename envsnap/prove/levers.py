"""Levers: from what a suspect's changes say to a switch, or to a sentence on why a person has to do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envsnap.change import Change
from envsnap.explain.explanation import Suspect
from envsnap.keys import Lever, instances_of, path_of, pattern_of
from envsnap.prove import set_by_command, set_by_file, trees
from envsnap.prove.by_hand import instruction, settable
from envsnap.prove.parts import Code
from envsnap.prove.sides import NoLever, Sides
from envsnap.prove.switches import BUILT, BY_HAND, RESTART, Manual, Setting, Switch
from envsnap.prove.trees import Tree

__all__ = ["NoLever", "Sides", "levers"]

_NOT_FOR_PROGRAMS = "envsnap changes nothing that takes root or a reboot"
_PARTS = (
    set_by_command.variables, set_by_file.nccl_conf, set_by_command.options, set_by_command.revisions,
    set_by_command.cpus, set_by_command.memory_nodes, set_by_file.caches, set_by_file.customize,
)  # fmt: skip


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
            manual.append(Manual(suspect.id, suspect.title, suspect.probability, str(error), _advice(suspect)))
    return switches, manual


def _switch(suspect: Suspect, sides: Sides, unpack: bool) -> Switch:
    """Raises: NoLever."""
    switch = Switch(suspect.id, suspect.title, suspect.probability, Setting(), Setting(), RESTART, _roles(suspect))
    problems: list[str] = []
    for part in _PARTS:
        try:
            switch = _joined(switch, *part(suspect.changes, sides))
        except NoLever as error:
            problems.append(str(error))
    try:
        switch = _code(switch, suspect.changes, sides, unpack)
    except NoLever as error:
        problems.append(str(error))
    if sides.by_hand and (asked := settable(suspect.changes)):
        ends = Setting(by_hand={p: v for p, v, _ in asked}), Setting(by_hand={p: v for p, _, v in asked})
        switch = replace(_joined(switch, *ends), cost=BY_HAND)
    if not switch.fast.tells and not switch.slow.tells:
        kinds = {c.key.lever for c in suspect.changes}
        if not problems and Lever.ROOT in kinds and kinds <= {None, Lever.ROOT}:
            problems.append(_NOT_FOR_PROGRAMS)
        raise NoLever(problems[0] if problems else "there is no way to set it for one run alone")
    return replace(switch, partly=problems[0] if problems else switch.partly)


def _advice(suspect: Suspect) -> str:
    """What a person can do: the commands, where they are known."""
    if told := [instruction(path, fast) for path, fast, _ in settable(suspect.changes)]:
        return " ".join(told)
    return next((c.key.advice for c in suspect.changes if c.key.advice), "")


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
        {**one.by_hand, **two.by_hand},
        {**one.content, **two.content},
        one.policy or two.policy,
        {**one.packages, **two.packages},
    )


def _code(switch: Switch, changes: Sequence[Change], sides: Sides, unpack: bool) -> Switch:
    """Repositories and packages as either side had them, each in a folder put first on the import path."""
    repositories = dict.fromkeys(instances_of(c.path)[0] for c in changes if pattern_of(c.path).startswith("repo[]."))
    packages = dict.fromkeys(instances_of(c.path)[0] for c in changes if pattern_of(c.path) == "package[].version")
    for name in repositories:
        one, two, note = _both(name, sides)
        places = []
        for tree, end in ((one, "fast"), (two, "slow")):
            target = sides.folder / f"tree-{end}-{len(switch.fast.paths)}-{name.replace('/', '_')}"
            if problem := trees.unpack(tree, target) if unpack else trees.missing(tree):
                raise NoLever(f"{problem}, {note}" if note else problem)
            places.append(Setting(paths=trees.import_paths(target)))
        root = sides.slow.snapshot.values.get(path_of("repo[].root", name), "")
        switch = replace(_joined(switch, places[0], places[1]), cost=BUILT, home=str(root), partly=note)
        switch = replace(switch, code=Code(switch.id, one, two) if len(repositories) == 1 else None)
    # NOTE: a package that is installed from the repository beside it is that repository.
    for name in packages if not repositories else ():
        places = []
        for side, end in ((sides.fast, "fast"), (sides.slow, "slow")):
            version = side.snapshot.values.get(f"package[{name}].version")
            target = sides.folder / f"package-{end}-{name}"
            problem = trees.install(name, str(version), sides.wheels, target, trees.python_of(side.snapshot), unpack)
            if problem:
                raise NoLever(problem)
            places.append(Setting(paths=(str(target),), packages={name: str(target)}))
        switch = replace(_joined(switch, places[0], places[1]), cost=BUILT)
    return switch


def _both(name: str, sides: Sides) -> tuple[Tree, Tree, str]:
    """A repository's two states, and what of them is not as it was. Raises: NoLever.

    Of a commit that is gone the recorded changes are left: where both sides stood on it, they are put on what is there.
    """
    one, two = (trees.tree_of(side.snapshot, name) for side in (sides.fast, sides.slow))
    if isinstance(one, str) or isinstance(two, str):
        raise NoLever(one if isinstance(one, str) else str(two))
    gone = [(tree, problem) for tree in (one, two) if (problem := trees.missing(tree))]
    if not gone:
        return one, two, ""
    tree, problem = gone[0]
    head = (trees.ask(tree.root, "rev-parse", "--verify", "HEAD") or "").strip()
    if one.commit != two.commit or not head:
        raise NoLever(f"{problem}; bring it back with `git -C {tree.root} fetch origin {tree.commit}`")
    note = f"what was not committed stands on {head[:10]} instead, since commit {one.commit[:10]} is gone"
    return replace(one, commit=head), replace(two, commit=head), note
