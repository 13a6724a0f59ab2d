"""The code that this process has loaded: of each package its place and files; of the recorded trees the content too."""

from __future__ import annotations

import os
import sys
from collections.abc import Set
from typing import Any

from envsnap.integrations.process import started
from envsnap.integrations.trees import Trees, is_own, is_standard

ENGINES = ("sglang", "vllm", "tensorrt_llm", "sgl_kernel")
"""Packages whose files are hashed wherever they lie."""

_PROGRAMS = ("__main__", "__mp_main__")
"""The program's own module, which is no package: its file is one of the files. The second stands in spawned workers."""

MAX_MODULES = 20_000
MAX_FILE_BYTES = 4 << 20
MAX_TOTAL_BYTES = 256 << 20


class Package:
    """A top-level package or module: where it lies, and what of it has been loaded."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.files: set[str] = set()
        self.elsewhere: dict[str, str] = {}
        self.blobs: dict[str, str] = {}

    def add(self, name: str, file: str) -> None:
        """Note a module and its file."""
        below = file[len(self.origin) + 1 :] if file.startswith(self.origin + os.sep) else ""
        if _module(below) == name.partition(".")[2]:
            self.files.add(below)
        else:
            self.elsewhere[name] = file


class Code:
    """Looks at each module and reads each file once, so that what is asked for later costs what has come since."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self._started = 0.0
        self._bytes_left = MAX_TOTAL_BYTES
        self._known: set[str] = set()
        self._directories: dict[str, str] = {}
        self._packages: dict[str, Package] = {}
        self._files: dict[str, str] = {}
        self._newer: set[str] = set()

    def loaded(self, at_start: Set[str]) -> dict[str, Any]:
        """{"count", "packages": {NAME: {"origin", "files", "elsewhere", "hash"}}, "files": {FILE: blob}, "newer"}.

        A package's `files` are relative to its `origin`; modules that do not lie where their name says are
        `elsewhere`, by name; the program itself is no package. `hash` stands for the content of the modules loaded
        `at_start`: what is loaded later depends on what was asked of the process. The outer `files` are those of the
        recorded trees with Git's name of their content; `newer` are hashed files that have changed on disk since this
        process was started. The standard library and envsnap are left out.
        """
        self._started = self._started or started()
        for name, module in list(sys.modules.items())[:MAX_MODULES]:
            if name not in self._known and isinstance(name, str):
                self._known.add(name)
                self._look_at(name, module)
        return {
            "count": len(sys.modules),
            "packages": {name: _as_json(package, at_start) for name, package in sorted(self._packages.items())},
            "files": dict(sorted(self._files.items())),
            "newer": sorted(self._newer),
        }

    def _look_at(self, name: str, module: Any) -> None:
        file = _namespace(module).get("__file__")
        if not isinstance(file, str):
            return
        file = self._real(file)
        if is_standard(file) or is_own(file):
            return
        top = name.partition(".")[0]
        recorded = self.trees.holds_real(file)
        hashed = file.endswith(".py") and (recorded or top in ENGINES)
        blob = self._blob(file) if hashed else ""
        if hashed and recorded:
            self._files[file] = blob
        if name in _PROGRAMS:
            return
        if top not in self._packages:
            self._packages[top] = Package(self._origin(top, file))
        self._packages[top].add(name, file)
        if hashed:
            self._packages[top].blobs[name] = blob

    def _origin(self, top: str, file: str) -> str:
        """Where a package lies: its directory, or the file of a module that is none."""
        namespace = _namespace(sys.modules.get(top))
        own = namespace.get("__file__")
        if isinstance(own, str):
            real = self._real(own)
            return os.path.dirname(real) if os.path.basename(real).startswith("__init__.") else real
        places = [place for place in namespace.get("__path__") or () if isinstance(place, str)]
        return os.path.realpath(places[0]) if places else os.path.dirname(file)

    def _real(self, file: str) -> str:
        directory, base = os.path.split(file)
        real = self._directories.get(directory)
        if real is None:
            real = self._directories[directory] = os.path.realpath(directory)
        return os.path.join(real, base)

    def _blob(self, file: str) -> str:
        """Git's name of a file's content; empty where that cannot be read."""
        # Here and not above: most processes never come so far, and its libraries are large.
        from hashlib import sha1

        try:
            with open(file, "rb") as stream:
                found = os.fstat(stream.fileno())
                if found.st_mtime > self._started:
                    self._newer.add(file)
                if found.st_size > min(MAX_FILE_BYTES, self._bytes_left):
                    return ""
                self._bytes_left -= found.st_size
                data = stream.read(MAX_FILE_BYTES)
            return sha1(b"blob %d\0" % len(data) + data).hexdigest()
        except (OSError, ValueError):
            return ""


def _as_json(package: Package, at_start: Set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"origin": package.origin, "files": sorted(package.files)}
    if package.elsewhere:
        found["elsewhere"] = dict(sorted(package.elsewhere.items()))
    if package.blobs and at_start:
        from hashlib import sha256

        lines = ["%s %s\n" % item for item in sorted(package.blobs.items()) if item[0] in at_start]
        found["hash"] = sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    return found


def _namespace(module: Any) -> dict[str, Any]:
    """What a module defines. NOTE: never by getattr, at which lazy modules load what they stand for."""
    try:
        namespace = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return namespace if isinstance(namespace, dict) else {}


def _module(file: str) -> str:
    """The name below its package of the module in that file: `srt/a.py` is `srt.a`, `srt/__init__.py` is `srt`."""
    directory, base = os.path.split(file)
    stem = base.partition(".")[0]
    return ".".join(part for part in (*directory.split(os.sep), "" if stem == "__init__" else stem) if part)
