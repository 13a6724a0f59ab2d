"""Work in a child that may hang for good: the parent waits, forwards signals, and leaves in time.

A thread stuck in an uninterruptible system call keeps its process from exiting, so that a command which read a
broken driver could never return by itself.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

_GRACE_SECONDS = 3.0
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NO_LIMIT = b"\xff"

_to_parent = -1


def supervised(work: Callable[[], int], seconds: float) -> int | None:
    """The exit code of `work`, done in a forked child; None where that did not end within `seconds`.

    Call it before threads start. `work` must not raise.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    # A signal between the fork and the handlers would end the parent alone; held back, it comes once both can hear it.
    unheld = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    if child == 0:
        os.close(reader)
        _work(work, writer, unheld)
    os.close(writer)
    return _wait(child, reader, time.monotonic() + seconds, unheld)


def lift_limit() -> None:
    """Called in the child once the machine was read: what is left may take as long as its reader likes."""
    if _to_parent >= 0:
        os.write(_to_parent, _NO_LIMIT)


def _work(work: Callable[[], int], writer: int, unheld: set[int]) -> None:
    global _to_parent
    _to_parent = writer
    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupted)
    code = 2
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, unheld)
        code = work()
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:  # before the work could begin, or after it was done
        code = 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        # NOTE: a child that cannot die would keep them open, and who reads our output would wait for their end.
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.write(writer, bytes([code]))
        os._exit(code)


def _interrupted(number: int, frame: Any) -> None:
    for each in _FORWARDED:  # a terminal's Ctrl-C comes twice, from it and from the parent
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def _wait(child: int, reader: int, limit: float, unheld: set[int]) -> int | None:
    def forward(number: int, frame: Any) -> None:
        nonlocal limit
        os.kill(child, number)
        limit = min(limit, time.monotonic() + _GRACE_SECONDS)

    # NOTE: what the caller ignores (SIGHUP under nohup) stays ignored, also by a command that takes our place later.
    heard = [number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in heard}
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, unheld)
        code: int | None = None
        while (left := limit - time.monotonic()) > 0:
            if not select.select([reader], [], [], min(left, 1.0))[0]:
                continue
            said = os.read(reader, 1)
            if said == _NO_LIMIT:
                limit = float("inf")
            elif said:
                code, limit = said[0], min(limit, time.monotonic() + _GRACE_SECONDS)
            else:  # the last thread is gone: the child can be waited for, and its usage counts as ours
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                return code if code is not None else 128 - status if status < 0 else status
        os.kill(child, signal.SIGKILL)
        return code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
