"""A case and innocent changes as what envsnap is given: two sides, each with its record and its runs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from envsnap.explain import Side
from envsnap.reading import Json
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.run import Run
from envsnap.snapshot import Snapshot
from tests.benchmarks.attribution.cases import CULPRIT, EFFECT, Case
from tests.benchmarks.attribution.deeds import Deed
from tests.benchmarks.attribution.distractors import draw, footprint
from tests.benchmarks.attribution.machine import Machine
from tests.benchmarks.attribution.snapshots import changed

RUNS = 3
"""Runs a side; ten where the figures have two modes, since fewer cannot show that."""

Place = tuple[str, str]
"""A change's path and leaf."""


@dataclass(frozen=True)
class Laid:
    """What is explained. `culprits` and `effects` are the changes of the cause and of what followed from it.

    `innocent` says of every other change whose it is.
    """

    case: Case
    fast: Side
    slow: Side
    culprits: frozenset[str]
    effects: frozenset[str]
    innocent: Mapping[str, str]


def lay(case: Case, number: int, *, with_culprit: bool = True) -> Laid:
    """The case among the innocent changes of its draw of that number."""
    rng = random.Random(f"{case.id} {number}")
    machine = case.machine
    roles = case.deeds()
    taken = frozenset(mark for _, deed in roles for mark in footprint(deed))
    distractors = draw(machine, taken, rng)
    told = [deed for role, deed in roles if with_culprit or role not in (CULPRIT, EFFECT)]
    every = [*distractors, *told]
    rng.shuffle(every)
    fast, slow = (_record(machine, every, side) for side in (0, 1))
    fast, slow = changed(fast, _load(fast, rng)), changed(slow, {**_load(slow, rng), **_held_up(case, slow)})
    fast, slow = _dated(fast, 0), _dated(slow, 1)
    # What a case says of load and dates outweighs what is filled in.
    fast, slow = (changed(s, _of_side(told, i, ("during.", "worker["))) for i, s in ((0, fast), (1, slow)))
    return Laid(
        case=case,
        fast=_side(case, fast, 0, rng, with_culprit),
        slow=_side(case, slow, 1, rng, with_culprit),
        culprits=_places(deed for role, deed in roles if role == CULPRIT) | _asked(case),
        effects=_places(deed for role, deed in roles if role == EFFECT),
        innocent={
            place: d.name for d in (*distractors, *(d for r, d in roles if r == "aside")) for place in _places([d])
        },
    )


def _places(deeds: Iterable[Deed]) -> frozenset[str]:
    """Paths, and options of the command line as `--name`."""
    return frozenset(
        place for deed in deeds for place in (*deed.shows, *(f"--{name.replace('-', '_')}" for name in deed.typed))
    )


def _asked(case: Case) -> frozenset[str]:
    """What the client asked differently, as changes are called that come from runs and not from a record."""
    return frozenset(f"request[{name}]" for name in case.request.get("slow", {}))


def _record(machine: Machine, deeds: Iterable[Deed], side: int) -> Snapshot:
    deeds = list(deeds)
    readings = _of_side(deeds, side)
    typed = {name: pair[side] for deed in deeds for name, pair in deed.typed.items()}
    if typed:
        readings["worker[main].argv"] = command_with(machine.value("worker[main].argv"), typed)
    return changed(machine.snapshot, readings)


def _of_side(deeds: Iterable[Deed], side: int, beginnings: tuple[str, ...] = ("",)) -> dict[str, Json]:
    return {p: pair[side] for deed in deeds for p, pair in deed.shows.items() if p.startswith(beginnings)}


def _dated(snapshot: Snapshot, side: int) -> Snapshot:
    """The record as of that side's day, of a server that was started just before."""
    started = _DAYS[side].timestamp() + 60
    readings = {p: started for p in snapshot.values if p.endswith(".started_seconds")}
    return replace(changed(snapshot, readings), captured_at=_stamp(side, minutes=8))


_DAYS = (datetime(2026, 6, 1, 9, tzinfo=timezone.utc), datetime(2026, 6, 5, 9, tzinfo=timezone.utc))
"""When the fast side and when the slow one was measured."""


def _stamp(side: int, minutes: int) -> str:
    return (_DAYS[side] + timedelta(minutes=minutes)).isoformat(timespec="milliseconds")


def command_with(command: list[str], typed: Mapping[str, Json]) -> list[str]:
    """The command line with options as typed; one that is off or unset does not stand there."""
    kept: list[str] = []
    words = iter(command)
    for word in words:
        if word.startswith("--") and word[2:].replace("-", "_") in typed:
            next(words, None)
        else:
            kept.append(word)
    for name, value in sorted(typed.items()):
        option = f"--{name.replace('_', '-')}"
        if value is True:
            kept.append(option)
        elif value not in (None, False):
            kept += [option, str(value)]
    return kept


# -- load -----------------------------------------------------------------------------------------------------------


def _load(snapshot: Snapshot, rng: random.Random) -> dict[str, Json]:
    """What a sampler saw, as it differs between repeats: by a per cent or two, whole steps of a clock."""
    found: dict[str, Json] = {}
    for path, value in snapshot.sections["during"].values.items():
        if not isinstance(value, float) or "pcie" in path or "violation" in path:
            continue
        if "sm_clock" in path:
            found[path] = value - rng.choice((0.0, 0.0, 15.0)) if value > 1000 else value
        elif "memory_clock" not in path:
            found[path] = round(value * (1 + rng.gauss(0, 0.015)), 3)
    return found


_IDLE_WATTS = 112.0


def _held_up(case: Case, snapshot: Snapshot) -> dict[str, Json]:
    """What the GPUs show while they are held up: less power where they wait, less use where the host is late."""
    if not case.load or case.failed:
        return {}
    found: dict[str, Json] = {}
    share = 1 / max(case.slowdown, 1.0)
    for path, value in snapshot.sections["during"].values.items():
        if not path.startswith("during.gpu[") or not isinstance(value, float):
            continue
        if ".power_" in path and case.load in ("communication", "host", "idle"):
            found[path] = round(_IDLE_WATTS + (value - _IDLE_WATTS) * max(share, 0.1), 3)
        if ".utilization_" in path and case.load in ("host", "idle"):
            found[path] = round(value * max(share, 0.05), 3)
    return found


# -- runs -----------------------------------------------------------------------------------------------------------

_ACCEPT, _STEP, _PLAIN_STEP, _TTFT = 2.8, 0.028, 0.011, 0.18


def _side(case: Case, snapshot: Snapshot, side: int, rng: random.Random, with_culprit: bool) -> Side:
    """Runs in one state. Who has toggled a cause ran both sides in turn, anyone else one after the other."""
    count = 10 if case.bimodal else RUNS
    group = "toggled" if case.toggled else ("before", "after")[side]
    # NOTE: the sampler's section is a run's own, so that the record before it is without.
    kept = {name: section for name, section in snapshot.sections.items() if name != "during"}
    before = replace(snapshot, sections=kept, moment="before")
    asked = case.request.get(("fast", "slow")[side], {})
    runs = []
    for index in range(count):
        failed = case.failed and side == 1
        runs.append(
            Run(
                id=f"{group}-{'ab'[side]}-{index}",
                group=group,
                started_at=_stamp(side, minutes=10 + 4 * index),
                seconds=90.0,
                status="failed" if failed else "ok",
                reason="it did not answer within its time" if failed else "",
                command=("python3", "-m", "sglang.bench_serving"),
                exit_code=1 if failed else 0,
                snapshots={"before": before},
                arm="ab"[side] if group == "toggled" else "",
                index=index,
                metrics=() if failed else _metrics(case, side, rng),
                request={"concurrency": 1, "prompts": 32, **(asked if with_culprit else {})},
                sampled=snapshot.sections.get("during"),
            )
        )
    return Side.of_runs(runs)


def _metrics(case: Case, side: int, rng: random.Random) -> tuple[Metric, ...]:
    """What benchmarks report: speed of a stream, with speculation acceptance and step time, time to the first token."""

    def noisy(value: float) -> float:
        return value * (1 + rng.gauss(0, case.noise))

    ratio = case.slowdown if side == 1 else 1.0
    if case.bimodal:
        ratio = case.slowdown if rng.random() < (0.35, 0.6)[side] else 1.0
    decode = ratio if case.where in ("decode", "unsplit") else 1.0
    speculative = case.on.get("speculative", False)
    step = noisy((_STEP if speculative else _PLAIN_STEP) * decode)
    ttft = noisy(_TTFT * (ratio if case.where == "prefill" else decode**0.5))
    accept = noisy(_ACCEPT / (ratio if case.where == "acceptance" else 1.0)) if speculative else 1.0
    stream = accept / step
    output = 512 / (512 / stream + ttft)
    if case.where == "prefill":
        # Long prompts and short answers, where the time to the first token counts.
        output = 32 / (32 / stream + 8 * ttft)
    found = [Metric("output_tokens_per_second", output, "tok/s", Better.HIGHER, "bench_serving")]
    if case.where == "unsplit":
        return tuple(found)
    found.append(Metric("tpot_seconds", 1 / stream, "s", Better.LOWER, "bench_serving"))
    found.append(Metric("ttft_seconds", ttft, "s", Better.LOWER, "bench_serving"))
    if speculative:
        found.append(Metric("accept_length", accept, "tokens", Better.NEITHER, "bench_serving"))
        found.append(Metric("step_seconds", step, "s", Better.LOWER, "bench_serving"))
    return tuple(found)
