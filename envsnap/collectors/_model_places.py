"""Where a model is that somebody asks for: a directory, or the hub's cache."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from envsnap.collectors._homes import expanded, hub
from envsnap.collectors._model_names import Named
from envsnap.host import Host
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?\Z")
_IN_HUB = re.compile(r"/models--([^/]+)/snapshots/([^/]+)\Z")


@dataclass(frozen=True)
class Model:
    """A model that was found: how it is called in paths, where it is, and its commit on the hub if one is known.

    Of one that is a single file `file_bytes` is its size; else `place` is a directory.
    """

    name: str
    place: str
    revision: str = ""
    file_bytes: int | None = None


@dataclass(frozen=True)
class Standpoint:
    """Who asks: the working directory, where relative paths begin, and the environment, which says where the hub is."""

    cwd: str
    environ: Mapping[str, str]


def located(host: Host, asked: Named, standpoint: Standpoint) -> Model:
    """A directory or file, as the engines try first, else the hub's cache. Raises: Missing."""
    given, environ, cwd = asked.model, standpoint.environ, standpoint.cwd
    if not given:
        raise Missing(Why.ABSENT, "an empty name")
    if "://" in given:
        raise Missing(Why.NOT_SUPPORTED, "an address, from which the engine loads it by itself")
    path = expanded(host, given, environ, cwd)
    stat = _readable(host.found([["stat", path]])[0])
    if isinstance(stat, Value) and stat.value["type"] == "dir":
        return _in_directory(host, path)
    if isinstance(stat, Value) and stat.value["type"] == "file":
        return Model(posixpath.basename(path), path, file_bytes=stat.value["size"])
    if not _HUB_NAME.match(given):
        raise Missing(Why.ABSENT, f"no directory {path}")
    place = hub(host, environ, cwd).path
    folder = f"{place}/models--{given.replace('/', '--')}"
    wanted = asked.revision or "main"
    ref, snapshots = host.found([["read", f"{folder}/refs/{wanted}", 4096], ["list", f"{folder}/snapshots"]])
    listed = _readable(snapshots)
    present = listed.value if isinstance(listed, Value) else []
    revision = str(ref.value).strip() if isinstance(ref, Value) else asked.revision
    if not revision and len(present) == 1:
        revision = present[0]
    if revision not in present:
        which = f"revision {asked.revision}" if asked.revision else "the current one"
        what = f"{len(present)} revisions but not {which}" if present else "nothing"
        raise Missing(Why.ABSENT, f"no directory {path}, and {place} holds {what} of {given}")
    return Model(given, f"{folder}/snapshots/{revision}", revision)


def _readable(found: Found) -> Found:
    """What was found. Raises: Missing where nobody may look, which does not mean that nothing is there."""
    if isinstance(found, Unavailable) and found.why is Why.DENIED:
        raise Missing(found.why, found.detail)
    return found


def _in_directory(host: Host, path: str) -> Model:
    """A directory goes by its last name, unless it is one of the hub's; what downloaded it may have left a note."""
    resolved = attempt(host.realpath, path)
    if match := _IN_HUB.search(path) or _IN_HUB.search(str(resolved.value) if isinstance(resolved, Value) else ""):
        return Model(match.group(1).replace("--", "/", 1), path, match.group(2))
    note = host.found([["read", f"{path}/.cache/huggingface/download/config.json.metadata", 4096]])[0]
    revision = str(note.value).split("\n", 1)[0].strip() if isinstance(note, Value) else ""
    return Model(posixpath.basename(path) or path, path, revision)
