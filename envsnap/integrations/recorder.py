"""When this process's record is written: once it is ready, then every few seconds while it serves, and at its end.

The work is done by one daemon thread, which sleeps in between. `ready` is called by the process itself (an engine's
hook); where nobody will, the settle time stands in for it. A record says of which moment its content is:

    starting   it has run for the settle time, and its engine has yet to say that it is ready
    ready      its engine said so just now           settled    it has run for the settle time
    serving    later than that                       exit       at the process's end

A refresh that finds nothing new only renews the file's time. A forked child has no record, unless it is one of
`multiprocessing`'s, which starts its own.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Set
from typing import Any

from envsnap.integrations import asked_for
from envsnap.integrations.code import Code
from envsnap.integrations.plain import describe
from envsnap.integrations.process import is_spawned
from envsnap.integrations.reach import Reach
from envsnap.integrations.stacks import Stacks
from envsnap.integrations.trees import Trees

SETTLE_SECONDS = 10.0
INTERVAL_SECONDS = 5.0
PATIENCE_SECONDS = 1.0
"""How long the process itself waits for the thread, at a fork or at its end, before it goes on without a record."""


class Recorder:
    """The record of one process. `always`: also of one that ends before it was ready or settled."""

    def __init__(self, directory: str, always: bool) -> None:
        self.directory = os.path.abspath(directory)
        self.always = always
        self.expects_ready = False
        self.settle_seconds = _seconds("ENVSNAP_RECORD_SETTLE_SECONDS", SETTLE_SECONDS)
        self.interval_seconds = _seconds("ENVSNAP_RECORD_INTERVAL_SECONDS", INTERVAL_SECONDS)
        self.started_at = time.time()
        self.ready_at: float | None = None
        self.ready_by = ""
        self.ended = False
        self.cpu_seconds = 0.0
        self.engine: Callable[[], dict[str, Any]] = dict
        self.own_thread: dict[str, Any] = {}
        self.trees = Trees(os.environ.get("ENVSNAP_RECORD_CODE", ""))
        self.reach = Reach(self.trees)
        self.stacks = Stacks(self.trees)
        self.code = Code(self.trees)
        self.loaded_at_start: Set[str] = frozenset()
        self.cleaner: Any = None
        self.failed: dict[str, str] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._wake = threading.Event()
        self._name = ""
        self._written: Any = None
        self._told: float | None = None

    def begin(self) -> None:
        """Watch from now on; the thread does the rest."""
        self.reach.start()
        atexit.register(self.end)
        threading.Thread(target=self._run, name="envsnap-record", daemon=True).start()

    def ready(self, by: str, engine: Callable[[], dict[str, Any]]) -> None:
        """The process is about to serve. Called on its own thread: some settings can be read on that one alone."""
        from envsnap.integrations import frameworks

        self.own_thread = frameworks.own_thread()
        self.engine = engine
        self._serving(by)
        self._wake.set()

    @property
    def moment(self) -> str:
        """Of which moment a record made now would tell."""
        if self.ended:
            return "exit"
        if self.ready_at is None:
            return "starting"
        if self.ready_at == self._told:
            return "serving"
        return "settled" if self.ready_by == "settle" else "ready"

    def end(self) -> None:
        """The last record. What was watched is left alone."""
        if self.hold():
            try:
                self.ended = True
                if self.always or self.ready_at is not None:
                    self._write()
                self.reach.stop()
                self.stacks.stop()
            except Exception:
                pass
            finally:
                self.release()

    def hold(self) -> bool:
        """Keep the thread from working; False where it is at work and does not come to an end soon."""
        return self._lock.acquire(timeout=PATIENCE_SECONDS)

    def release(self) -> None:
        """Let the thread work again."""
        self._lock.release()

    def _serving(self, by: str) -> None:
        # NOTE: not the lock of the thread's work, which may take seconds while the process starts: this may not wait.
        with self._turn:
            if by == "settle" and (self.expects_ready or self.ready_at is not None):
                return
            self.ready_at, self.ready_by = time.time(), by
            self.loaded_at_start = frozenset(sys.modules)
            self.reach.serving()
            self.stacks.serving()

    def _run(self) -> None:
        wait = self.settle_seconds
        while True:
            self._wake.wait(wait)
            self._wake.clear()
            wait = self.interval_seconds
            with self._lock:
                if self.ended:
                    return
                try:
                    self._serving("settle")
                    self._write()
                except Exception as error:
                    self._fail(error)

    def _write(self) -> None:
        """Write the record, or renew its time where nothing has changed since."""
        from envsnap.integrations import content, files

        cpu = time.thread_time()
        state = content.state(self)
        if self._written == state and not self.ended:
            files.touch(self.directory, self._name)
        else:
            told = self.ready_at
            files.check(self.directory)  # before anything is made that may leave a trace there
            name, data = content.record(self)
            files.write(self.directory, name, data)
            if self._name not in ("", name):  # the process has been retitled since
                os.unlink(os.path.join(self.directory, self._name))
            self._name, self._written, self._told = name, state, told
        self.cpu_seconds += time.thread_time() - cpu

    def _fail(self, error: Exception) -> None:
        """Say that it failed, if at least that can be written."""
        from envsnap.integrations import content, files

        try:
            files.write(self.directory, *content.failure(self, error))
        except Exception:
            pass


_recorder: Recorder | None = None
_held: list[Recorder] = []
_armed: list[str] = []


def start(always: bool) -> Recorder | None:
    """Record this process, unless it already is. Never raises: None where it cannot be."""
    global _recorder
    try:
        if _recorder is None:
            _arm()
            recorder = Recorder(asked_for(), always)
            recorder.begin()
            _recorder = recorder
        _recorder.always = _recorder.always or always
        return _recorder
    except Exception:
        return None


def expect_ready() -> None:
    """Somebody will call `ready`: no settle time stands in for it."""
    if _recorder is not None:
        _recorder.expects_ready = True


def ready(by: str, engine: Callable[[], dict[str, Any]]) -> None:
    """Say that this process is about to serve, on its own thread. `engine` is asked for what the engine knows."""
    if _recorder is not None:
        _recorder.ready(by, engine)


def failed(part: str, error: Exception) -> None:
    """Say in the record that something could not be done; the process itself goes on."""
    if _recorder is not None:
        _recorder.failed[part] = describe(error)


def start_any() -> None:
    """Record this process, unless it is a helper of Python's own, or envsnap; one that ends soon only if a worker."""
    if _is_helper("forkserver"):
        _arm()  # it never serves, but its children do
    elif not _is_helper("resource_tracker") and "envsnap" not in map(os.path.basename, sys.orig_argv[:3]):
        start(always=is_spawned())


def _is_helper(module: str) -> bool:
    return any("from multiprocessing.%s import main" % module in argument for argument in sys.orig_argv)


def _seconds(name: str, default: float) -> float:
    try:
        return max(0.05, float(os.environ.get(name, default)))
    except ValueError:
        return default


# At a fork the thread must not be in the middle of anything, since the child has a copy of its locks but not of it.


def _arm() -> None:
    if not _armed:
        _armed.append("fork")
        os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)


def _before_fork() -> None:
    try:
        if _recorder is not None and _recorder.hold():
            _held.append(_recorder)
        util = sys.modules.get("multiprocessing.util")
        if util is not None and "multiprocessing" not in _armed:
            _armed.append("multiprocessing")
            util.register_after_fork(_start_in_worker, _start_in_worker)
    except Exception:
        pass


def _after_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_in_child() -> None:
    global _recorder
    try:
        if _recorder is not None:
            atexit.unregister(_recorder.end)
            _recorder.reach.stop()
        _recorder = None
        _held.clear()
    except Exception:
        pass


def _start_in_worker(_: Any) -> None:
    """Called by `multiprocessing` in a child that it has forked; such a child leaves without `atexit`."""
    recorder = start(always=True) if asked_for() else None
    if recorder is not None:
        from multiprocessing import util

        util.Finalize(None, recorder.end, exitpriority=-100)
