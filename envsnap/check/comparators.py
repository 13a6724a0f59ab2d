"""How a value can be required to be: one table for the policy's fields, their schema, and their words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from envsnap.keys import Key, Type
from envsnap.reading import Json
from envsnap.wording import value_text

Schema = dict[str, Json]
Tests = Mapping[str, Json]
"""Field of the policy -> what it asks for."""

_NUMERIC = (Type.INTEGER, Type.NUMBER, Type.ANY)
_TEXTUAL = (Type.STRING, Type.ANY)


@dataclass(frozen=True)
class Comparator:
    """`holds(key, value, operand, tolerance)`; `words(key, operand)` end the sentence `X is Y, required …`."""

    holds: Callable[[Key, Json, Json, float], bool]
    words: Callable[[Key, Json], str]
    schema: Schema
    types: tuple[Type, ...] = tuple(Type)


def _same(key: Key, value: Json, operand: Json, tolerance: float) -> bool:
    if is_number(value) and is_number(operand) and tolerance:
        return math.isclose(value, operand, rel_tol=tolerance)
    return key.same(value, operand) or (is_number(value) and is_number(operand) and bool(value == operand))


def is_number(value: Json) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _in_version(value: Json, operand: Json) -> bool:
    """Whether a version is within a specifier; what is no version is within none."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(str(operand)).contains(str(value), prereleases=True)
    except InvalidVersion:
        return False


def is_specifier(operand: str) -> bool:
    """Whether a text is a version specifier, such as `>=2.27,<3`."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(operand)
    except InvalidSpecifier:
        return False
    return bool(operand.strip())


def _listed(key: Key, operands: Json) -> str:
    return "one of " + ", ".join(value_text(key, o) for o in operands)


_NUMBER: Schema = {"type": "number"}

COMPARATORS: Mapping[str, Comparator] = {
    "equals": Comparator(_same, value_text, {"description": "Exactly this value, within the key's own tolerance."}),
    "one_of": Comparator(
        lambda key, value, operand, tolerance: any(_same(key, value, o, tolerance) for o in operand),
        _listed,
        {"type": "array", "minItems": 1, "description": "Any of these values."},
    ),
    "at_least": Comparator(
        lambda key, value, operand, tolerance: is_number(value) and value >= operand,
        lambda key, operand: f"at least {value_text(key, operand)}",
        {**_NUMBER, "description": "No less than this."},
        _NUMERIC,
    ),
    "at_most": Comparator(
        lambda key, value, operand, tolerance: is_number(value) and value <= operand,
        lambda key, operand: f"at most {value_text(key, operand)}",
        {**_NUMBER, "description": "No more than this."},
        _NUMERIC,
    ),
    "range": Comparator(
        lambda key, value, operand, tolerance: is_number(value) and operand[0] <= value <= operand[1],
        lambda key, operand: f"between {value_text(key, operand[0])} and {value_text(key, operand[1])}",
        {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2, "description": "From the one to the other."},
        _NUMERIC,
    ),
    "version": Comparator(
        lambda key, value, operand, tolerance: _in_version(value, operand),
        lambda key, operand: f"a version {operand}",
        {"type": "string", "description": "A version specifier, such as >=2.27,<3."},
        _TEXTUAL,
    ),
}  # fmt: skip


def holds(key: Key, value: Json, tests: Tests, tolerance: float = 0.0) -> bool:
    """Whether a value is as all of the tests want it."""
    return all(COMPARATORS[name].holds(key, value, operand, tolerance) for name, operand in tests.items())


def words(key: Key, tests: Tests) -> str:
    """What the tests want, in words."""
    return " and ".join(COMPARATORS[name].words(key, operand) for name, operand in tests.items())


def satisfiable(key: Key, several: list[Tests]) -> bool:
    """Whether some value could be as all of these want it, as far as finite choices and bounds tell."""
    choices: list[Any] | None = None
    for tests in several:
        listed = [tests["equals"]] if "equals" in tests else tests.get("one_of")
        if listed is not None:
            choices = list(listed) if choices is None else choices
    if choices is not None:
        return any(all(holds(key, choice, tests) for tests in several) for choice in choices)
    least = [t["at_least"] for t in several if "at_least" in t] + [t["range"][0] for t in several if "range" in t]
    most = [t["at_most"] for t in several if "at_most" in t] + [t["range"][1] for t in several if "range" in t]
    return max(least, default=-math.inf) <= min(most, default=math.inf)
