"""A worker as its parent sees it: asked for probes, and ended when it is late."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from envsnap.reading import Json

# NOTE: `-m` would look for modules in the current directory first: a checkout of torch is no torch.
_START = f"""import sys
sys.path = [*filter(None, sys.path), {str(Path(__file__).parents[2])!r}]
from envsnap.probe.worker import main
main(sys.argv[1:])"""
_END_SECONDS = 3.0
_REASON_CHARACTERS = 200


class Ended(Exception):
    """The worker is gone, or was ended because it was late: a reason in words."""


class Child:
    """A worker in a process group of its own. `lifetime` is after how many seconds it ends by itself at the latest."""

    def __init__(self, environment: Mapping[str, str], lifetime: float, place: dict[str, Json] | None = None) -> None:
        reader, writer = os.pipe()
        self._reader = reader
        self._unread = b""
        self._ended = ""
        # NOTE: torch and NCCL print to both streams; a pipe that nobody reads would stop them.
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", _START, str(writer), str(int(lifetime))),
                    *([json.dumps(place)] if place is not None else []),
                ],
                stdin=subprocess.PIPE,
                stdout=self._printed,
                stderr=self._printed,
                env=dict(environment),
                pass_fds=(writer,),
                start_new_session=True,
            )
        except BaseException:
            os.close(reader)
            self._printed.close()
            raise
        finally:
            os.close(writer)

    def ask(self, probe: str, **arguments: Json) -> None:
        """Have it begin; `answer` has what comes of it. Raises: Ended."""
        if self._ended:
            raise Ended(self._ended)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"probe": probe, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self._lost()

    def line(self, until: float) -> dict[str, Any]:
        """The next thing it says; one that says nothing until then is killed. Raises: Ended."""
        if self._ended:
            raise Ended(self._ended)
        while b"\n" not in self._unread:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._reader], [], [], left)[0]:
                self._kill()
                self._ended = "it took too long and was ended"
                raise Ended(self._ended)
            chunk = os.read(self._reader, 1 << 16)
            if not chunk:
                self._lost()
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said

    def dismiss(self) -> None:
        """Tell it to end."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                pass

    def end(self) -> bool:
        """Let it end, or kill it with all that it started; whether it is gone. To be called once."""
        self.dismiss()
        self._wait(0.0 if self._ended else _END_SECONDS)
        self._kill()
        gone = self._wait(_END_SECONDS) is not None
        if gone:
            self._process.wait()
        else:
            # NOTE: only a driver that hangs keeps a killed process; Popen must not complain about it too.
            self._process.returncode = -signal.SIGKILL
        os.close(self._reader)
        self._printed.close()
        return gone

    def _wait(self, seconds: float) -> str | None:
        """How it ended; None where it has not. It is left unreaped, so that its group cannot become another's."""
        until = time.monotonic() + seconds
        while True:
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if ended is not None:
                return f"exit code {ended.si_status}" if ended.si_code == os.CLD_EXITED else f"signal {ended.si_status}"
            if time.monotonic() >= until:
                return None
            time.sleep(0.005)

    def _kill(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _lost(self) -> NoReturn:
        """Raises: Ended, with how it ended and the last that it printed."""
        self._ended = f"its process ended ({self._wait(_END_SECONDS) or 'not yet'}){self._last_words()}"
        raise Ended(self._ended)

    def _last_words(self) -> str:
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - 4096))
        lines = [line.strip() for line in self._printed.read().decode(errors="replace").splitlines() if line.strip()]
        return f": {lines[-1][:_REASON_CHARACTERS]}" if lines else ""
