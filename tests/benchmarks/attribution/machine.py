"""Machines that cases are laid over: one recorded machine, in the shapes that reports speak of.

The record (`tests/data/attribution`) is of a real server with two H200 GPUs and two NCCL ranks under load, as shared:
without labels, and without what belonged to its place alone. What SGLang says of itself is a real answer, what NCCL
chose a real log; filled in, in the form of real ones, are the repository, the models, the records of workers, the
sampler's section, and that caches were warm. More ranks are further GPUs and processes like the second one's. A shape
is a short list of readings that differ from the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from envsnap.reading import Json
from envsnap.snapshot import Snapshot, load
from tests.benchmarks.attribution.engines import role, served
from tests.benchmarks.attribution.shapes import network_readings, shape_readings
from tests.benchmarks.attribution.snapshots import changed, without

RECORD = Path(__file__).parents[2] / "data" / "attribution" / "machine.json.gz"


@dataclass(frozen=True, eq=False)
class Machine:
    """A machine on which `ranks` processes serve a model. `values` are its readings by section."""

    snapshot: Snapshot
    ranks: int
    roles: tuple[str, ...]
    gpus: int
    engine: str
    speculative: bool
    several_hosts: bool
    nvlink: bool
    values: Mapping[str, Json] = field(repr=False)

    def places(self, template: str) -> list[str]:
        """The paths of a template: `{gpu}`, `{rank}` (a role), `{n}` (a rank's number) or `{pair}` stands for each."""
        fillings: dict[str, Iterable[object]] = {
            "{gpu}": range(self.gpus),
            "{rank}": self.roles,
            "{n}": range(self.ranks),
            "{pair}": [f"{i}/{j}" for i in range(self.gpus) for j in range(i + 1, self.gpus)],
        }
        for mark, each in fillings.items():
            if mark in template:
                return [path for one in each for path in self.places(template.replace(mark, str(one)))]
        return [template]

    def value(self, path: str) -> Json:
        """A reading's value, None where it has none."""
        return self.values.get(path)


@cache
def machine(shape: str, engine: str, ranks: int, speculative: bool, nccl_log: bool) -> Machine:
    """A machine by its shape (`guest`, `metal`, `pcie`, `cluster`) and what runs on it (`sglang`, `vllm`, `other`)."""
    snapshot = load(RECORD)
    here = min(ranks, 8)
    gpus = max(2, here)
    snapshot = _multiplied(snapshot, gpus)
    snapshot = changed(snapshot, shape_readings(shape, gpus))
    snapshot = served(snapshot, engine, here, ranks, speculative)
    if not nccl_log:
        snapshot = without(snapshot, "nccl", "nccl.rank[", "nccl.log")
    elif here == 1:
        snapshot = without(snapshot, "nccl", "nccl.")
    else:
        snapshot = changed(snapshot, network_readings(shape, here, ranks))
    return Machine(
        snapshot=snapshot,
        ranks=here,
        roles=tuple(role(engine, here, i) for i in range(here)),
        gpus=gpus,
        engine=engine,
        speculative=speculative,
        several_hosts=shape == "cluster",
        nvlink=shape != "pcie",
        values=snapshot.values,
    )


def _multiplied(snapshot: Snapshot, gpus: int) -> Snapshot:
    """The machine with more GPUs and ranks, each like the second one."""
    more: dict[str, Json] = {}
    for path, value in snapshot.values.items():
        if path.startswith("gpu_pair["):
            more |= {path.replace("[0/1]", f"[{i}/{j}]"): value for i in range(gpus) for j in range(i + 1, gpus)}
            continue
        for index in range(2, gpus):
            another = path
            for mark in ("gpu[{}]", "[gpu{}]", "[scheduler_TP{}]", "[nvidia{}]", "nccl.rank[{}]"):
                another = another.replace(mark.format(1), mark.format(index))
            if another != path:
                more[another] = index if path.endswith(".rank[tp_rank]") else value
    more["nvml.gpu_count"] = gpus
    return changed(snapshot, more)
