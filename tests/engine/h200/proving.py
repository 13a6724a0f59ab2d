"""One search with `envsnap prove` on EAGLE-3: an option that takes the CUDA graphs away, among innocent changed states.

Each run has a server of its own, one after the other, so that the model is the tiny one and has one rank. A step is one
run of the search, which goes on where it stopped; both sides are recorded before, a run each.
"""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from envsnap.explain import Side, explain
from envsnap.reading import Json
from envsnap.runs.run import Run
from envsnap.store import Store
from tests.benchmarks.planted.bench import Asked
from tests.benchmarks.planted.judge import holds
from tests.benchmarks.planted.report import Search
from tests.benchmarks.planted.states import INNOCENT, LOG_INTERVAL, MALLOC, State, of_side
from tests.engine import bench as client
from tests.engine.h200.bench import refuse_multicast
from tests.engine.h200.lab import REHEARSED, Step
from tests.engine.h200.place import TURN, Place
from tests.engine.h200.shapes import TINY, Load
from tests.engine.plants import PLANTS, Lever

PLANT = "graphs-off"
"""In the table of plants: what is searched for."""
OPTION = "--cuda-graph-backend-decode"
PLANTED: State = (OPTION, "full", "disabled")
STATES: tuple[State, ...] = (
    *INNOCENT,
    MALLOC,
    LOG_INTERVAL,
    PLANTED,
)
LOAD = Load("tiny-batch1", TINY, Asked(words=200, tokens=256, count=5, timeout=60.0))
ALONE = 75.0
"""Seconds of a run with the start and the end of its server, before one was seen."""
EXPECTED = 8
"""Runs that a search is expected to take: four at the gate, and a few to confirm what explain suspects."""
BUDGET = 24
_PORTS = range(31_200, 31_300)
_METRIC = "step_seconds"
_SIDES = ("fast", "slow")


@dataclass(frozen=True)
class Proof:
    """The folder of the search, and what is run."""

    place: Place

    @property
    def folder(self) -> Path:
        """Holds the store of both sides and of the search."""
        return self.place.lab.folder / "prove"

    @property
    def report(self) -> Path:
        """What the search said in the end, for people."""
        return self.folder / "report.md"

    def sides(self) -> dict[str, Run]:
        """The runs of both sides, by label, as far as they were recorded."""
        store = Store(self.folder)
        return {e.label: store.load(e.id) for e in store.entries() if e.label in _SIDES} if self.folder.exists() else {}

    def steps(self) -> list[Step]:
        """The next step, if any is left: a side's recording, or a run of the search."""
        lab = self.place.lab
        seconds = lab.learnt.get("alone", ALONE)
        for side in _SIDES:
            if not lab.is_done(f"prove/{side}"):
                return [Step(f"prove/{side}", seconds, partial(self._record, side))]
        if any(lab.found(f"prove/{side}") is None for side in _SIDES):
            return []
        for number in range(1, BUDGET + 1):
            name = f"prove/run-{number:02}"
            told = lab.found(name)
            if not lab.is_done(name):
                return [Step(name, seconds, partial(self._search, number))]
            if told is None or (number == EXPECTED if told == REHEARSED else told["over"]):
                return []
        return []

    def _record(self, side: str) -> Json:
        self.folder.mkdir(exist_ok=True)
        began = self.place.lab.left
        self._envsnap(["run", "--label", side, "--store", str(self.folder), *self._asked(side)], side, (0,))
        self.place.lab.learn("alone", 1.15 * (began - self.place.lab.left))
        return self._server(side)

    def _search(self, number: int) -> Json:
        """One more run."""
        began = self.place.lab.left
        goes_on = any((self.folder / ".envsnap" / "prove").glob("*.json"))
        about = ["--continue", "last"] if goes_on else ["fast", "slow", "--by", _METRIC, *self._asked("slow")]
        told = self._told("json", number, about)
        (self.folder / "report.json").write_text(told)
        proof = json.loads(told)
        self.place.lab.learn("alone", 1.15 * (began - self.place.lab.left))
        over = proof["outcome"] not in ("budget", "failing")
        if over:
            self.report.write_text(self._told("markdown", number, ["--continue", "last"]))
        return {"outcome": proof["outcome"], "runs": len(proof["trials"]), "over": over}

    def _told(self, form: str, budget: int, about: Sequence[str]) -> str:
        return self._envsnap(
            ["prove", "--format", form, "--budget", str(budget), "--store", str(self.folder), *about], "slow", (0, 1, 3)
        )

    def _asked(self, side: str) -> list[str]:
        """What a run is told of server and benchmark."""
        out, asked = self.folder / "figures.json", LOAD.asked
        prompts = self.folder / "prompts.txt"
        prompts.write_text(client.prompts_of(asked.seed, asked.words, asked.count))
        return [
            "--server", shlex.join(self._server(side)), "--ready", f"http://127.0.0.1:{self._port}/health",
            "--metric", f"{_METRIC}[s,lower]=json:{_METRIC}", "--metrics", str(out), "--", "flock", str(TURN),
            sys.executable, str(Path(client.__file__)), "--port", self._port, "--out", str(out),
            "--prompts", str(prompts), *asked.options,
        ]  # fmt: skip

    def _server(self, side: str) -> list[str]:
        options = of_side(STATES, side == "slow")[1]
        return self.place.bench(LOAD).command(int(self._port), 1, Lever(arguments=tuple(options)))

    @property
    def _port(self) -> str:
        """Always the same, so that the sides do not differ in it; below those that connections are given."""
        path = self.folder / "port.txt"
        if not path.exists():
            path.write_text(str(next(port for port in _PORTS if is_free(port))))
        return path.read_text()

    def _envsnap(self, arguments: Sequence[str], side: str, codes: Sequence[int]) -> str:
        """What the command line prints, in a side's environment. Raises: Unsafe, RuntimeError."""
        environment = {**self.place.served(LOAD, 1, (0,)), **of_side(STATES, side == "slow")[0]}
        environment.pop("ENVSNAP_RECORD")
        refuse_multicast(self._server(side), environment)
        with (self.folder / "prove.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "envsnap", *arguments], cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                stderr=log, stdin=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            try:
                told, _ = process.communicate(timeout=max(self.place.lab.left, 1.0))
            except BaseException:
                process.send_signal(signal.SIGINT)  # it ends its server, and goes on there the next time
                process.communicate(timeout=60)
                raise
        if process.returncode not in codes:
            end = (self.folder / "prove.log").read_text(errors="replace")[-500:]
            raise RuntimeError(f"envsnap {arguments[0]} ended with {process.returncode}: {told[-300:]} {end}")
        return told


def is_free(port: int) -> bool:
    """Whether nothing listens at a port of the loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def search_of(place: Place) -> dict[str, Search]:
    """What the search said, by the plant that was searched for; nothing where it is not over."""
    path = Proof(place).folder / "report.json"
    told: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if told.get("outcome", "budget") == "budget":
        return {}
    culprits = {str(culprit["suspect"]) for culprit in told["culprits"]}
    sides = Proof(place).sides()
    plant = next(p for p in PLANTS if p.id == PLANT)
    found = explain(*(Side.of_runs([sides[side]]) for side in _SIDES))
    right = told["outcome"] == "confirmed" and culprits == {s.id for s in found.suspects if holds(plant, s)}
    note = f"{OPTION} among {len(STATES) - 1} innocent changed states, tiny model, one rank"
    return {PLANT: Search(told["outcome"], sorted(culprits), len(told["trials"]), right, note)}
