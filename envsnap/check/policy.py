"""Policy: what a launch script requires of a machine. Its types, and the one declaration of its form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envsnap.check.builtin import SEVERITIES, Setting
from envsnap.check.comparators import COMPARATORS, Schema, Tests
from envsnap.check.facts import ERROR, WARNING
from envsnap.check.selectors import Selector
from envsnap.check.waivers import Waiver
from envsnap.reading import Json

GPUS, RANKS = "gpus", "ranks"

Pattern = tuple[str, ...]
"""Alternatives in which `*` stands for anything."""


@dataclass(frozen=True)
class Condition:
    """When a requirement applies: all that is given has to hold. `tensor_parallel` is tests of a number."""

    gpu: Pattern = ()
    model: Pattern = ()
    tensor_parallel: tuple[tuple[str, Json], ...] = ()


@dataclass(frozen=True)
class Requirement:
    """One requirement on the paths that a selector means."""

    selector: Selector
    tests: Tests = field(default_factory=dict)
    """What a value has to be; any test implies that there is one."""
    present: bool = False
    absent: bool = False
    same_across: str = ""
    same_as_baseline: bool = False
    tolerance: float = 0.0
    """Relative, for `equals`, `one_of` and `same_as_baseline`; 0 leaves it to the key."""
    severity: str = ERROR
    reason: str = ""
    waiver: Waiver | None = None
    applies_when: tuple[Condition, ...] = ()
    origin: str = ""
    """The file that it stands in."""

    @property
    def place(self) -> tuple[str, tuple[Condition, ...]]:
        """What a later requirement replaces: that on the same key, under the same conditions."""
        return self.selector.text, self.applies_when


@dataclass(frozen=True)
class Policy:
    """Requirements, and what becomes of the built-in rules. `files` it was read from, the first one asked for."""

    requirements: tuple[Requirement, ...] = ()
    rules: Mapping[str, Setting] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    @property
    def needs_baseline(self) -> bool:
        """Whether some requirement compares with a baseline."""
        return any(r.same_as_baseline for r in self.requirements)


class PolicyError(Exception):
    """What is wrong with a policy, one sentence each."""

    def __init__(self, violations: list[str]) -> None:
        more = f" And {len(violations) - 5} more." if len(violations) > 5 else ""
        super().__init__(" ".join(violations[:5]) + more)
        self.violations = violations


# -- its form ---------------------------------------------------------------------------------------------------


def _table(fields: Schema, required: tuple[str, ...] = (), description: str = "") -> Schema:
    about = {"description": description} if description else {}
    return {"type": "object", **about, "properties": fields, "required": list(required), "additionalProperties": False}


def _by_name(values: Schema, description: str) -> Schema:
    return {"type": "object", "description": description, "additionalProperties": values}


_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_SEVERITY: Schema = {"enum": [ERROR, WARNING], "description": "What it counts as where it does not hold."}
_WAIVER = _table(
    {
        "note": {**_TEXT, "description": "Why it may rest."},
        "owner": {**_TEXT, "description": "Who answers for that."},
        "until": {**_TEXT, "format": "date", "description": "The last day on which the waiver holds."},
    },
    ("note", "owner", "until"),
    "Lets it not hold until a date.",
)
_CONDITION = _table(
    {
        "gpu": {**_TEXTS, "description": "Name of a GPU in use; * stands for anything."},
        "model": {**_TEXTS, "description": "Model that the launch command names; * stands for anything."},
        "tensor_parallel": {
            "anyOf": [_COUNT, _table({"at_least": _COUNT, "at_most": _COUNT})],
            "description": "Tensor-parallel size of the launch command.",
        },
    },
    description="When it applies; all that is given has to hold.",
)
_REQUIREMENT = _table(
    {
        **{name: comparator.schema for name, comparator in COMPARATORS.items()},
        "present": {"const": True, "description": "There is a value."},
        "absent": {"const": True, "description": "There is none."},
        "same_across": {"enum": [GPUS, RANKS], "description": "The same for all GPUs, or for all ranks."},
        "same_as_baseline": {"const": True, "description": "As in the snapshot that --baseline names."},
        "tolerance": {
            "type": "number",
            "minimum": 0,
            "description": "Relative difference that counts as the same, as in 0.05.",
        },
        "severity": _SEVERITY,
        "reason": {**_TEXT, "description": "Why it is required; shown where it does not hold."},
        "waiver": _WAIVER,
        "applies_when": _CONDITION,
    },
    description="What is required of every path that the key means.",
)
_REQUIRED: Schema = {
    "anyOf": [
        {"type": ["string", "number", "boolean"], "description": "Short for equals."},
        _REQUIREMENT,
        {"type": "array", "items": _REQUIREMENT, "minItems": 1},
    ]
}
_RULE: Schema = {
    "anyOf": [
        {"enum": list(SEVERITIES)},
        _table({"severity": {"enum": list(SEVERITIES)}, "waiver": _WAIVER, "reason": _TEXT}),
    ]
}
_REQUIRE = _by_name(_REQUIRED, "Key or pattern ([] and * stand for any instance) -> what is required of it.")
_RULES = _by_name(_RULE, "Code of a built-in rule -> whether it is off, a warning or an error.")
_PROFILE = _table(
    {"require": _REQUIRE, "rules": _RULES, "applies_when": _CONDITION},
    description="What is required beside or instead of the rest.",
)
SCHEMA = _table(
    {
        "version": {"const": 1, "description": "Version of this form."},
        "description": _TEXT,
        "include": {"type": "array", "items": _TEXT, "description": "Policies that it builds on, by path from it."},
        "require": _REQUIRE,
        "rules": _RULES,
        "profiles": _by_name(_PROFILE, "Name -> requirements that --profile NAME, or their condition, adds."),
    },
    description="What a launch script requires of a machine (envsnap.toml).",
)  # fmt: skip
