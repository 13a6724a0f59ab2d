"""The steps: the first look at a machine, the search for a quiet load, and blocks of planted causes."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from envsnap.integrations import site_directory
from envsnap.keys import instances_of, path_of
from envsnap.reading import Json
from envsnap.runs.verdict import Design, judge
from envsnap.snapshot import load
from tests.benchmarks.planted.bench import Asked
from tests.benchmarks.planted.trials import BASELINE, PORT, ROOT, Board, flush, groups_of, tasks
from tests.engine import bench as client
from tests.engine.h200.bench import H200Bench, refuse_multicast
from tests.engine.h200.lab import Lab, Step
from tests.engine.h200.shapes import SHAPES, Shape, write_models
from tests.engine.plants import H200, Lever
from tests.engine.server import NotServing, Server, free_port, serving

START, MEASURE = 105.0, 30.0
"""Seconds that a server takes to be ready and to end, and that one run of the benchmark takes, at most."""
PARCEL = 3
"""Plants that are measured with one usual state of their own, so that a parcel fits into one call."""
FRESH = 3
"""Servers of one configuration by which a load is called quiet."""
QUIET = 0.03
BLOCKS = 4
PAIRS = 8
_GRAPHS_OFF = Lever(
    arguments=("--disable-cuda-graph",), without=("--cuda-graph-max-bs", "--cuda-graph-backend-prefill")
)


@dataclass(frozen=True)
class Place:
    """Where everything is: the unpacked kit, the lab's folder, the servers' port; and how many GPUs there are."""

    dest: Path
    lab: Lab
    gpus: int
    python: str = sys.executable
    port: int = PORT

    def bench(self, shape: Shape) -> H200Bench:
        """The bench of a shape, its models written."""
        models = write_models(self.dest / "models", self.lab.folder / "models", shape)
        return H200Bench(self.dest, models, shape, self.python)


# -- the first look -------------------------------------------------------------------------------------------------


def first(place: Place) -> list[Step]:
    """Capture idle and under load, EAGLE-3 by ranks with and without graphs, NCCL's log, the sampler, probes."""
    found = [Step("first/idle", 30, partial(_idle, place))]
    for ranks in (1, 2)[: place.gpus]:
        for name, lever in (("graphs", Lever()), ("no-graphs", _GRAPHS_OFF)):
            found.append(Step(f"first/tp{ranks}-{name}", START + 60, partial(_look, place, ranks, name, lever)))
    found.append(Step("first/sampler", START + 2 * PAIRS * MEASURE / 2, partial(_sampler, place)))
    found.append(Step("first/probe", 150, partial(_probe, place)))
    return found


def _idle(place: Place) -> Json:
    """What a capture of the idle machine costs, three times, and that it makes no CUDA context."""
    return [_capture(place, f"idle-{i}") for i in range(3)]


def _capture(place: Place, name: str, *more: str) -> Json:
    """One capture by the command line: its seconds, its CPU time, and each section's cost."""
    out = place.lab.folder / f"{name}.json"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "envsnap", "capture", "-o", str(out), *more], cwd=place.lab.folder, env=_plain(),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    sections = load(out).sections
    return {
        "seconds": round(took, 3),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3),
        "sections": {n: round(s.seconds, 4) for n, s in sections.items()},
        "errors": {n: dict(s.errors) for n, s in sections.items() if s.errors},
        "gpu_processes": subprocess.run(
            ["nvidia-smi", "--query-compute-apps=pid,name,used_memory", "--format=csv,noheader"], capture_output=True,
            text=True, timeout=60,
        ).stdout.splitlines(),
    }  # fmt: skip


def _look(place: Place, ranks: int, name: str, lever: Lever) -> Json:
    """One server: its speed, a capture under load, live environment against what ranks say, NCCL's effective values."""
    bench, port = place.bench(SHAPES[0]), free_port()
    logs = place.lab.folder / "logs"
    logs.mkdir(exist_ok=True)
    records = place.lab.folder / "records" / f"tp{ranks}-{name}"
    environment = {
        **_plain(), **bench.variables(ranks, simulated=True), "ENVSNAP_RECORD": str(records), "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_FILE": str(logs / f"nccl-tp{ranks}-{name}.%p.log"),
    }  # fmt: skip
    environment["PYTHONPATH"] = os.pathsep.join([site_directory(), environment["PYTHONPATH"], str(ROOT)])
    command = bench.command(port, ranks, lever)
    with _served(command, environment, place, port) as server:
        began = time.monotonic()
        server.wait(240)
        ready = time.monotonic() - began
        asked = bench.asked(ranks)
        speeds: list[Json] = []
        worker = threading.Thread(target=lambda: speeds.extend(_bench(place, port, asked) for _ in range(3)))
        worker.start()
        time.sleep(3)
        nccl = [w for log in sorted(logs.glob(f"nccl-tp{ranks}-{name}.*.log")) for w in ("--nccl-log", str(log))]
        told = _capture(place, f"load-tp{ranks}-{name}", "--pid", str(server.pid), "--server", server.url, *nccl)
        worker.join(300)
    return {"ready_seconds": round(ready, 1), "runs": speeds, "capture": told, **_agreement(place, ranks, name)}


def _served(command: list[str], environment: dict[str, str], place: Place, port: int) -> AbstractContextManager[Server]:
    """A server, if nothing of it can use multicast. Raises: Unsafe."""
    refuse_multicast(command, environment)
    return serving(command, environment, place.lab.folder, port, 10)


def _agreement(place: Place, ranks: int, name: str) -> dict[str, Json]:
    """Whether the environment read from outside is what each rank prints of it through NCCL, and what NCCL chose."""
    values = load(place.lab.folder / f"load-tp{ranks}-{name}.json").values
    printed = {p: v for p, v in values.items() if p.startswith("nccl.rank[")}
    return {"live_environment": compared(values, ranks), "nccl": printed}


def compared(values: Mapping[str, Json], ranks: int) -> dict[str, Json]:
    """By rank, how many variables NCCL's log says it was given, and which of them read otherwise from outside."""
    found: dict[str, Json] = {}
    for rank in range(ranks):
        role = f"scheduler_TP{rank}" if ranks > 1 else "scheduler"
        said = {instances_of(p)[1]: v for p, v in values.items() if p.startswith(f"nccl.rank[{rank}].set[")}
        live = {n: values.get(path_of("worker[].env[]", role, n)) for n in said}
        differing = {n: [v, live[n]] for n, v in said.items() if str(live[n]) != str(v)}
        found[role] = {"compared": len(said), "differing": differing}
    return found


def _bench(place: Place, port: int, asked: Asked, prefix: Sequence[str] = ()) -> Json:
    """One run of the benchmark; its medians."""
    prompts, out = place.lab.folder / "prompts.txt", place.lab.folder / f"figures-{port}.txt"
    prompts.write_text(client.prompts_of(asked.seed, asked.words, asked.count))
    command = [sys.executable, str(Path(client.__file__)), "--port", str(port), "--out", str(out), "--prompts",
               str(prompts), "--tokens", str(asked.tokens), "--concurrency", str(asked.concurrency)]  # fmt: skip
    subprocess.run(
        [*prefix, *command], cwd=place.lab.folder, env=_plain(), check=True, capture_output=True, timeout=300
    )
    return {k: v for k, v in json.loads(out.read_text()).items() if k != "requests"}


def _sampler(place: Place) -> Json:
    """What sampling costs: the benchmark alone and under `envsnap run`, in pairs of random order on one server."""
    bench, port = place.bench(SHAPES[0]), free_port()
    ranks = min(2, place.gpus)
    asked = Asked(words=120, tokens=512, count=4)
    environment = {**_plain(), **bench.variables(ranks, simulated=True)}
    watched = [sys.executable, "-m", "envsnap", "run", "--store", str(place.lab.folder / "sampler"), "--server-url",
               f"http://127.0.0.1:{port}", "--"]  # fmt: skip
    figures: dict[bool, list[float]] = {False: [], True: []}
    with _served(bench.command(port, ranks, Lever()), environment, place, port) as server:
        server.wait(240)
        _bench(place, port, asked)
        for _ in range(PAIRS):
            for kind in random.sample((False, True), 2):
                flush(server)
                told = _bench(place, port, asked, watched if kind else ())
                figures[kind].append(told["step_seconds"])
    verdict = judge(figures[False], figures[True], Design.INTERLEAVED)
    return {"pairs": PAIRS, "step_with_over_without": verdict.ratio, "low": verdict.low, "high": verdict.high,
            "plain": figures[False], "watched": figures[True]}  # fmt: skip


def _probe(place: Place) -> Json:
    """`envsnap probe`, which leaves the cards' settings alone."""
    done = subprocess.run(
        [sys.executable, "-m", "envsnap", "probe", "--format", "json"], cwd=place.lab.folder, capture_output=True,
        text=True, timeout=145, env={**_plain(), "NCCL_NVLS_ENABLE": "0"},
    )  # fmt: skip
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(done.stderr[-500:])
    return json.loads(done.stdout)


def _plain() -> dict[str, str]:
    """This environment with envsnap to be imported, multicast off as it stands."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


# -- a quiet load ---------------------------------------------------------------------------------------------------


def search(place: Place) -> list[Step]:
    """Fresh servers of each shape in turn, until three of one are at most 3 % apart."""
    ranks = min(2, place.gpus)
    found = []
    for shape in SHAPES:
        if quiet_shape(place.lab.results, before=shape.name):
            break
        for number in range(FRESH):
            work = partial(_fresh, place, shape, ranks)
            found.append(Step(f"search/{shape.name}/{number}", START + 2 * MEASURE, work))
    return found


def _fresh(place: Place, shape: Shape, ranks: int) -> Json:
    """One fresh server's speed, after a run that is not counted."""
    bench, port = place.bench(shape), free_port()
    environment = {**_plain(), **bench.variables(ranks, simulated=True)}
    environment["PYTHONPATH"] = os.pathsep.join([bench.variables(ranks, True)["PYTHONPATH"], str(ROOT)])
    with _served(bench.command(port, ranks, Lever()), environment, place, port) as server:
        server.wait(300)
        _bench(place, port, bench.asked(ranks))
        flush(server)
        return _bench(place, port, bench.asked(ranks))


def spans(results: dict[str, Json]) -> dict[str, float]:
    """By shape, how far its fresh servers' step times are apart: largest over smallest less one."""
    found = {}
    for shape in SHAPES:
        kept = [results.get(f"search/{shape.name}/{i}", {}) for i in range(FRESH)]
        steps = [k["result"]["step_seconds"] for k in kept if k.get("status") == "ok"]
        if len(steps) == FRESH:
            found[shape.name] = max(steps) / min(steps) - 1
    return found


def quiet_shape(results: dict[str, Json], before: str = "") -> Shape | None:
    """The first shape that is quiet, among those `before` one; without any the quietest of all, if all were tried."""
    known = spans(results)
    for shape in SHAPES:
        if shape.name == before:
            return None
        if known.get(shape.name, 1.0) <= QUIET:
            return shape
    if before or len(known) < len(SHAPES):
        return None
    return min(SHAPES, key=lambda s: known[s.name])


# -- planted causes -------------------------------------------------------------------------------------------------


def plants(place: Place, shape: Shape, blocks: int = BLOCKS) -> list[Step]:
    """Blocks of parcels: each a usual state and a few plants, on one machine and in one call."""
    found = []
    for block in range(blocks):
        for group, planted in groups_of(H200, PARCEL).items():
            if int(group[0]) > place.gpus:
                continue
            servers = tasks(block, H200, group, planted)
            seconds = sum(START + MEASURE * len(task.plants) for task in servers)
            found.append(Step(f"plants/{block}/{group}", seconds, partial(_parcel, place, shape, block, group)))
    return found


def _parcel(place: Place, shape: Shape, block: int, group: str) -> Json:
    """Measure a parcel from its beginning, since another machine may have begun it."""
    board = Board(place.lab.folder, place.bench(shape), place.port)
    planted = groups_of(H200, PARCEL)[group]
    beginning = f"{block}/{group}/"
    board.forget(beginning)
    failed: dict[str, Json] = {}
    for task in tasks(block, H200, group, planted):
        try:
            board.run(task)
        except NotServing as error:
            failed[task.plants[0]] = str(error)[-600:]
    done = {
        name: run for name in (BASELINE, *(p.id for p in planted)) if (run := board.done.get(f"{block}/{group}/{name}"))
    }
    if BASELINE not in done:
        raise RuntimeError(f"there is no usual state to compare with: {failed or 'its benchmark failed'}")
    return {"runs": done, "failed": failed}
