"""What one run had, as conditions in source code ask for it: variables of the computing processes, server arguments."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial

from envsnap.explain.code.conditions import NotKnown, State
from envsnap.explain.ranks import ranks
from envsnap.explain.setting import resolved_arguments, typed_arguments
from envsnap.explain.story import Facts
from envsnap.keys import path_of
from envsnap.reading import Json, Unset, Value


def state_of(facts: Facts, defaults: Mapping[str, ast.expr]) -> State:
    """The state of a side; `defaults` as the engine's source declares its variables."""
    roles = ranks(facts)
    resolved = resolved_arguments(facts.snapshot)
    typed = {} if resolved else typed_arguments(facts.snapshot)
    return State(partial(_variable, facts, roles), partial(_argument, resolved, typed), defaults)


def _variable(facts: Facts, roles: tuple[str, ...], name: str) -> str | None:
    """Raises: NotKnown where some computing process's is not known, or where they differ."""
    found = {_in_worker(facts, role, name) for role in roles}
    if len(found) != 1:
        raise NotKnown
    return found.pop()


def _in_worker(facts: Facts, role: str, name: str) -> str | None:
    for pattern in ("worker[].env[]", "record[].env[]"):
        reading = facts.reading(path_of(pattern, role, name))
        if isinstance(reading, Value) and "<redacted" not in str(reading.value):
            return str(reading.value)
        if isinstance(reading, Unset) and pattern.startswith("worker"):
            return None
    raise NotKnown


def _argument(resolved: Mapping[str, Json], typed: Mapping[str, Json], name: str) -> Json:
    """Raises: NotKnown where only typed arguments are known, and this is none of them: its default is not."""
    if resolved:
        return resolved.get(name)  # one that is null is not told
    if name not in typed:
        raise NotKnown
    value = typed[name]
    if isinstance(value, str):
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value.lstrip("-").isdecimal():
            return int(value)
    return value
