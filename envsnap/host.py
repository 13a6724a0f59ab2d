"""The one door to the machine: live or recorded, the same interface.

Collectors know only `Host`. Its primitives are requests to `machine.py`, asked singly or in batches; a value
comes back, or `Missing` is raised for what is unavailable, or `HostError` for what went wrong.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

from envsnap import machine
from envsnap.reading import Error, Found, Json, Missing, Unavailable, Value, Why

T = TypeVar("T")
Request = Sequence[Json]
Answer = Sequence[Json]


class HostError(Exception):
    """The machine failed to answer in a way that nobody foresaw."""


class Host:
    """A machine. Subclasses say how requests are answered (`ask`); everything else is shared.

    `deadline` is a moment of `time.monotonic()` after which nothing new is started.
    """

    cacheable = False
    """Whether answers may be kept in, and come from, this user's cache (`envsnap.cache`): on the live machine alone."""

    def __init__(self) -> None:
        self.deadline = float("inf")
        self._memo: dict[str, Any] = {}
        self._memo_locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def begin(self, deadline: float) -> None:
        """Start anew, with a deadline: what was computed once for an earlier capture may have changed since."""
        self.deadline = deadline
        with self._lock:
            self._memo.clear()

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer a batch of requests, in order; see `machine` for their form."""
        raise NotImplementedError

    def about(self) -> dict[str, Json]:
        """How another machine is reached, for its snapshot; empty for this one and for recorded ones."""
        return {}

    def found(self, requests: Sequence[Request]) -> list[Found]:
        """Answers of a batch as readings: nothing raises, one per request, in order."""
        return [found_of(answer) for answer in self.ask(requests)]

    def one(self, operation: str, *arguments: Json) -> Json:
        """The value of one request.

        Raises: Missing when it is unavailable, HostError when it failed.
        """
        return value_of(self.found([[operation, *arguments]])[0])

    def memo(self, name: str, compute: Callable[[], T]) -> T:
        """Compute something once a capture, whichever collector asks first; a failure is not kept."""
        with self._lock:
            lock = self._memo_locks.setdefault(name, threading.Lock())
        with lock:
            if name not in self._memo:
                self._memo[name] = compute()
            result: T = self._memo[name]
            return result

    def left(self, at_most: float) -> float:
        """Seconds that may still be spent on one thing. Raises Missing when the deadline has passed."""
        left = min(at_most, self.deadline - time.monotonic())
        if left <= 0:
            raise Missing(Why.TIMEOUT, "the deadline had passed")
        return left

    # -- files ----------------------------------------------------------------------------------------------

    def read(self, path: str, limit: int = machine.READ_LIMIT, partial: bool = False) -> str:
        """Text of a file of at most `limit` bytes (or, `partial`, its beginning)."""
        return _checked(self.one("read", path, limit, partial), str)

    def read_all(self, paths: Iterable[str], limit: int = machine.READ_LIMIT) -> dict[str, Found]:
        """Text of many files at once: path -> reading, without surrounding white space."""
        wanted = list(paths)
        found = self.found([["read", path, limit] for path in wanted])
        return {path: _stripped(f) for path, f in zip(wanted, found)}

    def read_matching(self, paths: Iterable[str], limit: int = machine.READ_LIMIT) -> dict[str, dict[str, Found]]:
        """Text of files, and of every file that matches where a path is a shell pattern, in one batch.

        What was asked for -> path -> reading, without surrounding white space. A pattern that matches nothing
        holds nothing; one that failed stands under itself. Files that a pattern finds have at most 64 KiB.
        """
        wanted = list(dict.fromkeys(paths))
        requests = [["read_matching", p, 1 << 16] if _is_pattern(p) else ["read", p, limit] for p in wanted]
        texts: dict[str, dict[str, Found]] = {}
        for path, found in zip(wanted, self.found(requests)):
            if _is_pattern(path) and isinstance(found, Value) and isinstance(found.value, dict):
                texts[path] = {name: _stripped(found_of(answer)) for name, answer in found.value.items()}
            else:
                texts[path] = {path: _stripped(found)}
        return texts

    def listdir(self, path: str) -> list[str]:
        """Sorted names in a directory."""
        return _checked(self.one("list", path), list)

    def glob(self, pattern: str) -> list[str]:
        """Sorted paths that match a shell pattern."""
        return _checked(self.one("glob", pattern), list)

    def stat(self, path: str, follow: bool = True) -> dict[str, Any]:
        """type, size, mtime_ns, mode, uid, gid, inode, device, rdev of a path."""
        return _checked(self.one("stat", path, follow), dict)

    def lstats(self, directory: str, names: Sequence[str]) -> list[list[int] | None]:
        """[mode, size, mtime_ns, ctime_ns, inode] of each name below a directory, links not followed."""
        return _checked(self.one("lstats", directory, list(names)), list)

    def link(self, path: str) -> str:
        """Target of a symbolic link."""
        return _checked(self.one("link", path), str)

    def realpath(self, path: str) -> str:
        """The path with symbolic links resolved."""
        return _checked(self.one("realpath", path), str)

    def read_bytes(self, path: str, offset: int, size: int) -> bytes:
        """Up to `size` bytes of a file from `offset`, which counts from the end where negative."""
        return base64.b64decode(_checked(self.one("bytes", path, offset, size), str))

    def within(self, seconds: float, requests: Sequence[Request]) -> list[Found]:
        """Answers, in order, of requests that may hang; one that takes longer than `seconds` is a timeout."""
        answers = _checked(self.one("within", seconds, [list(r) for r in requests]), list)
        if len(answers) != len(requests):
            raise HostError(f"{len(answers)} answers to {len(requests)} requests")
        return [found_of(answer) for answer in answers]

    # -- programs, processes, driver ------------------------------------------------------------------------

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 5.0,
        env: dict[str, str | None] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        limit: int = machine.RUN_LIMIT,
    ) -> tuple[int, str, str]:
        """Run a program without a shell: exit code, standard output, standard error."""
        answer = _checked(self.one("run", list(argv), env, cwd, self.left(timeout), limit, stdin), dict)
        return answer["code"], answer["out"], answer["err"]

    def memory(self, pid: int, ranges: Sequence[tuple[int, int]]) -> list[bytes | None]:
        """Bytes of a process's memory at (address, size) ranges; None where nothing is mapped."""
        parts = _checked(self.one("memory", pid, [list(r) for r in ranges]), list)
        return [None if part is None else base64.b64decode(part) for part in parts]

    def nvml(self, function: str, *arguments: Json) -> Json:
        """An NVML getter's value; "gpu:0" stands for a GPU's handle."""
        return self.one("nvml", function, *arguments)

    def environ(self) -> dict[str, str]:
        """The environment of the process that captures."""
        return self.memo("environ", lambda: _checked(self.one("environ"), dict))

    def self(self) -> dict[str, Any]:
        """The process that captures and its interpreter; see `machine.op_self`."""
        return self.memo("self", lambda: _checked(self.one("self"), dict))


def value_of(found: Found) -> Json:
    """The value of a reading. Raises: Missing or HostError where there is none."""
    if isinstance(found, Value):
        return found.value
    if isinstance(found, Unavailable):
        raise Missing(found.why, found.detail)
    raise HostError(found.message)


def _checked(value: Json, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise HostError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def _stripped(found: Found) -> Found:
    return Value(found.value.strip()) if isinstance(found, Value) and isinstance(found.value, str) else found


def _is_pattern(path: str) -> bool:
    return "*" in path or "[" in path


def found_of(answer: Answer) -> Found:
    """An answer of the machine as a reading; a malformed one is an error."""
    if not isinstance(answer, (list, tuple)) or not answer:
        return Error("malformed answer")
    if answer[0] == "ok" and len(answer) == 2:
        return Value(answer[1])
    if answer[0] == "missing" and len(answer) == 3:
        try:
            return Unavailable(Why(answer[1]), str(answer[2]))
        except ValueError:
            return Error(f"malformed answer: {answer[1]!r}")
    return Error(str(answer[1]) if len(answer) > 1 else "malformed answer")


class LiveHost(Host):
    """This machine."""

    cacheable = True

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Ask in this process."""
        answers: list[Answer] = machine.answer_all(requests)
        return answers


class RecordedHost(Host):
    """A machine that was recorded: answers come from memory, and what was never asked is `otherwise`."""

    def __init__(self, calls: dict[str, Answer], otherwise: Why = Why.NOT_RECORDED) -> None:
        super().__init__()
        self._calls = calls
        self._otherwise = otherwise

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Look every request up."""
        return [
            self._calls.get(call_id(r)) or ["missing", self._otherwise.value, "not in the recording"] for r in requests
        ]


class RecordingHost(Host):
    """Passes every request on to another host and keeps what it answered."""

    def __init__(self, inner: Host) -> None:
        super().__init__()
        self._inner = inner
        self.calls: dict[str, tuple[Request, Answer]] = {}

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Pass on, and keep the first answer to each request."""
        answers = self._inner.ask(requests)
        for request, answer in zip(requests, answers):
            self.calls.setdefault(call_id(request), (request, answer))
        return answers


def call_id(request: Request) -> str:
    """What names a request in a recording: all of it, except how long it was given."""
    return json.dumps(timeless(request), sort_keys=True)


def timeless(request: Request) -> list[Json]:
    """A request with null where it says how long it may take."""
    if not request:
        return []
    when = _limits().get(request[0]) if isinstance(request[0], str) else None
    parts: list[Json] = [None if index == when else part for index, part in enumerate(request)]
    if parts[0] == "within" and len(parts) > 2:
        parts[2] = [timeless(inner) for inner in parts[2]]
    return parts


@cache
def _limits() -> dict[str, int]:
    """Operation -> where its request says how long it may take."""
    found: dict[str, int] = {}
    for name, operation in machine.OPERATIONS.items():
        parameters = operation.__code__.co_varnames[: operation.__code__.co_argcount]
        found |= {name: i for i, parameter in enumerate(parameters, 1) if parameter in ("timeout", "seconds")}  # noqa: B035
    return found
