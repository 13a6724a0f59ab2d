"""A search on the real engine: twelve changed states of which the planted ones matter, interrupted and continued.

    python -m tests.benchmarks.prove_engine FOLDER --engine DIR [--ranks 2] [--plant commit variable] [--kill 5]

DIR is what `bash tests/engine/cpu/setup` makes. Both sides are recorded into FOLDER (kept, so that they are recorded
once), then `envsnap prove` is run as a user does; after `--kill` runs it is killed with SIGKILL while the next is at
work, after `--stop` runs interrupted with SIGINT, and continued by `--continue last`. Without anything planted a
program takes the CPUs while the slow side is recorded: that gap must not come back. One server at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.planted import states
from tests.engine import bench
from tests.engine.checkout import Checkout, Edit
from tests.engine.environment import Engine, find, variables
from tests.engine.server import free_port
from tests.integrations.recording import ROOT, environment
from tests.integrations.test_engines import entry_point

PLANTS = ("commit", "variable", "argument")
_METRIC = ["--metric", "step_seconds[s,lower]=json:step_seconds"]
_STEP = "        self.forward_ct += 1\n        batch.forward_iter = self.forward_ct\n"
_SCHEDULER = "sglang/srt/managers/scheduler.py"
_CHECK = "sum(i * i for i in range(WORK)) % 7"
_NOW_AND_THEN = f"""{_STEP}
        # What is sent has to be finite; looked at as often as is logged.
        if self.forward_ct % max(self.server_args.decode_log_interval, 1) == 0:
            self.checked = {_CHECK}
"""
_ALWAYS = f"""{_STEP}
        # A batch that is not finite must not be sent.
        self.checked_always = {_CHECK}
"""
BASE = Edit("Check batches as often as is logged", _SCHEDULER, _STEP, _NOW_AND_THEN, first=True)
"""On both sides: what makes an option matter that by itself only writes a log."""
COMMITS: tuple[Edit, ...] = (
    Edit("Say what the version is for", "sglang/version.py", "", "# What is installed.\n"),
    Edit("Check batches on the host", _SCHEDULER, _STEP, _ALWAYS, first=True),
    Edit("A counter of our own", "sglang/global_config.py", "", "COUNTED = 0\n"),
    Edit("Locally: a note", "sglang/utils.py", "", "# Local note.\n", committed=False),
)

# With one below, eleven states beside the code.
INNOCENT = (*states.INNOCENT, ("CUDA_MODULE_LOADING", "LAZY", "EAGER"))
# What matters where it is planted, and what stands in its place elsewhere.
VARIABLE = ("PYTHONMALLOC", None, "debug"), states.MALLOC
ARGUMENT = ("--decode-log-interval", "1000", "1"), states.LOG_INTERVAL


class Session:
    """One folder with its sides and its search."""

    def __init__(
        self, folder: Path, engine: Engine, ranks: int, planted: Sequence[str], tokens: int, work: int
    ) -> None:
        self.folder, self.engine, self.ranks, self.planted, self.tokens = folder, engine, ranks, planted, tokens
        folder.mkdir(parents=True, exist_ok=True)
        self.port = int(_kept(folder / "port", lambda: str(free_port())))
        if not (folder / "installed").exists():
            entry_point(folder / "installed")
        (folder / "prompts.txt").write_text(bench.prompts_of(1, 12, count=4))
        self.checkout = Checkout(folder / "engine", engine.package, {})
        self.work = work

    def commits(self) -> None:
        """The slow side's commits, one after the other, and a local patch."""
        for edit in COMMITS:
            self.commit(edit, self.work if "commit" in self.planted else 1)

    def commit(self, edit: Edit, work: int) -> None:
        """Make one edit on top of what there is."""
        path = self.checkout.path / edit.file
        text = path.read_text(encoding="utf-8")
        new = edit.new.replace("WORK", str(work))
        changed = text.replace(edit.old, new, 1) if edit.old else text + new
        assert changed != text, f"{edit.file} is of another version"
        path.write_text(changed, encoding="utf-8")
        if edit.committed:
            self.git("add", "--all")
            self.git("commit", "--quiet", "-m", edit.message)

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false"]
        command = ["git", *identity, "-C", str(self.folder / "engine"), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout

    def states(self, slow: bool) -> tuple[dict[str, str], list[str]]:
        """Variables and options of a side."""
        matter = [VARIABLE["variable" not in self.planted], ARGUMENT["argument" not in self.planted]]
        return states.of_side((*INNOCENT, *matter), slow)

    def given(self, slow: bool) -> dict[str, str]:
        paths = f"{self.checkout.path}:{self.folder / 'installed'}:{ROOT}"
        return {
            **environment(paths, **variables(self.ranks)), "OMP_NUM_THREADS": "1", "TMPDIR": str(self.folder),
            **self.states(slow)[0],
        }  # fmt: skip

    def asked(self, slow: bool) -> list[str]:
        """What run and prove are told of server and benchmark."""
        server = self.engine.command(self.port, self.ranks, *self.states(slow)[1])
        out = self.folder / "figures.json"
        return [
            "--server", shlex.join(server), "--ready", f"http://127.0.0.1:{self.port}/health", *_METRIC, "--metrics",
            str(out), "--", sys.executable, str(Path(bench.__file__)), "--port", str(self.port), "--out", str(out),
            "--prompts", str(self.folder / "prompts.txt"), "--tokens", str(self.tokens),
        ]  # fmt: skip

    def start(self, arguments: Sequence[str], slow: bool, **more: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "envsnap", *arguments]
        print(f"$ envsnap {shlex.join(arguments[:8])} …", flush=True)
        return subprocess.Popen(command, cwd=self.folder, env=self.given(slow), text=True, **more)  # type: ignore[call-overload, no-any-return]

    def record(self, label: str, slow: bool, count: int, taken: bool) -> None:
        """The runs of one side, unless they are there."""
        if (self.folder / f"{label}.done").exists():
            return
        with hogs(2 if taken else 0):
            code = self.start(["run", "--label", label, "-n", str(count), *self.asked(slow)], slow).wait()
        assert code == 0, f"recording {label} ended with {code}"
        (self.folder / f"{label}.done").touch()

    def records(self) -> int:
        """How many trials the journal holds."""
        found = sorted((self.folder / ".envsnap/prove").glob("*.json"), key=lambda p: p.stat().st_mtime_ns)
        return len(json.loads(found[-1].read_text())["records"]) if found else 0

    def prove(self, budget: int, kill: int, stop: int) -> int:
        """The search, interrupted where that was asked for; its exit code."""
        arguments = ["prove", "fast", "slow", "--budget", str(budget), *self.asked(slow=True)]
        for count, number in sorted((c, n) for c, n in ((kill, signal.SIGKILL), (stop, signal.SIGINT)) if c):
            process = self.start(arguments, slow=True, stdout=subprocess.DEVNULL)
            while process.poll() is None and self.records() < count:
                time.sleep(0.5)
            time.sleep(25)  # the next run's server is at work by then
            if process.poll() is None:
                print(f"# {number.name} after {self.records()} runs", flush=True)
                process.send_signal(number)
            print(f"# it ended with {process.wait()}", flush=True)
            arguments = ["prove", "--continue", "last"]
        code = self.start(arguments, slow=True).wait()
        print(f"# exit code {code}", flush=True)
        return code


def _kept(path: Path, make: object) -> str:
    if not path.exists():
        assert callable(make)
        path.write_text(make())
    return path.read_text()


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """Programs that take CPUs meanwhile."""
    started = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> int:
    """Record, search, tell."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("folder", type=Path)
    add("--engine", type=Path, required=True)
    add("--ranks", type=int, default=2)
    add("--plant", nargs="*", default=[], choices=PLANTS)
    add("--runs", type=int, default=2, help="of each side that are recorded")
    add("--tokens", type=int, default=24)
    add("--work", type=int, default=600_000, help="additions that the planted commit makes a step")
    add("--budget", type=int, default=30)
    add("--kill", type=int, default=0, metavar="RUNS")
    add("--stop", type=int, default=0, metavar="RUNS")
    given = parser.parse_args()
    engine = find(str(given.engine))
    if isinstance(engine, str):
        raise SystemExit(engine)
    session = Session(given.folder.absolute(), engine, given.ranks, given.plant, given.tokens, given.work)
    began = time.monotonic()
    if session.git("log", "--format=%s").count("\n") == 1:
        session.commit(BASE, given.work)
    session.record("fast", False, given.runs, False)
    if session.git("log", "--format=%s").count("\n") == 2:
        session.commits()
    session.record("slow", True, given.runs, not given.plant)
    before = session.git("status", "--porcelain"), session.git("rev-parse", "HEAD"), session.git("stash", "list")
    code = session.prove(given.budget, given.kill, given.stop)
    after = session.git("status", "--porcelain"), session.git("rev-parse", "HEAD"), session.git("stash", "list")
    print(f"# the user's tree is {'as it was' if before == after else 'CHANGED'}; {time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    raise SystemExit(main())
