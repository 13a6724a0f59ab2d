"""Another machine behind a command prefix (`ssh HOST`, `docker exec -i NAME`): the same `Host`, over a pipe.

The prefix is started as it is, without a shell here, and in a session of its own, so that nothing it runs can ask the
user's terminal for a password. What comes back is not trusted: every line, answer and wait has a bound. Batches of
many threads are under way at the same time, so that a long way costs each collector its own round trips alone.
"""

from __future__ import annotations

import base64
import json
import shlex
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from envsnap import remote_program as sent
from envsnap.host import Answer, Host, Request
from envsnap.reading import Value, Why
from envsnap.redact import Redactor
from envsnap.remote_pipe import Pipe
from envsnap.remote_trouble import Silence, may_lack_shell, name_of, unfit, why_silent, with_input

CONNECT_SECONDS = 20.0
"""How long a prefix may take until a Python has started behind it."""

LIFETIME_SECONDS = 300.0

_ANSWER_SECONDS = 60.0
_LINE_BYTES = 48 << 20
_ANSWER_BYTES = 160 << 20
_NOISE_LINE_BYTES, _NOISE_BYTES = 1 << 20, 4096
_END_SECONDS = 2.0
_ABOUT_SECONDS = 2.0


class RemoteError(Exception):
    """A far side that cannot be had, in one sentence without secrets."""


class _NoShell(RemoteError):
    """Perhaps because there is no shell."""


@dataclass
class _Batch:
    """Requests under way."""

    size: int
    answers: list[Answer] | None = None
    done: threading.Event = field(default_factory=threading.Event)


class RemoteHost(Host):
    """The machine behind a prefix, made by `connect`; `close` it, or use it as a context.

    `failure` says in one sentence why the connection ended before it was closed; what is asked from then on is
    missing. Threads may share one, forked processes may not.
    """

    def __init__(self, prefix: Sequence[str], pipe: Pipe, ready: sent.Ready, redactor: Redactor) -> None:
        super().__init__()
        self.name = name_of(redactor.clean(list(prefix)))
        self.failure = ""
        self.answered = 0
        """Batches that were answered so far."""
        self._prefix = shlex.join(redactor.clean(list(prefix)))
        self._pipe = pipe
        self._ready = ready
        self._redactor = redactor
        self._numbers = count()
        self._lock = threading.Lock()
        self._under_way: dict[int, _Batch] = {}
        self._closing = False
        self._reader = threading.Thread(target=self._receive, daemon=True, name="remote answers")
        self._reader.start()

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Ask there, and wait as long as the deadline allows."""
        if not requests:  # a round trip for nothing
            return []
        batch = _Batch(len(requests))
        with self._lock:
            if self.failure or self._closing:
                return _none(batch.size, Why.GONE, self.failure or "the connection was closed")
            number = next(self._numbers)
            self._under_way[number] = batch
        self._pipe.send(json.dumps([number, requests]).encode("ascii") + b"\n")
        batch.done.wait(max(0.0, min(_ANSWER_SECONDS, self.deadline - time.monotonic())))
        with self._lock:
            self._under_way.pop(number, None)
        if batch.answers is not None:
            return batch.answers
        if self.failure:
            return _none(batch.size, Why.GONE, self.failure)
        return _none(batch.size, Why.TIMEOUT, "no answer from the other machine within the deadline")

    def about(self) -> dict[str, Any]:
        """How this machine was reached, for the snapshot: the prefix without secrets, what answers there, what it cost.

        Seconds and bytes; what the far side could not say is left out.
        """
        told: dict[str, Any] = {
            "prefix": self._prefix,
            "python": self._ready.python,
            "machine": self._ready.machine,
            "nvml": "sent along" if sent.nvml_source() else "that of the other machine",
        }
        began = time.monotonic()
        self.deadline = max(self.deadline, began + _ABOUT_SECONDS)  # also where all the time was needed
        cost, namespace = self.found([["cost"], ["link", "/proc/self/ns/pid"]])
        if isinstance(cost, Value) and isinstance(namespace, Value):
            told["round_trip_seconds"] = round(time.monotonic() - began, 4)
            told["cost"], told["pid_namespace"] = cost.value, namespace.value
        return {**told, "sent_bytes": self._pipe.sent, "received_bytes": self._pipe.received}

    def close(self) -> None:
        """End the far side and what led to it; it is killed where it does not end by itself."""
        with self._lock:
            self._closing = True
        self._pipe.end(_END_SECONDS)
        self._reader.join()
        self._pipe.close()

    def __enter__(self) -> RemoteHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self) -> None:
        failure = "the connection ended too early"
        try:
            while line := self._pipe.line(_LINE_BYTES):
                self._take(line)
        except (ValueError, RecursionError, zlib.error) as error:
            failure = f"what came back is no answer: {error}"
        complaint = "" if self._closing else self._pipe.complaint()
        with self._lock:
            if not self._closing:
                words = f"{self.name}: {failure}{f' ({complaint})' if complaint else ''}."
                self.failure = self._redactor.clean_text(words)
            waiting, self._under_way = list(self._under_way.values()), {}
        for batch in waiting:
            batch.done.set()
        if self.failure:
            self._pipe.end(0.0)

    def _take(self, line: bytes) -> None:
        number, answers = _decoded(line)
        with self._lock:
            batch = self._under_way.get(number)
        if batch is None:  # it came after its deadline
            return
        if len(answers) != batch.size:
            raise ValueError(f"{len(answers)} to {batch.size} requests")
        self.answered += 1
        batch.answers = answers
        batch.done.set()


def _decoded(line: bytes) -> tuple[int, list[Answer]]:
    """The number and the answers of a line. Raises: ValueError, RecursionError, zlib.error."""
    number, _, packed = line.partition(b" ")
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(packed.strip(), validate=True), _ANSWER_BYTES)
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("too large, or cut short")
    answers = json.loads(data)
    if not isinstance(answers, list):
        raise ValueError("not a list")
    return int(number), answers


def _none(count: int, why: Why, detail: str) -> list[Answer]:
    return [["missing", why.value, detail]] * count


def connect(
    prefix: Sequence[str],
    *,
    python: str = "",
    lifetime: float = LIFETIME_SECONDS,
    seconds: float = CONNECT_SECONDS,
    redactor: Redactor | None = None,
) -> RemoteHost:
    """Start envsnap's machine module behind a prefix, within so many seconds.

    `python` is tried first there; the far side lives `lifetime` seconds at most. Raises: RemoteError.
    """
    prefix = with_input(prefix)
    given = (int(lifetime), seconds, redactor or Redactor())
    try:
        return _connect(prefix, sent.Start.by_shell(python), *given)
    except _NoShell as first:
        try:
            return _connect(prefix, sent.Start.without_shell(python), *given)
        except _NoShell:
            raise first from None


def _connect(prefix: Sequence[str], start: sent.Start, lifetime: int, seconds: float, redactor: Redactor) -> RemoteHost:
    who = name_of(redactor.clean(list(prefix)))
    try:
        pipe = Pipe([*prefix, *start.words])
    except (OSError, ValueError) as error:
        word = redactor.clean_text(prefix[0] if prefix else start.words[0])
        raise RemoteError(f"Cannot start {word}: {getattr(error, 'strerror', None) or error}.") from error
    try:
        pipe.send(start.line)
        ready, said = _answer(pipe, who, start.mark, seconds)
        if problem := unfit(who, ready, said):
            raise RemoteError(problem)
        pipe.send(sent.program(lifetime))
        return RemoteHost(prefix, pipe, ready, redactor)
    except RemoteError as error:
        _abandon(pipe)
        raise type(error)(redactor.clean_text(str(error))) from error
    except BaseException:
        _abandon(pipe)
        raise


def _abandon(pipe: Pipe) -> None:
    pipe.end(0.0)
    pipe.close()


def _answer(pipe: Pipe, who: str, mark: str, seconds: float) -> tuple[sent.Ready, str]:
    """What the far side says of itself, behind whatever log-in scripts print first; and what follows it where that
    is no Python's word."""
    until = time.monotonic() + seconds
    noise = b""
    code = None
    try:
        while line := pipe.line(_NOISE_LINE_BYTES, until):
            ready = sent.ready_of(line.decode("utf-8", "replace"), mark)
            if ready:
                return ready, "" if ready.python else pipe.rest(until)
            noise = (noise + line)[-_NOISE_BYTES:]
        code = pipe.code(1.0)
    except TimeoutError:
        noise += pipe.unfinished()
    except ValueError as error:
        raise RemoteError(f"{who} prints without an end before anything starts ({error}).") from error
    silence = Silence(code, noise.decode("utf-8", "replace"), pipe.complaint(), seconds)
    raise (_NoShell if may_lack_shell(silence) else RemoteError)(why_silent(who, silence))
