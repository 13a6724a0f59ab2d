"""A pair of sides made by hand, and what a story should say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from envsnap.explain import Side
from envsnap.explain.effective import effective
from envsnap.explain.story import Facts, View
from envsnap.explain.symptom import Symptom, symptom_of
from envsnap.explain.work import asked_otherwise
from envsnap.reading import Json
from envsnap.runs.compare import compare
from tests.explain.pairs import run, snapshot

Values = Mapping[str, Json]


def ranks(count: int, values: Values) -> dict[str, Json]:
    """Values for each rank: `{r}` stands for its role, `{n}` for its number."""
    found: dict[str, Json] = {}
    for n in range(count):
        found |= {p.replace("{r}", f"scheduler_TP{n}").replace("{n}", str(n)): v for p, v in values.items()}
    return found


def gpus(count: int, values: Values) -> dict[str, Json]:
    """Values for each GPU: `{g}` stands for its index."""
    return {p.replace("{g}", str(g)): v for g in range(count) for p, v in values.items()}


PATH = {"worker[{r}].env[PATH]": "/usr/bin"}
TWO = {**ranks(2, PATH), "server[0].argument[tp_size]": 2, "server[0].argument[nnodes]": 1}
FOUR = {**ranks(4, PATH), "server[0].argument[tp_size]": 4, "server[0].argument[nnodes]": 1}
ONE = {**ranks(1, PATH), "server[0].argument[tp_size]": 1, "server[0].argument[nnodes]": 1}
CLUSTER = {**ranks(2, PATH), "server[0].argument[tp_size]": 16, "server[0].argument[nnodes]": 2}
LAUNCHER = {"worker[main].env[PATH]": "/usr/bin", "worker[main].env[NCCL_PROTO]": "LL"}
PCIE = {"gpu[0].nvlink_active_count": 0, "gpu[1].nvlink_active_count": 0}
NVLINK = {"gpu[0].nvlink_active_count": 18, "gpu[1].nvlink_active_count": 18}
SPECULATIVE = {"server[0].argument[speculative_algorithm]": "EAGLE3"}

STEP = {"fast": {"tpot_seconds": 0.010, "accept_length": 2.0, "step_seconds": 0.020},
        "slow": {"tpot_seconds": 0.015, "accept_length": 2.0, "step_seconds": 0.030}}  # fmt: skip
"""Figures of a step that takes longer."""
ACCEPTANCE = {"fast": {"tpot_seconds": 0.010, "accept_length": 3.0, "step_seconds": 0.030},
              "slow": {"tpot_seconds": 0.015, "accept_length": 2.0, "step_seconds": 0.030}}  # fmt: skip
"""Figures of an acceptance that fell."""
NOTHING_ACCEPTED = {**ACCEPTANCE, "slow": {"tpot_seconds": 0.030, "accept_length": 1.0, "step_seconds": 0.030}}


@dataclass(frozen=True)
class Case:
    """A pair, and what the story should say of it: a kind of finding, words in it, a path that it is about.

    `base` is on both sides; None in `fast` or `slow` takes a value away. `weight` is a clue's. No kind: silence.
    """

    story: str
    name: str
    base: Values
    fast: Values = field(default_factory=dict)
    slow: Values = field(default_factory=dict)
    kind: type | None = None
    words: str = ""
    about: str = ""
    weight: float | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    asked: tuple[Values, Values] = field(default_factory=lambda: ({}, {}))
    grown: tuple[Values, Values] = field(default_factory=lambda: ({}, {}))
    """What stands otherwise after each side's run than before."""

    def sides(self) -> tuple[Side, Side]:
        """The two sides."""
        made = []
        for name, own, asked, grown in zip(("fast", "slow"), (self.fast, self.slow), self.asked, self.grown):
            values = {path: value for path, value in {**self.base, **own}.items() if value is not None}
            sampled = any(path.startswith("during.") for path in values)
            if not (self.figures or asked or grown or sampled):
                made.append(Side(snapshot(values)))
                continue
            one = run(values, name, **self.figures.get(name, {"tpot_seconds": 0.01}))
            after = {"after": snapshot({**values, **grown})} if grown else {}
            made.append(Side.of_runs([replace(one, request=dict(asked), snapshots={**one.snapshots, **after})]))
        return made[0], made[1]

    def view(self) -> View:
        """What the story looks at."""
        fast, slow = self.sides()
        one, two = Facts(fast), Facts(slow)
        found = effective(one, two)
        symptom = symptom_of(compare(fast.runs, slow.runs), "b") if fast.runs and slow.runs else Symptom()
        return View(one, two, (*found.changes, *asked_otherwise(one, two)), symptom, found.shown)


@dataclass
class Table:
    """Cases in the order in which they were added."""

    cases: list[Case] = field(default_factory=list)

    def __call__(
        self,
        story: str,
        name: str,
        base: Values,
        fast: Values,
        slow: Values,
        kind: type | None = None,
        words: str = "",
        about: str = "",
        **more: Any,
    ) -> None:
        """Add a case; see `Case` for the rest."""
        self.cases.append(Case(story, name, base, fast, slow, kind, words, about, **more))
