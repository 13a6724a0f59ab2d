"""Where a model is that somebody asks for: a directory, or the hub's cache."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from envsnap.collectors._homes import expanded, hub
from envsnap.host import Host
from envsnap.reading import Missing, Value, Why

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?\Z")
_IN_HUB = re.compile(r"/models--([^/]+)/snapshots/([^/]+)\Z")


@dataclass(frozen=True)
class Model:
    """A model that was found: how it is called in paths, its directory, and its commit on the hub if one is known."""

    name: str
    directory: str
    revision: str = ""


@dataclass(frozen=True)
class Asked:
    """A model as somebody asks for it. `given` is a directory, or a name on the hub: NAME, or NAME@REVISION."""

    given: str
    revision: str = ""
    """A branch, tag or commit on the hub; empty: main. A directory has none."""
    cwd: str = ""
    """Where a relative path starts; empty: envsnap's own working directory."""


def located(host: Host, asked: Asked, environ: Mapping[str, str]) -> Model:
    """A directory, as the engines try first, else the hub's cache. Raises: Missing."""
    given = asked.given
    if not given:
        raise Missing(Why.ABSENT, "an empty name")
    path = expanded(host, given, environ, asked.cwd)
    stat = host.found([["stat", path]])[0]
    if isinstance(stat, Value) and stat.value["type"] == "dir":
        return _in_directory(host, path)
    name, at, revision = given.rpartition("@")
    if at and not asked.revision:
        return located(host, Asked(name, revision, asked.cwd), environ)
    if not _HUB_NAME.match(given):
        raise Missing(Why.ABSENT, f"no directory {path}")
    place = hub(host, environ).path
    folder = f"{place}/models--{given.replace('/', '--')}"
    wanted = asked.revision or "main"
    ref, snapshots = host.found([["read", f"{folder}/refs/{wanted}", 4096], ["list", f"{folder}/snapshots"]])
    present = snapshots.value if isinstance(snapshots, Value) else []
    revision = str(ref.value).strip() if isinstance(ref, Value) else asked.revision
    if not revision and len(present) == 1:
        revision = present[0]
    if revision not in present:
        which = f"revision {asked.revision}" if asked.revision else "the current one"
        what = f"{len(present)} revisions but not {which}" if present else "nothing"
        raise Missing(Why.ABSENT, f"no directory {path}, and {place} holds {what} of {given}")
    return Model(given, f"{folder}/snapshots/{revision}", revision)


def _in_directory(host: Host, path: str) -> Model:
    """A directory goes by its last name, unless it is one of the hub's; what downloaded it may have left a note."""
    if match := _IN_HUB.search(path):
        return Model(match.group(1).replace("--", "/", 1), path, match.group(2))
    note = host.found([["read", f"{path}/.cache/huggingface/download/config.json.metadata", 4096]])[0]
    revision = str(note.value).split("\n", 1)[0].strip() if isinstance(note, Value) else ""
    return Model(posixpath.basename(path), path, revision)
