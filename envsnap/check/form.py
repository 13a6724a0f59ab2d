"""Whether a document has the form that a schema declares: one sentence for each way in which it has not.

Knows the part of JSON Schema that the policy's declaration uses. The whole validator takes longer to import than a
check may, and its sentences speak of schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

from envsnap.check.comparators import Schema
from envsnap.reading import Json

_TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "object": ("a table", dict),
    "array": ("a list", list),
    "string": ("text", (str, date)),
    "number": ("a number", (int, float)),
    "integer": ("a whole number", int),
    "boolean": ("true or false", bool),
}


def violations(value: Json, schema: Schema, where: str = "") -> Iterator[str]:
    """Sentences, in the order of the document."""
    alternatives = schema.get("anyOf")
    if alternatives:
        fitting = [a for a in alternatives if _is_of_type(value, a)]
        if not fitting:
            yield f"{where or 'It'} has to be {' or '.join(dict.fromkeys(map(_expected, alternatives)))}."
            return
        yield from violations(value, fitting[0], where)
        return
    if not _is_of_type(value, schema):
        yield f"{where or 'It'} has to be {_expected(schema)}."
        return
    if isinstance(value, dict):
        yield from _fields(value, schema, where)
    elif isinstance(value, list):
        yield from _items(value, schema, where)
    elif "minimum" in schema and value < schema["minimum"]:
        yield f"{where} has to be at least {schema['minimum']}."
    elif schema.get("format") == "date" and as_date(value) is None:
        yield f"{where} has to be a date such as 2026-12-31."


def as_date(value: Any) -> date | None:
    """A date from TOML, or from its text."""
    if isinstance(value, date):
        return date(value.year, value.month, value.day)  # a moment with a time of day counts as its day
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def _fields(value: dict[str, Json], schema: Schema, where: str) -> Iterator[str]:
    fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where or 'It'} lacks {name}."
    for name, item in value.items():
        inner = f"{where}.{_step(name)}" if where else _step(name)
        if name in fields:
            yield from violations(item, fields[name], inner)
        elif others is False:
            yield f"{where or 'It'} has no field {name}{_did_you_mean(name, list(fields))}"
        else:
            yield from violations(item, others, inner)


def _items(value: list[Json], schema: Schema, where: str) -> Iterator[str]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not least <= len(value) <= most:
        yield f"{where} has to have {least}{f' to {most}' if most != least and 'maxItems' in schema else ''}" + (
            " or more entries." if "maxItems" not in schema else " entries."
        )
    for number, item in enumerate(value):
        yield from violations(item, schema.get("items", {}), f"{where}[{number}]")


def _is_of_type(value: Json, schema: Schema) -> bool:
    if "const" in schema:
        return type(value) is type(schema["const"]) and bool(value == schema["const"])
    if "enum" in schema:
        return value in schema["enum"]
    if "anyOf" in schema:
        return any(_is_of_type(value, a) for a in schema["anyOf"])
    names = schema.get("type", [])
    return not names or any(_is_a(value, name) for name in ([names] if isinstance(names, str) else names))


def _is_a(value: Json, name: str) -> bool:
    return isinstance(value, _TYPES[name][1]) and (name == "boolean" or not isinstance(value, bool))


def _expected(schema: Schema) -> str:
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if "anyOf" in schema:
        return " or ".join(map(_expected, schema["anyOf"]))
    names = schema["type"]
    return " or ".join(_TYPES[name][0] for name in ([names] if isinstance(names, str) else names))


def _step(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name, ensure_ascii=False)


def _did_you_mean(word: str, choices: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, choices, n=1)
    return f"; did you mean {close[0]}?" if close else f" (it can have {', '.join(choices)})."
