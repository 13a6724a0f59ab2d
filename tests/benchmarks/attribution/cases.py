"""Cases: facts of a report, and what a record of it would hold, as data in `tests/cases`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from envsnap.reading import Json
from tests.benchmarks.attribution import deeds
from tests.benchmarks.attribution.deeds import Deed
from tests.benchmarks.attribution.machine import Machine, machine

FOLDER = Path(__file__).parents[2] / "cases"

CULPRIT, NONE, OPEN, LEFT_OUT = "culprit", "none", "open", "left_out"
ASIDE, EFFECT = "aside", "effect"


@dataclass(frozen=True)
class Case:
    """One case; see the head of translation.yaml.

    `toggled`: somebody measured both sides in turn. `where` says which term moved, `load` what held the GPU up.
    """

    id: str
    category: str
    group: str
    toggled: bool
    why: str = ""
    on: Mapping[str, Any] = field(default_factory=dict)
    slowdown: float = 1.0
    where: str = "decode"
    load: str = ""
    failed: bool = False
    bimodal: bool = False
    noise: float = 0.015
    request: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    changes: tuple[Mapping[str, Any], ...] = ()

    @property
    def machine(self) -> Machine:
        """The machine that it is laid over."""
        on = self.on
        return machine(
            on.get("shape", "metal"),
            on.get("engine", "sglang"),
            on.get("ranks", 2),
            on.get("speculative", False),
            on.get("nccl_log", False),
        )

    def deeds(self) -> list[tuple[str, Deed]]:
        """What was done between its two records, each with its role."""
        return [(change.get("role", CULPRIT), _deed(self.machine, change)) for change in self.changes]


def _deed(on: Machine, change: Mapping[str, Any]) -> Deed:
    """Raises: KeyError for a change that says nothing known."""
    if "commit" in change:
        return deeds.commit(on, change["commit"])
    pair = change["fast"], change["slow"]
    if "env" in change:
        return deeds.variable(on, change["env"], pair, change.get("where", deeds.EVERYWHERE))
    if "argument" in change:
        deed = deeds.argument(on, change["argument"], pair, typed=change.get("typed", True))
        typed_as = change.get("typed_as")
        return Deed(deed.name, deed.shows, {typed_as: pair}) if typed_as else deed
    if "library" in change:
        return deeds.library(on, change["library"], pair, change.get("package", ""))
    if "package" in change:
        local = change.get("local")
        return deeds.package(on, change["package"], pair, (local[0], local[1]) if local else None)
    if "driver" in change:
        return deeds.driver(on, pair)
    return deeds.readings(on, change["path"], change["path"], pair)


@cache
def public() -> tuple[Case, ...]:
    """The cases of public reports. Raises: KeyError for one without a translation."""
    told = _read("translation.yaml")
    return tuple(_case(fact["id"], fact["category"], _toggled(fact), told[fact["id"]]) for fact in _read("public.yaml"))


def _toggled(fact: Mapping[str, str]) -> bool:
    return fact["cause_status"] == "confirmed" or re.search(r"\bA/B\b|sweep", fact["how_found"]) is not None


@cache
def invented() -> tuple[Case, ...]:
    """Cases that were made up, with other mechanisms than the public ones."""
    return _made_up("invented.yaml")


@cache
def families() -> tuple[Case, ...]:
    """Cases that were made up for each family of causes, beside which the tables of slow values were written."""
    return _made_up("families.yaml")


def _made_up(file: str) -> tuple[Case, ...]:
    every = _read(file)
    return tuple(_case(name, told["category"], told["status"] == "confirmed", told) for name, told in every.items())


def innocent() -> Any:
    """The tables of innocent changes."""
    return _read("innocent.yaml")


def _case(name: str, category: str, toggled: bool, told: Mapping[str, Any]) -> Case:
    return Case(
        id=name,
        category=category,
        group=told["group"],
        toggled=toggled,
        why=told.get("why", ""),
        on=told.get("machine", {}),
        slowdown=told.get("slowdown", 1.0),
        where=told.get("in", "decode"),
        load=told.get("load", ""),
        failed=told.get("failed", False),
        bimodal=told.get("bimodal", False),
        noise=told.get("noise", 0.015),
        request=told.get("request", {}),
        changes=tuple(told.get("changes", ())),
    )


@cache
def _read(name: str) -> Any:
    # NOTE: the C loader, where there is one, is ten times faster.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((FOLDER / name).read_text("utf-8"), Loader=loader)
