"""The first look at a machine: captures, one and two ranks, the sampler's cost, and how far fresh servers are apart."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from envsnap.keys import instances_of, path_of
from envsnap.reading import Json
from envsnap.runs.verdict import Design, judge
from envsnap.snapshot import load
from tests.benchmarks.planted.bench import Asked
from tests.benchmarks.planted.judge import METRIC
from tests.benchmarks.planted.trials import flush
from tests.engine import bench as client
from tests.engine.h200.fleet import Fleet, Spec
from tests.engine.h200.lab import REHEARSED, Step
from tests.engine.h200.place import Place
from tests.engine.h200.shapes import LOADS, Load
from tests.engine.h200.waves import Part, Standing, wave
from tests.engine.plants import Lever
from tests.engine.server import Server

FRESH = 3
"""Servers of one configuration by which a load is called quiet."""
ROUNDS = 3
QUIET = 0.03
PAIRS = 8
_SHORT = replace(LOADS[0].asked, count=4)
"""For a capture under load, and for servers without graphs, which run at a fifth of the speed."""
_GRAPHS_OFF = Lever(
    arguments=("--disable-cuda-graph",), without=("--cuda-graph-max-bs", "--cuda-graph-backend-prefill")
)
_KINDS = {"graphs": (Lever(), 4, 15.0), "no-graphs": (_GRAPHS_OFF, 2, 25.0)}
"""How its servers are started, how often it is asked while a capture is made, and seconds of both."""
_SAMPLED = "tp1-graphs"


# -- what is looked at without a server -----------------------------------------------------------------------------


def idle(place: Place) -> Step:
    """What a capture of the idle machine costs, three times, and that it makes no CUDA context."""
    return Step("first/idle", 15, lambda: [_capture(place, f"idle-{i}") for i in range(3)])


def probe(place: Place) -> Step:
    """`envsnap probe`, which leaves the cards' settings alone."""
    return Step("first/probe", 75, partial(_probe, place))


def _probe(place: Place) -> Json:
    return json.loads(_ran(place, [sys.executable, "-m", "envsnap", "probe", "--format", "json"], 145, (0, 1, 3)))


def _capture(place: Place, name: str, *more: str) -> Json:
    """One capture by the command line: its seconds, its CPU time, and each section's cost."""
    out = place.lab.folder / f"{name}.json"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    _ran(place, [sys.executable, "-m", "envsnap", "capture", "-o", str(out), *more], 120)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    sections = load(out).sections
    asked = ["nvidia-smi", "--query-compute-apps=pid,name,used_memory", "--format=csv,noheader"]
    return {
        "seconds": round(took, 3),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3),
        "sections": {n: round(s.seconds, 4) for n, s in sections.items()},
        "errors": {n: dict(s.errors) for n, s in sections.items() if s.errors},
        "gpu_processes": _ran(place, asked, 60).splitlines(),
    }


def _ran(place: Place, command: Sequence[str], seconds: float, codes: Sequence[int] = (0,)) -> str:
    """What a program prints. Raises: RuntimeError with its last words, subprocess.TimeoutExpired."""
    done = subprocess.run(
        command, cwd=place.lab.folder, env=place.plain(), capture_output=True, text=True, timeout=seconds
    )
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(command[:4])} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


# -- what is looked at with servers, all of them in one wave ----------------------------------------------------------


def look(place: Place) -> list[Step]:
    """One wave: a server of each kind under load, fresh servers of one configuration in turns, the sampler's cost."""
    parts: list[Part] = []
    for ranks in (1, 2)[: place.gpus]:
        for kind, (lever, often, seconds) in _KINDS.items():
            name = f"tp{ranks}-{kind}"
            work = partial(_look, place, name, ranks, often)
            parts.append(Part(f"first/{name}", seconds, (_stand(place, name, ranks, lever),), work))
    for offered in LOADS:
        servers = tuple(_fresh(place, offered, number) for number in range(FRESH))
        parts.append(Part(f"quiet/{offered.name}", FRESH * ROUNDS * 5.5, servers, partial(_turns, place, offered),
                          lambda: not any(span <= QUIET for span in spans(place).values())))  # fmt: skip
    parts.append(Part("first/sampler", PAIRS * 12.0, parts[0].servers, partial(_sampler, place)))
    return wave(place, "wave/look", parts)


def _stand(place: Place, name: str, ranks: int, lever: Lever) -> Standing:
    """A server of the first look, whose ranks write NCCL's log."""
    cards = tuple(range(ranks)) if ranks > 1 else (0 if lever == Lever() else place.gpus - 1,)
    log = str(place.lab.folder / "logs" / f"nccl-{name}.%p.log")
    spec = Spec(
        name, lambda port: place.bench(LOADS[0]).command(port, ranks, lever),
        lambda: place.served(LOADS[0], ranks, cards, NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=log),
    )  # fmt: skip
    return Standing(spec, cards, LOADS[0].shape.bytes(ranks))


def _fresh(place: Place, offered: Load, number: int) -> Standing:
    """One of the servers that are alike. They are on one card, and have the model's name: loads share them."""
    card = 0 if offered.shape is LOADS[0].shape else place.gpus - 1
    spec = Spec(
        f"{offered.shape.name}-{number}", lambda port: place.bench(offered).command(port, 1, Lever()),
        lambda: place.served(offered, 1, (card,)),
    )  # fmt: skip
    return Standing(spec, (card,), offered.shape.bytes(1))


def _look(place: Place, name: str, ranks: int, often: int, fleet: Fleet) -> Json:
    """Speed, a capture under load, live environment against what ranks say, NCCL's effective values."""
    server = fleet.server(name)
    speeds: list[Json] = [benchmark(place, server, _SHORT)]
    worker = threading.Thread(target=lambda: speeds.extend(benchmark(place, server, _SHORT) for _ in range(often)))
    worker.start()
    time.sleep(2)
    logs = sorted((place.lab.folder / "logs").glob(f"nccl-{name}.*.log"))
    words = [word for log in logs for word in ("--nccl-log", str(log))]
    told = _capture(place, f"load-{name}", "--pid", str(server.pid), "--server", server.url, *words)
    worker.join(300)
    values = load(place.lab.folder / f"load-{name}.json").values
    return {
        "ready_seconds": round(fleet.seconds[name], 1), "runs": speeds, "capture": told,
        "live_environment": compared(values, ranks),
        "nccl": {p: v for p, v in values.items() if p.startswith("nccl.rank[")},
    }  # fmt: skip


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


def benchmark(place: Place, server: Server, asked: Asked, prefix: Sequence[str] = ()) -> Json:
    """One run of the benchmark with an empty prefix cache; its medians."""
    folder = place.lab.folder
    prompts, out = folder / f"prompts-{asked.words}-{asked.count}.txt", folder / f"figures-{server.pid}.txt"
    prompts.write_text(client.prompts_of(asked.seed, asked.words, asked.count))
    command = [
        sys.executable, str(Path(client.__file__)), "--port", server.url.rpartition(":")[2], "--out", str(out),
        "--prompts", str(prompts), *asked.options,
    ]  # fmt: skip
    flush(server)
    _ran(place, [*prefix, *command], 180)
    told = json.loads(out.read_text())
    out.unlink()
    return {name: value for name, value in told.items() if name != "requests"}


def _sampler(place: Place, fleet: Fleet) -> Json:
    """What sampling costs: the benchmark alone and under `envsnap run`, in pairs of random order on one server."""
    server = fleet.server(_SAMPLED)
    store = place.lab.folder / "sampler"
    store.mkdir(exist_ok=True)
    watched = [sys.executable, "-m", "envsnap", "run", "--store", str(store), "--server-url", server.url, "--"]
    figures: dict[bool, list[float]] = {False: [], True: []}
    benchmark(place, server, LOADS[0].asked)
    for _ in range(PAIRS):
        for kind in random.sample((False, True), 2):
            figures[kind].append(benchmark(place, server, LOADS[0].asked, watched if kind else ())["step_seconds"])
    verdict = judge(figures[False], figures[True], Design.INTERLEAVED)
    return {"pairs": PAIRS, "step_with_over_without": verdict.ratio, "low": verdict.low, "high": verdict.high,
            "plain": figures[False], "watched": figures[True]}  # fmt: skip


# -- a quiet load ---------------------------------------------------------------------------------------------------


def _turns(place: Place, offered: Load, fleet: Fleet) -> Json:
    """Speeds of fresh servers of one configuration, measured in turns whose order is drawn each time."""
    names = [f"{offered.shape.name}-{number}" for number in range(FRESH)]
    told: dict[str, list[Json]] = {name: [] for name in names}
    for name in names:  # a first run, which is not counted: it may still compile
        benchmark(place, fleet.server(name), replace(offered.asked, tokens=16, count=1 + offered.asked.concurrency))
    for _ in range(ROUNDS):
        for name in random.sample(names, FRESH):
            told[name].append(benchmark(place, fleet.server(name), offered.asked))
    return {
        "runs": told,
        **{f"span_{metric}": span([[r[metric] for r in runs] for runs in told.values()])
           for metric in (METRIC, "step_seconds")},
    }  # fmt: skip


def span(servers: Sequence[Sequence[float]]) -> float:
    """How far servers are apart: the largest of their medians over the smallest, less one."""
    medians = [median(values) for values in servers]
    return max(medians) / min(medians) - 1


def spans(place: Place) -> dict[str, float]:
    """By load, how far its fresh servers are apart in what boards go by."""
    found = {}
    for offered in LOADS:
        told = place.lab.found(f"quiet/{offered.name}")
        if told == REHEARSED:
            found[offered.name] = QUIET
        elif told:
            found[offered.name] = float(told[f"span_{METRIC}"])
    return found


def costs(place: Place) -> dict[str, Json]:
    """What captures and sampling cost, in words; nothing of what was not looked at."""
    found: dict[str, Json] = {}
    if idle_ := place.lab.found("first/idle"):
        names = [name for name in place.lab.results if name.startswith("first/tp")]
        loaded = [told for name in names if (told := place.lab.found(name))]
        took = {"idle": idle_, "under load": [told["capture"] for told in loaded]}
        found["capture, seconds"] = {where: [c["seconds"] for c in captures] for where, captures in took.items()}
    if told := place.lab.found("first/sampler"):
        found["step sampled / not"] = (
            f"×{told['step_with_over_without']:.3f} ({told['low']:.3f} to {told['high']:.3f}), {told['pairs']} pairs"
        )
    return found


def quietest(place: Place) -> Load:
    """The quietest load that was tried, else the first."""
    known = spans(place)
    return min(LOADS, key=lambda offered: known.get(offered.name, float("inf")))
