"""JSON Schemas of what the verbs print under `--format json`, by the name after `envsnap.`."""

from __future__ import annotations

from envsnap.change import Because
from envsnap.check import Severity, Status
from envsnap.keys import Effect, Kind, Lever, Type
from envsnap.reading import Json, Why

Schema = dict[str, Json]


def record(fields: Schema, optional: tuple[str, ...] = ()) -> Schema:
    """An object with these fields and no others; all are there but the optional ones."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def array(items: Schema) -> Schema:
    """A list of such items."""
    return {"type": "array", "items": items}


def _by_name(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _one_of(names: type[Kind] | type[Why] | type[Status] | type[Severity] | type[Because] | type[Effect]) -> Schema:
    return {"enum": [name.value for name in names]}


def _document(name: str, fields: Schema) -> Schema:
    return record({"format": {"const": f"envsnap.{name}"}, "version": {"const": 1}, **fields})


_STRING: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_NEXT: Schema = {**array(array(_STRING)), "description": "Commands to go on with, as argument arrays."}

_READING: Schema = {
    "description": "One outcome: a value, long text by its size, or why there is no value.",
    "anyOf": [
        record({"value": {}, "unit": _STRING}, ("unit",)),
        record({"text": record({"lines": _COUNT, "bytes": _COUNT})}),
        record({"unavailable": _one_of(Why), "detail": _STRING, "unit": _STRING}, ("unit",)),
        record({"error": _STRING, "unit": _STRING}, ("unit",)),
        record({"unset": {"const": True}}),
        record({"unknown": {"const": True}}),
    ],
}
_SIDE = record(
    {"name": _STRING, "captured_at": _STRING, "moment": _STRING, "envsnap": _STRING, "configuration": _STRING}
)

_CHANGE = record(
    {
        "path": {"type": "string", "description": "Stable id of the reading."},
        "leaf": {"type": "string", "description": "Place below the path where a structured value differs."},
        "kind": _one_of(Kind),
        "effects": array(_one_of(Effect)),
        "prior": _NUMBER,
        "before": _READING,
        "after": _READING,
    }
)
_NOT_COMPARED = record(
    {
        "path": {"type": "string", "description": "A path, a branch or a section."},
        "because": _one_of(Because),
        "before": {"anyOf": [_READING, {"type": "null"}], "description": "Null where a branch or section was read."},
        "after": {"anyOf": [_READING, {"type": "null"}]},
        "only": {**array(_COUNT), "description": "Values that only the one and the other side hold here."},
        "settled": {"type": "boolean", "description": "There is nothing to read on either side."},
        "detail": _STRING,
    }
)
_FINDING = record(
    {
        "code": {"type": "string", "description": "Stable id of the requirement's kind."},
        "status": _one_of(Status),
        "severity": _one_of(Severity),
        "title": _STRING,
        "evidence": array(_STRING),
        "advice": _STRING,
    }
)
_SECTION = record(
    {
        "status": _STRING,
        "reason": _STRING,
        "readings": _COUNT,
        "unavailable": _by_name(_COUNT),
        "errors": _COUNT,
        "seconds": _NUMBER,
    }
)
_KEY = record(
    {
        "key": _STRING,
        "type": {"enum": [kind.value for kind in Type]},
        "unit": _STRING,
        "kind": _one_of(Kind),
        "meaning": _STRING,
        "effects": array(_one_of(Effect)),
        "prior": _NUMBER,
        "lever": {"enum": [*(lever.value for lever in Lever), None]},
        "advice": _STRING,
        "instances": array({"type": "object"}),
        "section": _STRING,
        "method": _STRING,
    }
)

FORMATS: dict[str, Schema] = {
    "diff": _document(
        "diff",
        {
            "a": _SIDE,
            "b": _SIDE,
            "equal": _COUNT,
            "unknown": _COUNT,
            "left_out": _by_name(_COUNT),
            "notes": array(_STRING),
            "changes": array(_CHANGE),
            "not_compared": array(_NOT_COMPARED),
            "next": _NEXT,
        },
    ),
    "check": _document(
        "check",
        {
            "snapshot": _STRING,
            "baseline": _STRING,
            "status": _one_of(Status),
            "notes": array(_STRING),
            "findings": array(_FINDING),
            "next": _NEXT,
        },
    ),
    "summary": _document(
        "summary",
        {
            "file": _STRING,
            "captured_at": _STRING,
            "configuration": _STRING,
            "readings": _COUNT,
            "sections": _by_name(_SECTION),
            "cost": _by_name(_NUMBER),
            "redaction": {"type": "object"},
            "next": _NEXT,
        },
    ),
    "readings": _document("readings", {"name": _STRING, "captured_at": _STRING, "readings": _by_name(_READING)}),
    "keys": _document("keys", {"keys": array(_KEY)}),
    "validation": _document(
        "validation",
        {"files": array(record({"name": _STRING, "valid": {"type": "boolean"}, "violations": array(_STRING)}))},
    ),
    "error": _document("error", {"error": _STRING, "next": array(_STRING)}),
}
