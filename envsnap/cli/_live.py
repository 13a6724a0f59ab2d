"""Live machines: this one, or those behind `--via`, each in a thread of its own, side by side."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from envsnap.cli import Trouble
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from envsnap.capture import Progress
    from envsnap.host import Host
    from envsnap.redact import Redactor
    from envsnap.remote import RemoteHost
    from envsnap.scope import Scope
    from envsnap.snapshot import Snapshot

T = TypeVar("T")

QUIET_SECONDS = 2.0
"""How long nothing is told of what goes on."""


@dataclass
class Outcome(Generic[T]):
    """What became of the work on one machine: `result`, or else `trouble`, a sentence."""

    name: str
    result: T | None = None
    trouble: str = ""
    doing: str = "connecting"


def described(args: Any) -> str:
    """The machines that are meant, without secrets."""
    from envsnap.remote_trouble import name_of

    redactor = shared.redactor_of(args)
    return ", ".join(name_of(redactor.clean(prefix)) for prefix in prefixes(args)) or "this machine"


def prefixes(args: Any) -> list[list[str]]:
    """The words of every `--via`, none where this machine is meant. Raises: Trouble."""
    found = []
    for given in args.via:
        try:
            found.append(shlex.split(given))
        except ValueError as error:
            first, *more = given.split()  # NOTE: where a password in it ends cannot be told any more
            shown = shared.redactor_of(args).clean_text(first) + (" …" if more else "")
            raise Trouble(f"--via {shown!r} is no list of words: {str(error).lower()}.") from error
    return found


@dataclass(frozen=True)
class There:
    """The snapshot of one machine: which `--via` it is behind, counted from 0, and what that is called."""

    number: int
    name: str
    snapshot: Snapshot


@dataclass(frozen=True)
class Taken:
    """The machines that were captured, in the order of `--via`, and what was in the way of others."""

    machines: list[There]
    troubles: list[str]


def nothing(host: Host) -> None:
    """What is done with a machine before its capture, where nothing is."""


def take(args: Any, scope: Scope, only: list[str], before: Callable[[Host], None] = nothing) -> Taken:
    """Capture the machine behind every `--via`. Raises: Trouble, where none could be captured.

    `before` is called with each machine first. One that is the host of another fills what that one cannot see.
    """
    from envsnap.capture import capture
    from envsnap.views import View, joined

    def work(host: RemoteHost, progress: Progress) -> View:
        before(host)
        redactor = shared.redactor_of(args)
        snapshot = capture(scope, host, deadline=args.deadline, only=only, redactor=redactor, progress=progress)
        host.deadline = time.monotonic() + shared.MARGIN_SECONDS
        return View(snapshot, _sees(host) if len(args.via) > 1 else frozenset())

    outcomes = on_each(args, work)
    done = [number for number, outcome in enumerate(outcomes) if outcome.result]
    snapshots = joined([view for outcome in outcomes if (view := outcome.result)])
    machines = [There(number, outcomes[number].name, snapshot) for number, snapshot in zip(done, snapshots)]
    return Taken(machines, [outcome.trouble for outcome in outcomes if outcome.trouble])


def on_each(args: Any, work: Callable[[RemoteHost, Progress], T]) -> list[Outcome[T]]:
    """`work` on the machine behind every `--via`, in their order. Raises: Trouble, where none of them came to an end.

    What is in the way of one stands in its outcome.
    """
    from envsnap.remote import connect
    from envsnap.remote_trouble import name_of

    given, redactor = prefixes(args), shared.redactor_of(args)
    lifetime = args.deadline + 2 * shared.MARGIN_SECONDS + getattr(args, "wait", 0.0)
    limits = {"lifetime": lifetime, "seconds": shared.connect_seconds(args)}
    reach = partial(connect, python=args.python, redactor=redactor, **limits)
    outcomes: list[Outcome[T]] = [Outcome(name_of(redactor.clean(prefix))) for prefix in given]
    threads = [
        threading.Thread(target=_work, args=(outcome, partial(reach, prefix), work, redactor), daemon=True)
        for outcome, prefix in zip(outcomes, given)
    ]
    for thread in threads:
        thread.start()
    _wait(threads, outcomes)
    if not any(outcome.result is not None for outcome in outcomes):
        raise Trouble(" ".join(outcome.trouble for outcome in outcomes))
    return outcomes


def _work(
    outcome: Outcome[T],
    reach: Callable[[], RemoteHost],
    work: Callable[[RemoteHost, Progress], T],
    redactor: Redactor,
) -> None:
    from envsnap.remote import RemoteError

    def progress(running: list[str], passed: float) -> None:
        outcome.doing = "reading " + ", ".join(running[:3]) + ("…" if len(running) > 3 else "")

    try:
        with reach() as host:
            outcome.doing = "reading"
            result = work(host, progress)
            if host.failure:
                raise RemoteError(host.failure)
            if not host.answered:
                raise RemoteError(f"{outcome.name}: no answer came within the deadline.")
            outcome.result = result
    except (RemoteError, Trouble) as error:
        outcome.trouble = str(redactor.sweep(redactor.clean_text(str(error))))
    except Exception as error:
        outcome.trouble = redactor.clean_text(f"{outcome.name}: unforeseen error, {type(error).__name__}: {error}.")


def _wait(threads: Sequence[threading.Thread], outcomes: Sequence[Outcome[T]]) -> None:
    from envsnap.remote_pipe import end_all

    try:
        _tell_until_done(threads, outcomes)
    except BaseException:
        end_all()
        raise


def _tell_until_done(threads: Sequence[threading.Thread], outcomes: Sequence[Outcome[T]]) -> None:
    from envsnap.cli._output import end_passing, tell_passing

    began = time.monotonic()
    while alive := [(t, o) for t, o in zip(threads, outcomes) if t.is_alive()]:
        alive[0][0].join(0.5)
        passed = time.monotonic() - began
        if passed > QUIET_SECONDS:
            tell_passing(f"{passed:.0f} s, " + "; ".join(f"{o.name} {o.doing}" for _, o in alive))
    end_passing()


def _sees(host: Host) -> frozenset[str]:
    """The PID namespaces of all processes that can be looked into from there."""
    from envsnap.reading import Value

    pids = [name for name in host.listdir("/proc") if name.isdigit()]
    links = host.found([["link", f"/proc/{pid}/ns/pid"] for pid in pids])
    return frozenset(str(link.value) for link in links if isinstance(link, Value))
