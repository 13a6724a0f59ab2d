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
from envsnap.collectors.caches import TOOLS, tuned_hash
from envsnap.explain.explanation import Side
from envsnap.host import LiveHost
from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.prove.sides import Ends, NoLever, Sides
from envsnap.prove.switches import EMPTY_FOLDER, Setting
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
    """A cache that was cold on one side is an empty folder there; tuning results are copied from where they are."""
    fast, slow = Setting(), Setting()
    for change in changes:
        pattern = pattern_of(change.path)
        if pattern not in ("cache[].warm", "cache[].tuned_sha256"):
            continue
        name = instances_of(change.path)[0]
        tool = TOOLS.get(name)
        if tool is None:
            raise NoLever("no variable of its own moves this cache")
        variable, below = next(iter(tool.variables.items()))
        ends = []
        for side, reading in ((sides.fast, change.before), (sides.slow, change.after)):
            if pattern == "cache[].tuned_sha256" and isinstance(reading, Value):
                source = _tuned(name, side, str(reading.value))
                ends.append(Setting({variable: EMPTY_FOLDER}, copies={variable: (source, below)}))
            elif isinstance(reading, Unset) or (isinstance(reading, Value) and not reading.value):
                ends.append(Setting({variable: EMPTY_FOLDER}))
            else:
                ends.append(Setting())
        fast, slow = _with_copies(fast, ends[0]), _with_copies(slow, ends[1])
    return fast, slow


def _with_copies(one: Setting, two: Setting) -> Setting:
    # NOTE: a cache that is cold holds no results either: what says more of its content counts.
    return Setting({**one.environment, **two.environment}, copies={**one.copies, **two.copies})


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


def copy_into(target: Path, source: str) -> None:
    """Make `target` hold what a folder holds. Raises: OSError."""
    shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
