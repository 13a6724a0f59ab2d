"""Trials: blocks of the usual state and every plant once, in random order, a fresh server each.

Plants share the block's baseline run, so that each of them and the baseline make interleaved pairs. What only the
client does is measured on the baseline's server, right after it and with its prefix cache flushed. A run that is done
is kept in the store and noted in `done.json`; a board that was stopped goes on where it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import select
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, cast

from envsnap.integrations import site_directory
from envsnap.jsonfile import write_atomically
from envsnap.runs.columns import Columns
from envsnap.runs.plan import Plan
from envsnap.runs.run import Run
from envsnap.runs.session import run_session
from envsnap.runs.sources import Wanted, pattern_of
from envsnap.scope import Scope
from envsnap.store import Store
from tests.benchmarks.planted.bench import Asked, Bench
from tests.engine import bench as client
from tests.engine.checkout import BASE, Checkout
from tests.engine.plants import CONF, CPU, EDITS, EMPTY, NCCL, PLANTS, Lever, Plant, plants_of
from tests.engine.server import Server, in_session, serving

ROOT = Path(__file__).parents[3]
BASELINE = "baseline"
FIGURES = (
    "output_tokens_per_second[tok/s]=json:output_tokens_per_second",
    "stream_tokens_per_second[tok/s]=json:stream_tokens_per_second",
    "step_seconds[s,lower]=json:step_seconds",
    "ttft_seconds[s,lower]=json:ttft_seconds",
)
PORT = 31_117
"""Always the same, so that runs differ in what is planted alone."""
ACCEPTANCE = "accept_length[tokens,neither]=json:accept_length"
STOP_SECONDS = 1.0
"""The servers of the board hold nothing that is worth a slow goodbye."""
STATE = "a fresh server for each but what the client alone does, which is measured on the baseline's server"


def groups_of(bench: str) -> dict[str, list[Plant]]:
    """The plants of a bench that share a usual state: so many ranks, acceptance simulated or by merit."""
    alike: dict[str, list[Plant]] = {}
    for plant in plants_of(bench):
        alike.setdefault(f"{plant.ranks}{'' if plant.simulated else '-merit'}", []).append(plant)
    return alike


@dataclass(frozen=True)
class Task:
    """One server: the baseline's with what the client does on it, or a plant's own."""

    block: int
    group: str
    plants: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What is noted for each of its runs."""
        return tuple(f"{self.block}/{self.group}/{plant}" for plant in self.plants)

    @property
    def ranks(self) -> int:
        """How many its server has."""
        return int(self.group[0])

    @property
    def simulated(self) -> bool:
        """Whether acceptance is."""
        return "-merit" not in self.group


def tasks(block: int, bench: str, group: str, plants: Sequence[Plant]) -> list[Task]:
    """A block's servers in their random order, which is the block's own."""
    levers = {p.id: p.levers[bench] for p in plants}
    clients = [name for name, lever in levers.items() if lever.on_client and not lever.again]
    again = [name for name, lever in levers.items() if lever.again]
    found = [Task(block, group, (name,)) for name, lever in levers.items() if not lever.on_client]
    draw = random.Random(f"{block} {group}")
    draw.shuffle(clients)
    # NOTE: the second repetition follows at once: it is the one that finds the prompts in the cache.
    found.append(Task(block, group, (BASELINE, *again, *clients)))
    draw.shuffle(found)
    return found


def levers_of(task: Task, bench: str) -> list[Lever]:
    """The lever of each of a task's runs; the first one is that of its server."""
    plants = {p.id: p for p in PLANTS}
    return [plants[name].levers[bench] if name != BASELINE else Lever() for name in task.plants]


class Board:
    """A folder with a store, the engine's checkout, prompts, and the list of what is done."""

    def __init__(self, folder: Path, bench: Bench, port: int = PORT) -> None:
        self.folder, self.bench, self.port = folder.absolute(), bench, port
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store = Store(self.folder)
        self._done = self.folder / "done.json"
        self.done: dict[str, str] = json.loads(self._done.read_text()) if self._done.exists() else {}
        entry_point(self.folder / "installed")

    @cached_property
    def checkout(self) -> Checkout:
        """The engine's checkout, made when it is first wanted. Raises: Moved."""
        return Checkout(self.folder / "engine", self.bench.package, EDITS)

    # -- one server -----------------------------------------------------------------------------------------

    def is_done(self, task: Task) -> bool:
        """Whether all of it is measured."""
        return all(name in self.done for name in task.names)

    def run(self, task: Task) -> None:
        """Measure what of a task is not done yet."""
        if self.is_done(task):
            return
        lever = levers_of(task, self.bench.name)[0]
        self.checkout.put(lever.stale or lever.edit or BASE)
        self.clear()
        environment = self.environment(lever, task.ranks, task.simulated)
        command = self.bench.allowed(self.bench.command(self.port, task.ranks, lever), environment)
        with (
            exported(environment),
            serving(command, environment, self.folder, self.port, STOP_SECONDS) as server,
            bound(server, lever.rank_cpus),
        ):
            server.wait()
            if lever.stale:
                self.checkout.put(BASE)
            self.take(task, server)

    def clear(self) -> None:
        """Remove what an earlier server was given to write to."""
        shutil.rmtree(self.folder / "empty", ignore_errors=True)
        shutil.rmtree(self.folder / "records", ignore_errors=True)

    def take(self, task: Task, server: Server) -> None:
        """A task's runs against its server, which is ready; the environment is the server's own."""
        for name, plant, lever in zip(task.names, task.plants, levers_of(task, self.bench.name)):
            if not lever.again:
                flush(server)
            with hogs(lever.cpu_hogs, lever.gpu_hog):
                self.note(name, self.measure(plant, lever, self.bench.asked(task.ranks), server.url))

    def forget(self, beginning: str) -> None:
        """Leave out of account what is noted under names that begin so."""
        self.done = {name: run for name, run in self.done.items() if not name.startswith(beginning)}

    def measure(self, plant: str, lever: Lever, asked: Asked, url: str) -> Run:
        """One run of the benchmark against the server that is up at `url`."""
        seed, words = lever.prompts or (asked.seed, asked.words)
        prompts = self.prompts(replace(asked, seed=seed, words=words))
        out = self.folder / "figures.json"
        out.unlink(missing_ok=True)
        plan = Plan(
            benchmark=self.benchmark(out, prompts, asked, url), server_url=url, label=plant, prompts=str(prompts),
            metrics=Wanted((str(out),), False, tuple(pattern_of(f) for f in self.figures)),
            scope=Scope(repos=(str(self.checkout.folder),)), aside=True,
        )  # fmt: skip
        return run_session(plan, self.store.prepare(), self._save, lambda text, passing=False: None).runs[0]

    @property
    def figures(self) -> tuple[str, ...]:
        """What is read of the benchmark."""
        return FIGURES if self.bench.name == CPU else (*FIGURES, ACCEPTANCE)

    @property
    def url(self) -> str:
        """Where a server answers that was started alone."""
        return f"http://127.0.0.1:{self.port}"

    def benchmark(self, out: Path, prompts: Path, asked: Asked, url: str) -> tuple[str, ...]:
        """The benchmark's command against the server at `url`."""
        where = ("--port", url.rpartition(":")[2], "--out", str(out), "--prompts", str(prompts))
        return (sys.executable, str(ROOT / "tests/engine/bench.py"), *where, *asked.options)

    def _save(self, run: Run, samples: Columns) -> None:
        self.store.save(run, samples)

    def note(self, name: str, run: Run) -> None:
        """Note a run that succeeded; one that did not is tried again by the next call."""
        print(f"{time.strftime('%H:%M:%S')} {name}: {run.status} {run.reason} "
              + " ".join(f"{m.name}={m.value:.4g}" for m in run.metrics[:4]), flush=True)  # fmt: skip
        if run.status == "interrupted":
            raise KeyboardInterrupt
        if run.status == "ok":
            self.done[name] = run.id
            write_atomically(self._done, json.dumps(self.done, indent=1).encode())

    # -- what a server is given -----------------------------------------------------------------------------

    def environment(self, lever: Lever, ranks: int, simulated: bool) -> dict[str, str]:
        """The environment of the shell and of the server."""
        usual = self.bench.variables(ranks, simulated)
        paths = [site_directory(), str(self.folder / "installed"), str(self.checkout.path), str(ROOT)]
        paths += filter(None, [usual.get("PYTHONPATH")])
        kept = {n: v for n in ("PATH", "HOME", "LANG", "TMPDIR", "USER") if (v := os.environ.get(n)) is not None}
        given: dict[str, str | None] = {
            **kept, **usual, "PYTHONPATH": os.pathsep.join(paths),
            "ENVSNAP_RECORD": str(self.folder / "records"), **lever.environment,
        }  # fmt: skip
        for name, value in lever.environment.items():
            if value is not None and value.startswith(EMPTY):
                place = Path(value.replace(EMPTY, str(self.folder / "empty")))
                place.mkdir(parents=True, exist_ok=True)
                given[name] = str(place)
            if value == NCCL:
                given[name] = str(_another_nccl(self.folder))
            if value == CONF:
                place = self.folder / "lever.conf"
                place.write_text(lever.conf_file)
                given[name] = str(place)
        return {n: v for n, v in given.items() if v is not None}

    def prompts(self, asked: Asked) -> Path:
        """The file of prompts."""
        path = self.folder / f"prompts-{asked.seed}-{asked.words}-{asked.count}.txt"
        if not path.exists():
            path.write_text(client.prompts_of(asked.seed, asked.words, asked.count))
        return path


def entry_point(place: Path) -> None:
    """envsnap's metadata as an installed distribution's, by which the engine finds the plug-in."""
    folder = place / "envsnap_audit-0.0.0.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: envsnap-audit\nVersion: 0.0.0\n")
    (folder / "entry_points.txt").write_text("[sglang.srt.plugins]\nenvsnap = envsnap.integrations.engines:sglang\n")


def _another_nccl(folder: Path) -> Path:
    """NCCL's library at another place than the one that torch loads: the system's own, else a copy."""
    (bundled,) = (p for p in sys.path if (Path(p) / "nvidia/nccl/lib/libnccl.so.2").is_file())
    installed = sorted(Path("/usr/lib").glob("*/libnccl.so.2*"))
    target = folder / "libnccl.so.2"
    if installed:
        return installed[-1]
    if not target.exists():
        shutil.copyfile(Path(bundled) / "nvidia/nccl/lib/libnccl.so.2", target)
    return target


@contextlib.contextmanager
def exported(environment: Mapping[str, str]) -> Iterator[None]:
    """The environment as this process's own, which is the shell's for what is measured."""
    old = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(old)


_BUSY = (
    "import os\nparent = os.getppid()\nprint('at work', flush=True)\nwhile os.getppid() == parent: sum(range(10**6))"
)
_BUSY_GPU = """import os, torch
parent = os.getppid()
a = torch.randn(4096, 4096, device="cuda:0", dtype=torch.bfloat16)
torch.cuda.synchronize()
print("at work", flush=True)
while os.getppid() == parent:
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
"""
_BUSY_SECONDS = 60.0
"""In which such a program has to be at work: importing torch alone takes many."""


@contextlib.contextmanager
def hogs(count: int, gpu: bool) -> Iterator[None]:
    """So many processes that compute and want nothing else, all at work before the block begins.

    Raises: RuntimeError where one does not come to work.
    """
    commands = [[sys.executable, "-S", "-c", _BUSY]] * count + [[sys.executable, "-c", _BUSY_GPU]] * gpu
    # NOTE: a board that is killed leaves none behind.
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    late = time.monotonic() + _BUSY_SECONDS
    try:
        for hog in programs:
            told = cast(IO[bytes], hog.stdout)
            ready, _, _ = select.select([told], [], [], max(late - time.monotonic(), 0.0))
            if not ready or not told.readline():
                raise RuntimeError("a program that should disturb the server did not come to work")
        yield
    finally:
        for hog in programs:
            hog.kill()
            hog.communicate()


@contextlib.contextmanager
def bound(server: Server, cpus: Mapping[str, int]) -> Iterator[None]:
    """Bind ranks, time and again, from when they have their titles on: long before the server is ready."""
    over = threading.Event()

    def bind() -> None:
        while not over.wait(0.5):
            for pid in in_session(server.pid):
                with contextlib.suppress(OSError):
                    title = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
                    if (cpu := cpus.get(title.rpartition("::")[2])) is not None:
                        for thread in os.listdir(f"/proc/{pid}/task"):
                            os.sched_setaffinity(int(thread), {cpu})

    worker = threading.Thread(target=bind, daemon=True)
    if cpus:
        worker.start()
    try:
        yield
    finally:
        over.set()
        if cpus:
            worker.join()


def flush(server: Server) -> None:
    """Empty the prefix cache."""
    request = urllib.request.Request(f"{server.url}/flush_cache", method="POST", data=b"")
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


@contextlib.contextmanager
def alone(lock: str) -> Iterator[None]:
    """Hold a lock file, by which those who share a machine take turns; no name: nobody shares it."""
    if not lock:
        yield
        return
    with open(lock, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pairs(board: Board, plant: Plant) -> tuple[list[Run], list[Run]]:
    """The runs of the usual state and of a plant, of the blocks in which both were run."""
    group = next(g for g, plants in groups_of(board.bench.name).items() if plant in plants)
    done = [name.split("/") for name in board.done]
    found: tuple[list[Run], list[Run]] = [], []
    for block in sorted(int(b) for b, g, name in done if (g, name) == (group, plant.id)):
        names = [f"{block}/{group}/{name}" for name in (BASELINE, plant.id)]
        if all(name in board.done for name in names):
            for side, name in zip(found, names):
                side.append(board.store.load(board.done[name]))
    return found
