"""Pairs of sides made up in a test: snapshots of given values, and runs of given figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envsnap.collectors import section_of
from envsnap.explain import Side
from envsnap.reading import Json
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.run import Run
from envsnap.snapshot import Section, Snapshot

SERVER = {
    "server[0].argument[tp_size]": 8,
    "server[0].argument[speculative_algorithm]": "EAGLE3",
    "worker[scheduler_TP0].env[PATH]": "/usr/bin",
}
"""A speculative server on eight ranks, in short."""


def snapshot(values: Mapping[str, Json], moment: str = "before", at: str = "2026-01-01T00:00:00+00:00") -> Snapshot:
    """A snapshot whose sections hold these values and are complete."""
    sections: dict[str, dict[str, Json]] = {}
    for path, value in values.items():
        sections.setdefault(section_of(path), {})[path] = value
    return Snapshot(
        captured_at=at,
        sections={n: Section("ok", n != "during", 0.0, "made up", values=v) for n, v in sections.items()},
        envsnap="0",
        moment=moment,
    )


_UNITS: dict[str, tuple[str, Better]] = {
    "stream_tokens_per_second": ("tok/s", Better.HIGHER),
    "output_tokens_per_second": ("tok/s", Better.HIGHER),
    "accept_length": ("tokens", Better.NEITHER),
}


def run(values: Mapping[str, Json], group: str = "a", index: int = 0, at: str = "2026-01-01T00:00:00+00:00",
        arm: str = "", command: Sequence[str] = ("bench",), **figures: float) -> Run:  # fmt: skip
    """A run in that state, with these figures. Values under `during.` become what was sampled."""
    taken = {p: v for p, v in values.items() if not p.startswith("during.")}
    sampled = {p: v for p, v in values.items() if p.startswith("during.")}
    metrics = []
    for name, figure in figures.items():
        unit, better = _UNITS.get(name, ("s", Better.LOWER))
        metrics.append(Metric(name, figure, unit, better, "test"))
    return Run(
        id=f"{group}{arm}-{index}", group=group, arm=arm, index=index, started_at=at, seconds=1.0, status="ok",
        command=tuple(command), exit_code=0, snapshots={"before": snapshot(taken, at=at)}, metrics=tuple(metrics),
        sampled=Section("ok", False, 0.0, "made up", values=dict(sampled)) if sampled else None,
    )  # fmt: skip


def side(values: Mapping[str, Json], count: int = 1, group: str = "a", label: str = "", **figures: Any) -> Side:
    """A side of some runs alike, or of a bare snapshot where there are no figures."""
    if not figures:
        return Side(snapshot(values), label=label)
    runs = [run(values, group, i, at=f"2026-01-01T00:00:{i:02}+00:00", **figures) for i in range(count)]
    return Side.of_runs(runs, label or group)
