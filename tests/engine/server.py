"""A server of the engine: started in a group of its own, waited for, and stopped so that nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

READY_SECONDS = 600.0
"""For a machine that has other things to do: it decides nothing but when a start is given up."""
STOP_SECONDS = 60.0
SHM = Path("/dev/shm")
_LEFT_BY_ENGINE = ("sgl_shm_mq_*", "sglang_loads_*", "sem.mp-*", "psm_*", "torch_*")


class NotServing(Exception):
    """The server did not come up; the message ends with the end of its log."""


def free_port() -> int:
    """A port of the loopback that nothing listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def answers(url: str, seconds: float = 5.0) -> bool:
    """Whether an address answers with status 200."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Server:
    """A server at `url`, of the process group `pid`, whose log is a file."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.log = process, log
        self.pid = process.pid
        self.url = f"http://127.0.0.1:{port}"

    def wait(self, seconds: float = READY_SECONDS) -> None:
        """Wait until it is ready. Raises: NotServing."""
        end = time.monotonic() + seconds
        while not answers(f"{self.url}/health"):
            if self.process.poll() is not None:
                raise NotServing(f"the server ended with {self.process.returncode}: {self.tail()}")
            if time.monotonic() > end:
                raise NotServing(f"the server was not ready after {seconds:.0f} s: {self.tail()}")
            time.sleep(0.2)

    def tail(self, count: int = 1500) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-count:]


@contextlib.contextmanager
def serving(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, port: int, patience: float = STOP_SECONDS
) -> Iterator[Server]:
    """A server while the block lasts, not yet ready. `patience`: seconds that it gets to end by itself.

    Raises: NotServing where another one has the port.

    NOTE: it works in `folder` and not in a repository, whose own metadata would hide that of what is installed.
    """
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5.0):
        raise NotServing(f"something else listens on port {port}: it would be measured instead")
    before = shared_memory()
    log = folder / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=dict(environment), cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL, stdout=file,
            stderr=file,
        )  # fmt: skip
    try:
        yield Server(process, port, log)
    finally:
        end(process, patience)
        sweep(before)


def end(process: subprocess.Popen[bytes], patience: float = STOP_SECONDS) -> None:
    """End a process and its group: SIGTERM, then SIGKILL; returns when nobody of the group is left."""
    _signal(process.pid, signal.SIGTERM)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        pass
    _signal(process.pid, signal.SIGKILL)
    process.wait(STOP_SECONDS)
    limit = time.monotonic() + STOP_SECONDS
    while in_session(process.pid) and time.monotonic() < limit:
        time.sleep(0.05)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def in_session(session: int) -> list[int]:
    """The processes of a session that still run, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, _, held = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(held) == session and state not in "ZX":
            found.append(int(entry.name))
    return sorted(found)


def shared_memory() -> frozenset[str]:
    """The names in /dev/shm."""
    return frozenset(os.listdir(SHM)) if SHM.is_dir() else frozenset()


def sweep(before: frozenset[str]) -> None:
    """Remove what the engine leaves in /dev/shm, and was not there before."""
    for path in left_over(before):
        path.unlink(missing_ok=True)


def left_over(before: frozenset[str]) -> list[Path]:
    """Files of the engine's kind in /dev/shm that came since and that nobody holds."""
    new = {path for pattern in _LEFT_BY_ENGINE for path in SHM.glob(pattern) if path.name not in before}
    return sorted(path for path in new if not _is_held(path))


def _is_held(path: Path) -> bool:
    """Whether a running process has it mapped: then it is somebody else's, started meanwhile."""
    needle = f" {path}\n".encode()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if needle in maps.read_bytes():
                return True
    return False
