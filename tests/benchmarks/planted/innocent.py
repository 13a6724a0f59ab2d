"""Innocent changes laid over real runs: those that the attribution board draws, as far as they fit the machine."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envsnap.collectors import section_of
from envsnap.keys import instances_of, pattern_of
from envsnap.reading import Json
from envsnap.runs.run import Run
from envsnap.snapshot import Snapshot
from tests.benchmarks.attribution.build import command_with
from tests.benchmarks.attribution.deeds import Deed
from tests.benchmarks.attribution.distractors import draw, footprint
from tests.benchmarks.attribution.machine import Machine
from tests.benchmarks.attribution.snapshots import changed

AT_LEAST = 32
"""Innocent changes on each pair of sides."""

_ACT_HERE = ("OMP_", "MKL_", "KMP_", "OPENBLAS_", "PYTHONMALLOC", "SGLANG_SET_CPU_AFFINITY", "SGLANG_ENABLE_TORCH_INF")
_NAMES_A_CACHE = ("CACHE_DIR", "CACHE_ROOT", "WORKSPACE_BASE")
"""Beginnings and ends of variables that could do something on a machine without a GPU, or move a real cache."""


@dataclass(frozen=True)
class Innocents:
    """What is laid over both sides."""

    deeds: tuple[Deed, ...]

    def over(self, runs: Sequence[Run], side: int) -> list[Run]:
        """The runs of a side (0 or 1) with the changes in their records."""
        return [replace(run, snapshots={m: self._over(s, side) for m, s in run.snapshots.items()}) for run in runs]

    def _over(self, snapshot: Snapshot, side: int) -> Snapshot:
        readings: dict[str, Json] = {}
        for deed in self.deeds:
            readings |= {p: pair[side] for p, pair in deed.shows.items() if section_of(p) in snapshot.sections}
        typed = {name: pair[side] for deed in self.deeds for name, pair in deed.typed.items()}
        argv = snapshot.values.get("worker[main].argv")
        if typed and isinstance(argv, list):
            readings["worker[main].argv"] = command_with(argv, typed)
        return changed(snapshot, readings)


def innocents(fast: Snapshot, slow: Snapshot, seed: str, *, levers: bool = False) -> Innocents:
    """`AT_LEAST` changes for a machine of the fast side's state, none of which touches what differs by itself.

    With `levers` only such as can be pulled on the real engine: no argument of it, since few suit any machine.
    """
    machine = machine_of(fast)
    rng = random.Random(seed)
    taken = set(_differing(fast, slow))
    found: list[Deed] = []
    for _ in range(20):
        for deed in draw(machine, frozenset(taken), rng):
            fits = _fits(deed, fast) and not (levers and _is_argument(deed))
            if len(found) < AT_LEAST and fits and not footprint(deed) & taken:
                taken |= footprint(deed)
                found.append(deed)
    return Innocents(tuple(found))


def machine_of(snapshot: Snapshot) -> Machine:
    """A recorded state as the machine that innocent changes are drawn for."""
    roles = tuple(sorted({instances_of(p)[0] for p in snapshot.values if pattern_of(p) == "worker[].argv"}))
    ranks = tuple(role for role in roles if role.startswith("scheduler"))
    gpus = snapshot.values.get("nvml.gpu_count")
    return Machine(
        snapshot, len(ranks), ranks, gpus if isinstance(gpus, int) else 0, "sglang", False, False, False,
        snapshot.values,
    )  # fmt: skip


def _differing(fast: Snapshot, slow: Snapshot) -> Iterable[str]:
    """The footprint of what differs between the sides without any doing of ours."""
    one, two = fast.values, slow.values
    differing: Mapping[str, tuple[Json, Json]] = {
        p: (one.get(p), two.get(p)) for p in {*one, *two} if one.get(p) != two.get(p)
    }
    yield from footprint(Deed("", differing))
    yield from (f"env {instances_of(p)[-1]}" for p in differing if pattern_of(p).endswith("env[]"))
    yield from (f"--{instances_of(p)[-1].rpartition('.')[2]}" for p in differing if "argument[" in p)


def _is_argument(deed: Deed) -> bool:
    return bool(deed.typed) or any("argument[" in path for path in deed.shows)


def _fits(deed: Deed, snapshot: Snapshot) -> bool:
    """Whether it does nothing there, and shows in what was read there."""
    name = deed.name.removeprefix("env ")
    if name.startswith(_ACT_HERE) or name.endswith(_NAMES_A_CACHE) or not (deed.shows or deed.typed):
        return False
    for path, pair in deed.shows.items():
        section = snapshot.sections.get(section_of(path))
        if section is None or path.startswith(("nccl.rank[", "during.", "worker[main].argv")):
            return False
        variable = pattern_of(path).endswith(("env[]", "argument[]"))
        if not variable and path not in section.values and None not in pair:
            return False
    return True
