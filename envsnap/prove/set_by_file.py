"""Levers that are files: copies in the search's folder, found by the variable or the path that leads to them.

A copy is taken where a file still has the content that its side recorded; of what was replaced since only a hash is
left, and a person has to bring it back.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from envsnap.change import Change
from envsnap.collectors.caches import BELOW_SGLANG, SGLANG_ROOT, TOOLS, Tool, tuned_hash
from envsnap.explain.explanation import Side
from envsnap.host import LiveHost
from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.prove.sides import Ends, NoLever, Sides
from envsnap.prove.switches import EMPTY_FOLDER, Content, Setting
from envsnap.reading import Missing, Unset, Value
from envsnap.redact import HASH

_CUSTOM = ("sitecustomize", "usercustomize")
_MOST_BYTES = 1 << 20


def nccl_conf(changes: Sequence[Change], sides: Sides) -> Ends:
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


def caches(changes: Sequence[Change], sides: Sides) -> Ends:
    """A cache that was cold on one side is an empty folder there; tuning results are copied from where they are.

    SGLang keeps caches of others below one root that one variable moves: a trial gets a root with one of them apart and
    links to the others.
    """
    fast, slow = Setting(), Setting()
    for change in changes:
        pattern = pattern_of(change.path)
        if pattern not in ("cache[].warm", "cache[].tuned_sha256"):
            continue
        name = instances_of(change.path)[0]
        variable, below, beside = _moved_by(name, sides)
        ends = []
        for side, reading in ((sides.fast, change.before), (sides.slow, change.after)):
            if pattern == "cache[].tuned_sha256" and isinstance(reading, Value):
                source = _tuned(name, side, str(reading.value))
            elif isinstance(reading, Unset) or (isinstance(reading, Value) and not reading.value):
                source = ""
            else:
                ends.append(Setting())
                continue
            held = Content({below: source}, beside)
            ends.append(Setting({variable: EMPTY_FOLDER}, content={variable: held}))
        fast, slow = _with_content(fast, ends[0]), _with_content(slow, ends[1])
    return fast, slow


def _moved_by(name: str, sides: Sides) -> tuple[str, str, str]:
    """The variable that moves a cache, where that is below its value, and the folder that holds others beside it."""
    if name in TOOLS:
        variable, below = _first(TOOLS[name])
        return variable, below, ""
    if name not in BELOW_SGLANG:
        raise NoLever("no variable of its own moves this cache")
    roots = {side.snapshot.values.get("cache[sglang].path") for side in (sides.fast, sides.slow)}
    (root,) = roots if len(roots) == 1 else (None,)
    if not isinstance(root, str):
        raise NoLever("SGLang's caches were not at one place on both sides")
    return _first(SGLANG_ROOT)[0], BELOW_SGLANG[name][0], root


def _first(tool: Tool) -> tuple[str, str]:
    """The variable that moves nothing but this cache, and what is appended to its value."""
    return next(iter(tool.variables.items()))


def _with_content(one: Setting, two: Setting) -> Setting:
    held = {variable: one.content.get(variable, Content()).joined(more) for variable, more in two.content.items()}
    return Setting({**one.environment, **two.environment}, content={**one.content, **held})


def _tuned(name: str, side: Side, wanted: str) -> str:
    """The folder with the tuning results that a side recorded."""
    place = side.snapshot.values.get(path_of("cache[].path", name))
    try:
        held = tuned_hash(LiveHost(), name, str(place)) if isinstance(place, str) else ""
    except Missing:
        held = ""
    if held != wanted:
        raise NoLever(f"the tuning results of {side.label or 'a side'} in {place} are not there any more")
    return str(place)


def customize(changes: Sequence[Change], sides: Sides) -> Ends:
    """The module that every Python imports at its start, in a folder of its own; an empty one where there was none."""
    made = Setting(), Setting()
    for what in _CUSTOM:
        pattern = f"python.{what}[].sha256"
        if not any(pattern_of(c.path) in (pattern, f"python.{what}[].path") for c in changes):
            continue
        folders = []
        for end, side in (("fast", sides.fast), ("slow", sides.slow)):
            folder = sides.folder / f"{what}-{end}"
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / f"{what}.py").write_bytes(_content(what, side))
            folders.append(str(folder))
        made = (
            Setting(paths=(*made[0].paths, folders[0])), Setting(paths=(*made[1].paths, folders[1]))
        )  # fmt: skip
    return made


def _content(what: str, side: Side) -> bytes:
    """The module that a side imported, if a file with its content is still there."""
    values = side.snapshot.values
    place, wanted = values.get(f"python.{what}[0].path"), values.get(f"python.{what}[0].sha256")
    if not isinstance(place, str) or not isinstance(wanted, str):
        return b""
    try:
        with open(place, "rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        data = b""
    if hashlib.sha256(data).hexdigest() != wanted:
        raise NoLever(f"{place} has not the content any more that {side.label or 'a side'} had")
    return data


def fill(target: Path, content: Content) -> None:
    """Make a folder that is there hold that. Raises: OSError."""
    if content.beside:
        _link(Path(content.beside), target, {tuple(place.split("/")) for place in content.copies})
    for place, source in content.copies.items():
        if source:
            shutil.copytree(source, target / place, dirs_exist_ok=True, symlinks=True)


def _link(source: Path, target: Path, apart: set[tuple[str, ...]]) -> None:
    """Link to all that a folder holds, but for the places below it that are `apart`."""
    for entry in source.iterdir() if source.is_dir() else ():
        below = {place[1:] for place in apart if place[0] == entry.name}
        if not below:
            (target / entry.name).symlink_to(entry)
        elif () not in below:
            (target / entry.name).mkdir()
            _link(entry, target / entry.name, below)
