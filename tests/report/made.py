"""Samples and sides made up for pages: an hour of eight GPUs, a slow side that throttles, names that mean harm."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from envsnap.diff import diff
from envsnap.explain import Side, explain
from envsnap.keys import path_of
from envsnap.reading import Json
from envsnap.report.page import Content
from envsnap.runs.columns import Columns
from envsnap.runs.run import Run
from tests.explain.pairs import run

THROTTLED_AT, RELEASED_AT = 0.4, 0.7
"""Parts of a run between which its slow GPU is held down."""


def samples(seconds: float, gpus: int, workers: Sequence[str], slow_gpu: int | None = None, seed: int = 1) -> Columns:
    """One sample a second, as `envsnap run` keeps them: figures of the PCIe link on every tenth alone."""
    draw = random.Random(seed)
    found = Columns()
    for second in range(int(seconds)):
        part = second / seconds
        loaded = 0.15 < part < 0.95
        row: dict[str, object] = {
            "host.cpu_busy_percent": round(draw.gauss(900 if loaded else 120, 40), 1),
            "host.cpu_pressure_percent": round(abs(draw.gauss(0.3, 0.2)), 2),
        }
        for gpu in range(gpus):
            held = gpu == slow_gpu and THROTTLED_AT < part < RELEASED_AT
            prefix = f"gpu[{gpu}]."
            row[prefix + "sm_clock_mhz"] = (1200 + draw.randrange(-20, 20) if held else 1980) if loaded else 345
            row[prefix + "power_watts"] = round(draw.gauss(420 if held else 610, 8) if loaded else 78, 1)
            row[prefix + "temperature_celsius"] = round(35 + 30 * min(1, part * 3) + draw.random() * 2)
            row[prefix + "utilization_percent"] = draw.randrange(90, 100) if loaded else 0
            row[prefix + "throttle_reasons"] = ["sw_thermal_slowdown"] if held else [] if loaded else ["gpu_idle"]
            if second % 10 == 2:
                row[prefix + "pcie_speed_gts"] = 16.0 if held else 32.0
                row[prefix + "pcie_width_lanes"] = 16
        for worker in workers:
            row[f"worker[{worker}].cpu_percent"] = round(max(0.0, draw.gauss(95 if loaded else 3, 4)), 1)
        found.add(second + 0.01, row)
    return found


def timed(run: Run, columns: Columns) -> Run:
    """A run whose measured window lies within its samples."""
    end = columns.times[-1]
    return replace(run, seconds=end + 1, window=(0.3 * end, 0.9 * end))


def sampled(sides: Sequence[Side], seconds: float, gpus: int, workers: Sequence[str]) -> Content:
    """Two sides whose runs were all sampled; the second side's third GPU is held down for a while."""
    held = {}
    made = []
    for number, side in enumerate(sides):
        runs = []
        for index, each in enumerate(side.runs):
            slow = min(2, gpus - 1) if number else None
            columns = samples(seconds * (1 + 0.2 * number), gpus, workers, slow, seed=10 * number + index)
            runs.append(timed(each, columns))
            held[each.id] = columns
        made.append(Side.of_runs(runs, side.label))
    return pair(made[0], made[1], held)


def pair(fast: Side, slow: Side, samples_of: dict[str, Columns] | None = None) -> Content:
    """Two sides with what the other reports found of them."""
    return Content(
        (fast, slow),
        (fast.label, slow.label),
        samples_of or {},
        diff(fast.snapshot, slow.snapshot),
        explain(fast, slow),
    )


HARM = (
    "<script>window.harmed=1</script>",
    "\"><img src=x onerror='window.harmed=1'>",
    "]]><!-- --><svg onload=window.harmed=1>",
    "</style></script></td></table><h1>harm",
    "'\"`&amp;&lt;%3Cb%3E{{7*7}}${1}",
    "javascript:window.harmed=1",
    "\u202egnp.elif\u202c \u2066iso\u2069 \u200f\u200b",
    "\x1b]0;title\x07\x1b[31m \x00 \r\n\t \x85 \u2028 \ud800",
)
"""What would act if it were taken for markup, a script, a style, an escape or a mark of direction."""

_HEADS = "1" * 40, "2" * 40


def _patch(text: str) -> str:
    lines = [line for line in text.replace("\x00", "").split("\n") if line]
    body = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,0 +1,{len(lines)} @@\n{body}"


def hostile(number: int) -> dict[str, Json]:
    """The state of one side in which every name, value, subject and path wants to do harm."""
    values: dict[str, Json] = {}
    worker = f"scheduler_TP0{HARM[0]}"
    for i, harm in enumerate(HARM):
        values[path_of("worker[].env[]", worker, f"NCCL_{i}{harm}")] = f"{number}{harm}"
        values[path_of("env[]", f"NCCL_{i}{harm}")] = f"{number}{harm}"
        values[path_of("package[].version", f"p{i}{harm}")] = f"{number}.0{harm}"
        values[path_of("package[].version", f"same{i}{harm}")] = f"1.0{harm}"
    repository = f"repo{HARM[0]}"
    commit = _HEADS[number]
    values[path_of("repo[].head", repository)] = commit
    values[path_of("repo[].root", repository)] = f"/srv/{HARM[1]}"
    values[path_of("repo[].recent_commits", repository)] = [_HEADS[1], _HEADS[0]][1 - number :]
    for held in _HEADS:
        values[path_of("repo[].commit[].subject", repository, held)] = HARM[3] + HARM[6]
    values[path_of("repo[].patch", repository)] = _patch("\n".join(HARM)) if number else ""
    values[path_of("repo[].changed[].status", repository, "x.py")] = "modified"
    values[path_of("repo[].changed[].blob", repository, "x.py")] = _HEADS[number]
    values[path_of("during.worker[].cpu_median_percent", worker)] = 10.0 + number
    for part in ("p5", "p95"):
        values[path_of(f"during.worker[].cpu_{part}_percent", worker)] = 10.0 + number
    return values


def hostile_pair() -> Content:
    """Two sides that want to do harm, with their samples."""
    made = []
    held = {}
    for number, side_name in enumerate((f"fast{HARM[0]}{HARM[6]}", f"slow{HARM[1]}{HARM[7]}")):
        benched = run(
            hostile(number), f"g{number}", command=("bench", *HARM), stream_tokens_per_second=90.0 - 30 * number
        )
        columns = samples(60, 2, [f"scheduler_TP0{HARM[0].replace(']', '')}"], slow_gpu=1)
        columns.columns["gpu[0].throttle_reasons"] = [[HARM[0]] for _ in columns.times]
        benched = replace(
            timed(benched, columns), id=f"{HARM[0]}{number}", label=HARM[1], warnings=HARM, reason=HARM[2]
        )
        held[benched.id] = columns
        made.append(Side.of_runs([benched], side_name))
    return pair(made[0], made[1], held)
