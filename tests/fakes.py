"""A machine made up in a test: the Host boundary is the only place where envsnap is given fakes."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from envsnap.host import Answer, Host, Request
from envsnap.reading import Json

Reply = Json | Callable[..., Json]


def missing(why: str, detail: str = "") -> list[str]:
    """An answer of a `replies` entry that says that something cannot be had."""
    return ["missing", why, detail]


class FakeHost(Host):
    """Answers file requests from `files` (path -> text) and `links` (path -> target), all else from `replies`.

    A reply is found by operation and arguments, `("nvml", "nvmlDeviceGetName", "gpu:0")`, or by operation and
    first argument, or by operation alone; it is a value, a callable on the arguments, or an answer made with
    `missing`. `denied` are paths that answer EACCES. Whatever is not there is absent. Directories follow from files.
    """

    def __init__(
        self,
        files: Mapping[str, str] | None = None,
        links: Mapping[str, str] | None = None,
        replies: Mapping[tuple[Any, ...], Reply] | None = None,
        denied: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.files = dict(files or {})
        self.links = dict(links or {})
        self.replies = dict(replies or {})
        self.denied = tuple(denied)
        self.asked: list[Request] = []
        self.rounds = 0
        self._paths: tuple[str, ...] = ()
        self._directories: dict[str, set[str]] = {}

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        self.rounds += 1
        self.asked.extend(requests)
        return [self._answer(list(r)) for r in requests]

    def _answer(self, request: list[Any]) -> Answer:
        operation, arguments = request[0], request[1:]
        hashable = tuple(tuple(a) if isinstance(a, list) else a for a in arguments)
        for candidate in ((operation, *hashable), (operation, *hashable[:1]), (operation,)):
            try:
                if candidate not in self.replies:
                    continue
            except TypeError:
                continue
            reply = self.replies[candidate]
            if callable(reply):
                reply = reply(*arguments)
            if isinstance(reply, list) and len(reply) == 3 and reply[0] == "missing":
                return reply
            return ["ok", reply]
        return self._file(operation, arguments)

    def _file(self, operation: str, arguments: list[Any]) -> Answer:
        path = str(arguments[0]) if arguments else ""
        if any(path == d or path.startswith(d + "/") for d in self.denied):
            return ["missing", "denied", f"Permission denied: {path}"]
        if operation == "within":
            return ["ok", [self._answer(list(r)) for r in arguments[1]]]
        if operation == "link":
            place = posixpath.join(self._resolve(posixpath.dirname(path)), posixpath.basename(path))
            if place in self.links:
                return ["ok", self.links[place]]
        real = self._resolve(path)
        if operation == "realpath":
            return ["ok", real]
        if operation == "glob":
            return ["ok", self._glob(path)]
        if operation == "read_matching":
            return ["ok", {p: self._file("read", [p, *arguments[1:]]) for p in self._glob(path)}]
        if real in self.files:
            data = self.files[real].encode("utf-8", "surrogateescape")
            if operation == "read":
                limit = arguments[1] if len(arguments) > 1 else 1 << 30
                if len(data) > limit:
                    if not (len(arguments) > 2 and arguments[2]):
                        return ["missing", "too_large", path]
                    data = data[:limit]
                return ["ok", data.decode("utf-8", "surrogateescape")]
            if operation == "hash":
                return ["ok", hashlib.sha256(data).hexdigest()]
            if operation == "stat":
                return ["ok", _stat("file", len(data))]
        if real in self._tree():
            if operation == "list":
                return ["ok", sorted(self._names(real))]
            if operation == "stat":
                return ["ok", _stat("dir", 0)]
        return ["missing", "absent", f"No such file or directory: {path}"]

    def _glob(self, pattern: str) -> list[str]:
        """Follows links below a pattern, as a real glob does."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if any(c in part for c in "*?["):
                found = [f"{base}/{name}" for base in found for name in self._names(base) if fnmatchcase(name, part)]
            else:
                found = [f"{base}/{part}" for base in found]
        return sorted(p for p in found if posixpath.basename(p) in self._names(posixpath.dirname(p)))

    def _names(self, folder: str) -> set[str]:
        """What stands in a directory."""
        return self._tree().get(self._resolve(folder), set())

    def _tree(self) -> dict[str, set[str]]:
        """Directories that follow from files and links, and what stands in them."""
        paths = (*self.files, *self.links)
        if paths != self._paths:
            self._paths, self._directories = paths, {}
            for path in paths:
                while path not in ("/", ""):
                    path, name = posixpath.split(path)
                    self._directories.setdefault(path, set()).add(name)
        return self._directories

    def _resolve(self, path: str) -> str:
        for _ in range(20):
            for link, target in self.links.items():
                if path == link or path.startswith(link + "/"):
                    path = posixpath.normpath(posixpath.join(posixpath.dirname(link), target) + path[len(link) :])
                    break
            else:
                return path
        return path


def _stat(kind: str, size: int) -> dict[str, Any]:
    return {
        "type": kind, "size": size, "mtime_ns": 1_700_000_000_000_000_000, "mode": 0o644, "uid": 0, "gid": 0,
        "inode": 1, "device": 1, "rdev": 0,
    }  # fmt: skip
