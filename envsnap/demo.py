"""The whole job on any machine: a small server measured fast, then slow by one planted change among real noise."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from envsnap import demo_engine
from envsnap.capture import capture
from envsnap.redact import Redactor
from envsnap.scope import Scope
from envsnap.snapshot import Snapshot

WINDOWS = 4
PLANTED = {"NCCL_PROTO": "Simple"}


@dataclass(frozen=True)
class Measured:
    """One run of the engine: its speed in tokens a second, and the state it ran in."""

    speed: float
    snapshot: Snapshot


class DemoError(Exception):
    """The demo could not do its work; one sentence."""


@contextmanager
def stage() -> Iterator[Path]:
    """A folder with the engine in a git repository of its own (a plain folder where there is no git); gone after."""
    with tempfile.TemporaryDirectory(prefix="envsnap-demo-") as name:
        folder = Path(name) / "engine"
        folder.mkdir()
        source = Path(demo_engine.__file__).read_text(encoding="utf-8")
        (folder / "engine.py").write_text(source, encoding="utf-8")
        (folder / "README.md").write_text("A pretend engine.\n", encoding="utf-8")
        _git(folder, "init", "-q")
        _commit(folder, "An engine")
        yield folder


def measure(folder: Path, noise: Mapping[str, str], planted: Mapping[str, str]) -> Measured:
    """Run the engine with these variables in its launcher, and capture while it decodes. Raises: DemoError."""
    inherited = {name: value for name, value in os.environ.items() if name not in PLANTED}
    with _engine(folder, {**inherited, **noise, **planted}) as process:
        speeds = _speeds(process)
        next(speeds)  # the ranks have just started
        before = [next(speeds) for _ in range(WINDOWS // 2)]
        scope = Scope(pids=(process.pid,), repos=(str(folder),), cache=False)
        snapshot = capture(scope, redactor=Redactor(folder.parent / "store"))
        next(speeds)  # the capture took a little of this window
        speed = statistics.mean([*before, *(next(speeds) for _ in range(WINDOWS - len(before)))])
    return Measured(speed, replace(snapshot, moment="during", note=f"{speed:.1f} tok/s"))


def make_noise(folder: Path) -> None:
    """Changes between the runs that do not matter: a commit, a file left behind."""
    (folder / "README.md").write_text("A pretend engine, for a demonstration.\n", encoding="utf-8")
    _commit(folder, "Say what it is for")
    (folder / "notes.txt").write_text("try again tomorrow\n", encoding="utf-8")


@contextmanager
def _engine(folder: Path, env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The engine in a session of its own: a Ctrl-C is ours alone, and whatever is left of it is ended with it."""
    process = subprocess.Popen(
        [sys.executable, "engine.py"],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        with process:
            pass


def _speeds(process: subprocess.Popen[str]) -> Iterator[float]:
    """What the engine reports, in tokens a second. Raises: DemoError where it stops."""
    for line in process.stdout or ():
        yield float(line.split()[0])
    raise DemoError("the demo's engine stopped by itself")


def _commit(folder: Path, message: str) -> None:
    _git(folder, "add", "-A")
    _git(
        folder, "-c", "user.name=demo", "-c", "user.email=demo@localhost", "commit", "-q", "--no-verify", "-m", message
    )


def _git(folder: Path, *arguments: str) -> None:
    """Git in the demo's repository, without the user's settings (signing, hooks, templates); missing git is borne."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    env = {k: v for k, v in env.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_TEMPLATE_DIR")}
    try:
        subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, timeout=10)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        pass
