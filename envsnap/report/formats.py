"""JSON Schemas of what the verbs print under `--format json`, by the name after `envsnap.`."""

from __future__ import annotations

from enum import Enum

from envsnap.change import Because
from envsnap.check import Severity, Status
from envsnap.keys import Effect, Kind, Lever, Type
from envsnap.reading import Json, Why
from envsnap.runs.metrics import Better
from envsnap.runs.verdict import Design, Outcome

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


def _one_of(names: type[Enum]) -> Schema:
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
        "required": {"type": "boolean", "description": "Not knowing is no pass."},
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

_MAYBE_NUMBER: Schema = {"type": ["number", "null"]}
_COMPARISON = record(
    {
        "design": _one_of(Design),
        "obstacles": array(_STRING),
        "notes": array(_STRING),
        "metrics": array(
            record(
                {
                    "name": _STRING,
                    "unit": _STRING,
                    "better": _one_of(Better),
                    "a": array(_NUMBER),
                    "b": array(_NUMBER),
                    "verdict": _one_of(Outcome),
                    "suspicious": {"type": "boolean"},
                    "ratio": {"type": "number", "description": "b / a."},
                    "low": _MAYBE_NUMBER,
                    "high": _MAYBE_NUMBER,
                    "rank_p": _MAYBE_NUMBER,
                    "reason": _STRING,
                    "notes": array(_STRING),
                }
            )
        ),
        "split": array(
            record(
                {
                    "term": _STRING,
                    "before": _MAYBE_NUMBER,
                    "after": _MAYBE_NUMBER,
                    "log_change": _NUMBER,
                    "share": _MAYBE_NUMBER,
                }
            )
        ),
    }
)
_MAYBE_COMPARISON: Schema = {"anyOf": [_COMPARISON, {"type": "null"}], "description": "Null without runs."}
_CHANCE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_SUSPECT = record(
    {
        "id": {"type": "string", "description": "Stable id of what moved together."},
        "title": _STRING,
        "probability": _CHANCE,
        "prior": {**_CHANCE, "description": "Probability before any evidence."},
        "mechanism": _STRING,
        "effects": array(_one_of(Effect)),
        "changes": array(record({"path": _STRING, "leaf": _STRING, "fast": _READING, "slow": _READING})),
        "evidence": array(record({"text": _STRING, "log_odds": _NUMBER, "paths": array(_STRING)})),
        "largest_ratio": {**_MAYBE_NUMBER, "description": "Most that it can lengthen a step, slow / fast."},
        "unexplained": {**_MAYBE_NUMBER, "description": "What is left of the slowdown then, as a ratio."},
        "ties_with": array(_STRING),
        "story": {"type": ["string", "null"]},
        "next": _NEXT,
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
            "baseline": {"type": "string", "description": "Empty without one."},
            "policy": {**array(_STRING), "description": "Files of the policy, the one that was named first."},
            "status": _one_of(Status),
            "notes": array(_STRING),
            "findings": array(_FINDING),
            "next": _NEXT,
        },
    ),
    "explain": _document(
        "explain",
        {
            "a": _STRING,
            "b": _STRING,
            "fast": {"enum": ["a", "b"]},
            "headline": _STRING,
            "symptom": record(
                {
                    "slowdown": {**_MAYBE_NUMBER, "description": "Logarithm of the ratio of times, slow / fast."},
                    "terms": _by_name(_NUMBER),
                    "inferred": array(_STRING),
                    "design": _one_of(Design),
                    "outcome": _one_of(Outcome),
                    "control_slowdown": _MAYBE_NUMBER,
                }
            ),
            "runs": _MAYBE_COMPARISON,
            "control": _MAYBE_COMPARISON,
            "suspects": array(_SUSPECT),
            "ruled_out": array(record({"title": _STRING, "reason": _STRING, "paths": array(_STRING)})),
            "mistakes": array(record({"title": _STRING, "advice": _STRING, "paths": array(_STRING), "story": _STRING})),
            "not_comparable": array(
                record({"path": _STRING, "because": _one_of(Because), "only": array(_COUNT), "detail": _STRING})
            ),
            "unrecorded": {"type": "boolean", "description": "The state behind the fast figures is not known."},
            "contamination": array(_STRING),
            "notes": array(_STRING),
            "next": _NEXT,
        },
    ),
    "blame": _document(
        "blame",
        {
            "pattern": _STRING,
            "metric": {"type": ["string", "null"]},
            "paths": array(
                record(
                    {
                        "path": _STRING,
                        "spans": array(
                            record(
                                {
                                    "value": {"type": ["string", "null"], "description": "Signature; null: not known."},
                                    "from": _STRING,
                                    "to": _STRING,
                                    "runs": array(_STRING),
                                    "median": _MAYBE_NUMBER,
                                }
                            )
                        ),
                    }
                )
            ),
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
