"""Items about envsnap itself: where it writes, which distributions it was installed with, whether engines load it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

from envsnap import cache
from envsnap.doctor.item import Item, State
from envsnap.doctor.workers import ARRIVED
from envsnap.keys import path_of
from envsnap.snapshot import Snapshot
from envsnap.store import FOLDER

_DISTRIBUTION, _OTHER = "envsnap-audit", "envsnap"


def items(snapshot: Snapshot) -> Iterator[Item]:
    """The items, in the order in which they are shown."""
    yield _store(snapshot)
    yield _cache()
    yield _pynvml()
    yield _distributions(snapshot)
    yield _plug_in(snapshot)


def _store(snapshot: Snapshot) -> Item:
    title, folder = "store", Path(FOLDER).absolute()
    lost = "snapshots without -o and runs, and the key by which a changed secret is seen to change"
    change = "work in a directory that you may write in"
    if why := _unwritable(folder):
        return Item("store", title, State.FAILS, why, lost, change)
    if reason := str(snapshot.redaction.get("reason") or ""):
        lost = "hashes of secrets cannot be compared with those of other captures"
        return Item("store", title, State.PARTLY, reason, lost, f"mend or remove {folder}")
    return Item("store", title, State.WORKS, str(folder))


def _cache() -> Item:
    lost = "time: each capture looks into large libraries anew"
    folder = cache.folder()
    if folder is None:
        return Item("cache", "cache", State.FAILS, "there is no home directory", lost, "set HOME or XDG_CACHE_HOME")
    if why := _unwritable(folder):
        return Item("cache", "cache", State.FAILS, why, lost, "set XDG_CACHE_HOME to a directory of your own")
    return Item("cache", "cache", State.WORKS, str(folder))


def _unwritable(folder: Path) -> str:
    """Why nothing can be written in a folder that is there or has to be made; empty where it can."""
    place = next(p for p in (folder, *folder.parents) if p.exists())
    if not place.is_dir():
        return f"{place} is no directory"
    return "" if os.access(place, os.W_OK | os.X_OK) else f"no permission to write in {place}"


def _pynvml() -> Item:
    """nvidia-ml-py is one module; an old distribution named pynvml puts a package of the same name before it."""
    spec = util.find_spec("pynvml")
    origin = str(spec.origin or "") if spec else ""
    version = _version("nvidia-ml-py")
    title, lost = "NVML's Python module", "whatever newer drivers and GPUs tell, and older ones tell otherwise"
    if spec is None:
        change = f"{sys.executable} -m pip install nvidia-ml-py"
        return Item("pynvml", title, State.FAILS, "there is none in envsnap's Python", lost, change)
    if origin.endswith("__init__.py"):
        found = f"pynvml {_version('pynvml') or 'of unknown version'} hides nvidia-ml-py {version or '(not installed)'}"
        change = f"{sys.executable} -m pip uninstall pynvml; then install nvidia-ml-py again"
        return Item("pynvml", title, State.PARTLY, found, lost, change)
    return Item("pynvml", title, State.WORKS, f"nvidia-ml-py {version}" if version else origin)


def _distributions(snapshot: Snapshot) -> Item:
    """The unrelated `envsnap` has the same module and command."""
    title, lost = "distributions", "whichever was installed last is what runs, or a mixture of both"
    change = "pip uninstall envsnap envsnap-audit; then install envsnap-audit again"
    places = []
    if _version(_OTHER):
        places.append(sys.executable)
    if snapshot.values.get("python.envsnap_conflict"):
        places.append(str(snapshot.values.get("python.executable", "the engine's Python")))
    if places:
        found = f"the unrelated distribution envsnap is installed in {' and '.join(dict.fromkeys(places))}"
        return Item("distributions", title, State.FAILS, found, lost, change)
    return Item("distributions", title, State.WORKS, f"{_DISTRIBUTION} {_version(_DISTRIBUTION) or '(not installed)'}")


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _plug_in(snapshot: Snapshot) -> Item:
    """By the packages of the interpreter that a process of interest runs."""
    title = "plug-in in the engine's Python"
    if snapshot.values.get("python.chosen_by") != "process":
        return Item("plug_in", title, State.NOTHING, "no engine runs here, or its Python is not known (--pid, --match)")
    python = str(snapshot.values.get("python.executable", "python"))
    states = [v for p, v in snapshot.values.items() if p.startswith("record[") and p.endswith("].state")]
    if ARRIVED in states:
        return Item("plug_in", title, State.WORKS, "workers write records")
    version = snapshot.values.get(path_of("package[].version", _DISTRIBUTION))
    if isinstance(version, str):
        return Item("plug_in", title, State.WORKS, f"{_DISTRIBUTION} {version} in {python}")
    lost = "records by the workers themselves, under ENVSNAP_RECORD=DIR"
    return Item("plug_in", title, State.FAILS, f"not installed in {python}", lost, f"{python} -m pip install PATH")
