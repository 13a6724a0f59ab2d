"""Two sets of runs: can they be compared, do they differ, and which term of the speed moved."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import geometric_mean, median

from envsnap.reading import Json
from envsnap.runs import output_probe
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.run import Run
from envsnap.runs.server_counters import MANY_HITS_PERCENT, ROOT
from envsnap.runs.sources import FILE_OPTIONS
from envsnap.runs.speed import STEP_PARTS, Share, Terms, split
from envsnap.runs.verdict import SAME_WITHIN, Design, History, Verdict, judge

_SCRIPT = "script_sha256"
"""The part of a request that may differ without the work being another."""

_OTHER_BATCH = 0.1
"""From this difference of logarithms on, batches count as of another size."""


@dataclass(frozen=True)
class Judged:
    """One metric of two sets of runs."""

    metric: Metric
    """The first side's first, for its name, unit and direction."""
    a: tuple[float, ...]
    b: tuple[float, ...]
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """`judged` in the order in which the benchmark reports its metrics. `shares` split the change of throughput.

    `obstacles` are sentences on why the two sets measured different things: while there are any, a difference says
    nothing about the machine. `notes` are sentences that qualify the rest.
    """

    design: Design
    judged: tuple[Judged, ...]
    shares: tuple[Share, ...]
    obstacles: tuple[str, ...]
    notes: tuple[str, ...]


def compare(
    a: Sequence[Run],
    b: Sequence[Run],
    history: Mapping[str, History] | None = None,
    same_within: float = SAME_WITHIN,
) -> Comparison:
    """Compare two sets of runs; failed ones are left out and said.

    `history` holds other sessions of one configuration by metric, as `Store.history` finds them.
    """
    good_a, good_b = [r for r in a if r.status == "ok"], [r for r in b if r.status == "ok"]
    notes = [
        f"{len(every) - len(good)} of {len(every)} runs of {name} did not succeed and are left out: {_reasons(every)}."
        for name, every, good in (("A", a, good_a), ("B", b, good_b))
        if len(good) < len(every)
    ]
    design = design_of(good_a, good_b)
    if design is Design.INTERLEAVED:
        good_a, good_b = _pairs(good_a, good_b)
    judged = tuple(_judge(name, good_a, good_b, design, history or {}, same_within) for name in _common(good_a, good_b))
    notes += _differences(good_a, good_b)
    notes += [w for run in (*good_a, *good_b) for w in run.warnings]
    return Comparison(
        design=design,
        judged=judged,
        shares=tuple(_shares(judged)),
        obstacles=tuple(_obstacles(good_a, good_b)),
        notes=tuple(dict.fromkeys(notes)),
    )


def design_of(a: Sequence[Run], b: Sequence[Run]) -> Design:
    """How two sets of runs were measured: as the arms of one session, or each for itself."""
    if len(a) < 2 or len(b) < 2:
        return Design.SINGLE
    groups = {r.group for r in (*a, *b)}
    if len(groups) == 1 and {r.arm for r in a} != {r.arm for r in b}:
        return Design.INTERLEAVED
    return Design.BLOCKS


def _pairs(a: Sequence[Run], b: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The repetitions of which both arms succeeded."""
    by_index = {r.index: r for r in b}
    chosen = [(r, by_index[r.index]) for r in a if r.index in by_index]
    return [x for x, _ in chosen], [y for _, y in chosen]


def _reasons(runs: Sequence[Run]) -> str:
    reasons = dict.fromkeys(r.reason or r.status for r in runs if r.status != "ok")
    return "; ".join(reason.rstrip(".") for reason in reasons)


def _common(a: Sequence[Run], b: Sequence[Run]) -> list[str]:
    """The metrics that every run of both sides has, in the first run's order."""
    if not a or not b:
        return []
    shared = set.intersection(*({m.name for m in r.metrics} for r in (*a, *b)))
    return [m.name for m in a[0].metrics if m.name in shared]


def _values(runs: Sequence[Run], name: str) -> tuple[float, ...]:
    return tuple(m.value for r in runs for m in r.metrics if m.name == name)


def _judge(
    name: str,
    a: Sequence[Run],
    b: Sequence[Run],
    design: Design,
    history: Mapping[str, History],
    same_within: float,
) -> Judged:
    values_a, values_b = _values(a, name), _values(b, name)
    metric = next(m for m in a[0].metrics if m.name == name)
    return Judged(metric, values_a, values_b, judge(values_a, values_b, design, history.get(name), same_within))


def _shares(judged: Sequence[Judged]) -> list[Share]:
    """The split of the speed of one stream, as far as the metrics allow; nothing where no speed was measured."""
    sides = []
    for index in (0, 1):
        # NOTE: geometric means, so that the split adds up to the ratio that was judged.
        figures = {j.metric.name: geometric_mean((j.a, j.b)[index]) for j in judged if j.a and j.b}
        speed = figures.get("stream_tokens_per_second")
        if speed is None and "tpot_seconds" in figures:
            speed = 1 / figures["tpot_seconds"]
        speed = speed or figures.get("output_tokens_per_second")
        if speed is None:
            return []
        sides.append(_terms(speed, figures))
    return split(*sides)


def _terms(speed: float, figures: dict[str, float]) -> Terms:
    """One side's terms. A timed verify step stands for the whole step where nothing else tells how long that took."""
    accept, step = figures.get("accept_length"), figures.get("step_seconds")
    parts = {part: figures[f"{part}_seconds"] for part in STEP_PARTS if f"{part}_seconds" in figures}
    if step is None and accept is None and "verify" in parts:
        step = sum(parts.values())
    return Terms(speed, accept, step, parts or None)


def _obstacles(a: Sequence[Run], b: Sequence[Run]) -> list[str]:
    """Differences of what was asked of the server."""
    if not a or not b:
        return ["One side has no run that succeeded."]
    one, two = a[0].request, b[0].request
    found = [
        f"The benchmark asked for different work: {name} was {_said(one, name)} and {_said(two, name)}."
        for name in sorted(told_of_both(a[0], b[0]) - {_SCRIPT})
        if one.get(name) != two.get(name)
    ]
    if not _common(a, b):
        found.append("The two sides have no metric in common.")
    return found


def told_of_both(a: Run, b: Run) -> set[str]:
    """The parts of two requests that can be compared: of somebody's dump, what it does not tell is not known."""
    partial = "imported" in a.snapshot.scope or "imported" in b.snapshot.scope
    return a.request.keys() & b.request.keys() if partial else {*a.request, *b.request}


def _differences(a: Sequence[Run], b: Sequence[Run]) -> Iterator[str]:
    """What may have made the work another one, though it need not: sentences."""
    if not a or not b:
        return
    scripts = [{r.request.get(_SCRIPT) for r in side} - {None} for side in (a, b)]
    if all(scripts) and scripts[0] != scripts[1]:
        yield "The benchmark's script is another one on side B: it may ask for other work."
    arms = [side[0].arm_environment for side in (a, b)]
    if arms[0] != arms[1]:
        changed = [" ".join(_set(name, value) for name, value in arm.items()) or "nothing" for arm in arms]
        yield f"Side A was run with {changed[0]} in its environment, side B with {changed[1]}."
    words = [_words(r.command) for r in (a[0], b[0])]
    if words[0] != words[1]:
        only = [" ".join(w for w in one if w not in two) for one, two in (words, reversed(words))]
        yield f"The benchmark was called differently: {only[0] or 'as it is'} on side A, {only[1] or 'as it is'} on B."
    batches = [_served(side, "decode_batch_mean_count") for side in (a, b)]
    if batches[0] and batches[1] and abs(log(batches[1] / batches[0])) > _OTHER_BATCH:
        yield (
            f"The server decoded {batches[0]:.2f} requests at once on side A and {batches[1]:.2f} on B, on average: "
            "a step takes longer with more."
        )
    hits = [_served(side, "cached_prompt_percent") for side in (a, b)]
    if hits[0] is not None and hits[1] is not None and abs(hits[1] - hits[0]) > MANY_HITS_PERCENT:
        yield f"The prefix cache answered {hits[0]:.0f} % of the prompt tokens on side A and {hits[1]:.0f} % on B."
    if said := output_probe.judged([r.output_probe for r in a], [r.output_probe for r in b]):
        yield said


def _set(name: str, value: str | None) -> str:
    return f"-u:{name}" if value is None else f"{name}={shlex.quote(value)}"


def _words(command: Sequence[str]) -> list[str]:
    """A command without the names of the files that it writes its figures to."""
    kept = []
    for before, word in zip(("", *command), command):
        if before not in FILE_OPTIONS:
            kept.append(word.partition("=")[0] if word.startswith(tuple(f"{o}=" for o in FILE_OPTIONS)) else word)
    return kept


def _served(runs: Sequence[Run], name: str) -> float | None:
    """The median over runs of what the server's counters showed; None where none of them has it."""
    path = f"{ROOT}.{name}"
    values = [r.sampled.values.get(path) for r in runs if r.sampled]
    # NOTE: who wrote a record is not trusted, nor is what it says a number.
    found = [float(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool) and v >= 0]
    return median(found) if found else None


def _said(request: dict[str, Json], name: str) -> str:
    return str(request.get(name, "not recorded"))[:60]


def worse(judged: Judged) -> bool | None:
    """Whether side B is the worse one; None where the metric has no good direction."""
    if judged.metric.better is Better.NEITHER:
        return None
    return (judged.verdict.ratio < 1) is (judged.metric.better is Better.HIGHER)
