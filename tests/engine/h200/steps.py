"""The plan: what is done in which order, by its worth, on a machine that is held for minutes."""

from __future__ import annotations

from itertools import chain

from tests.engine.h200 import blocks, looking
from tests.engine.h200.lab import Plan, Step
from tests.engine.h200.place import Place
from tests.engine.h200.proving import Proof

BLOCKS = 4
ENOUGH = 3
"""Blocks before the search has its turn: so many pairs have an interval that says something."""


def plan_of(part: str, place: Place, count: int = BLOCKS) -> Plan:
    """The steps of a part, or of all of them, as they stand when they are asked for."""
    return {
        "first": lambda: first(place),
        "plants": lambda: [*plants(place, range(count)), *plants(place, range(count), ranks=2)],
        "prove": lambda: Proof(place).steps(),
        "all": lambda: everything(place, count),
    }[part]


def everything(place: Place, count: int = BLOCKS) -> list[Step]:
    """The first look, enough blocks, the search; then what is good to have: more blocks, and those of two ranks."""
    return [
        *first(place), *plants(place, range(min(ENOUGH, count))), *Proof(place).steps(),
        *plants(place, range(count)), *plants(place, range(count), ranks=2),
    ]  # fmt: skip


def first(place: Place) -> list[Step]:
    """The machine idle, servers of each kind under load, how far fresh ones are apart, and probes."""
    return [looking.idle(place), *looking.look(place), looking.probe(place)]


def plants(place: Place, numbers: range, ranks: int = 1) -> list[Step]:
    """Blocks in waves: of one rank as many as there are cards, each on its own."""
    left = [n for n in numbers if not place.lab.is_done(blocks.name_of(n, ranks))]
    side = place.gpus if ranks == 1 else 1
    waves = (left[start : start + side] for start in range(0, len(left), side))
    return list(chain.from_iterable(blocks.blocks(place, numbers, ranks) for numbers in waves))
