"""JSON Schemas of what the verbs print under `--format json`, by the name after `envsnap.`."""

from __future__ import annotations

from enum import Enum

from envsnap.change import Because
from envsnap.check import Severity, Status
from envsnap.keys import Effect, Kind, Lever, Type
from envsnap.probe.judge import Standing
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


def by_name(values: Schema) -> Schema:
    """An object whose fields may have any name."""
    return {"type": "object", "additionalProperties": values}


def one_of(names: type[Enum]) -> Schema:
    """One of the values of an enumeration."""
    return {"enum": [name.value for name in names]}


def document(name: str, fields: Schema, optional: tuple[str, ...] = ()) -> Schema:
    """A whole document of a format."""
    return record({"format": {"const": f"envsnap.{name}"}, "version": {"const": 1}, **fields}, optional)


STRING: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
NEXT: Schema = {**array(array(STRING)), "description": "Commands to go on with, as argument arrays."}

_READING: Schema = {
    "description": "One outcome: a value, long text by its size, or why there is no value.",
    "anyOf": [
        record({"value": {}, "unit": STRING}, ("unit",)),
        record({"text": record({"lines": COUNT, "bytes": COUNT})}),
        record({"unavailable": one_of(Why), "detail": STRING, "unit": STRING}, ("unit",)),
        record({"error": STRING, "unit": STRING}, ("unit",)),
        record({"unset": {"const": True}}),
        record({"unknown": {"const": True}}),
    ],
}
_SIDE = record({"name": STRING, "captured_at": STRING, "moment": STRING, "envsnap": STRING, "configuration": STRING})

_CHANGE = record(
    {
        "path": {"type": "string", "description": "Stable id of the reading."},
        "leaf": {"type": "string", "description": "Place below the path where a structured value differs."},
        "kind": one_of(Kind),
        "effects": array(one_of(Effect)),
        "prior": NUMBER,
        "before": _READING,
        "after": _READING,
    }
)
_NOT_COMPARED = record(
    {
        "path": {"type": "string", "description": "A path, a branch or a section."},
        "because": one_of(Because),
        "before": {"anyOf": [_READING, {"type": "null"}], "description": "Null where a branch or section was read."},
        "after": {"anyOf": [_READING, {"type": "null"}]},
        "only": {**array(COUNT), "description": "Values that only the one and the other side hold here."},
        "settled": {"type": "boolean", "description": "There is nothing to read on either side."},
        "detail": STRING,
    }
)
_FINDING = record(
    {
        "code": {"type": "string", "description": "Stable id of the requirement's kind."},
        "status": one_of(Status),
        "severity": one_of(Severity),
        "required": {"type": "boolean", "description": "Not knowing is no pass."},
        "title": STRING,
        "evidence": array(STRING),
        "advice": STRING,
    }
)
_SECTION = record(
    {
        "status": STRING,
        "reason": STRING,
        "readings": COUNT,
        "unavailable": by_name(COUNT),
        "errors": COUNT,
        "seconds": NUMBER,
    }
)
_KEY = record(
    {
        "key": STRING,
        "type": {"enum": [kind.value for kind in Type]},
        "unit": STRING,
        "kind": one_of(Kind),
        "meaning": STRING,
        "effects": array(one_of(Effect)),
        "prior": NUMBER,
        "lever": {"enum": [*(lever.value for lever in Lever), None]},
        "advice": STRING,
        "instances": array({"type": "object"}),
        "section": STRING,
        "method": STRING,
    }
)

MAYBE_NUMBER: Schema = {"type": ["number", "null"]}
COMPARISON = record(
    {
        "design": one_of(Design),
        "obstacles": array(STRING),
        "notes": array(STRING),
        "metrics": array(
            record(
                {
                    "name": STRING,
                    "unit": STRING,
                    "better": one_of(Better),
                    "a": array(NUMBER),
                    "b": array(NUMBER),
                    "verdict": one_of(Outcome),
                    "suspicious": {"type": "boolean"},
                    "ratio": {"type": "number", "description": "b / a."},
                    "low": MAYBE_NUMBER,
                    "high": MAYBE_NUMBER,
                    "rank_p": MAYBE_NUMBER,
                    "reason": STRING,
                    "notes": array(STRING),
                }
            )
        ),
        "split": array(
            record(
                {
                    "term": STRING,
                    "before": MAYBE_NUMBER,
                    "after": MAYBE_NUMBER,
                    "log_change": NUMBER,
                    "share": MAYBE_NUMBER,
                }
            )
        ),
    }
)
MAYBE_COMPARISON: Schema = {"anyOf": [COMPARISON, {"type": "null"}], "description": "Null without runs."}
_FIGURE = record(
    {
        "name": STRING,
        "unit": STRING,
        "better": one_of(Better),
        "median": MAYBE_NUMBER,
        "spread_percent": {**MAYBE_NUMBER, "description": "Largest less smallest repetition, of the median."},
        "values": {**array({"type": "number", "exclusiveMinimum": 0}), "description": "One for each repetition."},
        "method": {"type": "string", "description": "Figures of another method cannot be compared."},
        "unavailable": {"type": "string", "description": "Why it could not be measured; empty: it was."},
    }
)
_COMPARED_FIGURE = record(
    {
        "name": STRING,
        "standing": one_of(Standing),
        "reason": STRING,
        "before": MAYBE_NUMBER,
        "now": MAYBE_NUMBER,
        "ratio": {**MAYBE_NUMBER, "description": "now / before."},
        "low": MAYBE_NUMBER,
        "high": MAYBE_NUMBER,
    }
)
_CHANCE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_SUSPECT = record(
    {
        "id": {"type": "string", "description": "Stable id of what moved together."},
        "title": STRING,
        "probability": _CHANCE,
        "prior": {**_CHANCE, "description": "Probability before any evidence."},
        "mechanism": STRING,
        "effects": array(one_of(Effect)),
        "changes": array(record({"path": STRING, "leaf": STRING, "fast": _READING, "slow": _READING})),
        "evidence": array(record({"text": STRING, "log_odds": NUMBER, "paths": array(STRING)})),
        "largest_ratio": {**MAYBE_NUMBER, "description": "Most that it can lengthen a step, slow / fast."},
        "unexplained": {**MAYBE_NUMBER, "description": "What is left of the slowdown then, as a ratio."},
        "ties_with": array(STRING),
        "story": {"type": ["string", "null"]},
        "next": NEXT,
    }
)

_SUMMARY = document(
    "summary",
    {
        "file": STRING,
        "via": {"type": "object", "description": "How another machine was reached; absent for this one."},
        "captured_at": STRING,
        "configuration": STRING,
        "readings": COUNT,
        "sections": by_name(_SECTION),
        "cost": by_name(NUMBER),
        "redaction": {"type": "object"},
        "next": NEXT,
    },
    optional=("via",),
)

FORMATS: dict[str, Schema] = {
    "diff": document(
        "diff",
        {
            "a": _SIDE,
            "b": _SIDE,
            "equal": COUNT,
            "unknown": COUNT,
            "left_out": by_name(COUNT),
            "notes": array(STRING),
            "changes": array(_CHANGE),
            "not_compared": array(_NOT_COMPARED),
            "next": NEXT,
            "runs": {**COMPARISON, "description": "What was measured, where both sides are runs."},
        },
        ("runs",),
    ),
    "check": document(
        "check",
        {
            "snapshot": STRING,
            "baseline": {"type": "string", "description": "Empty without one."},
            "policy": {**array(STRING), "description": "Files of the policy, the one that was named first."},
            "status": one_of(Status),
            "notes": array(STRING),
            "findings": array(_FINDING),
            "next": NEXT,
        },
    ),
    "probe": document(
        "probe",
        {
            "envsnap": {"type": "string", "description": "Version that measured."},
            "started_at": {"type": "string", "description": "ISO 8601 in UTC."},
            "seconds": NUMBER,
            "torch": {"type": "string", "description": "Its version; empty where no GPU was measured."},
            "gpus": {**array(COUNT), "description": "NVML's indices of the GPUs that were measured."},
            "notes": array(STRING),
            "figures": array(_FIGURE),
            "baselines": array(STRING),
            "compared": array(_COMPARED_FIGURE),
            "next": NEXT,
        },
    ),
    "explain": document(
        "explain",
        {
            "a": STRING,
            "b": STRING,
            "fast": {"enum": ["a", "b"]},
            "headline": STRING,
            "symptom": record(
                {
                    "slowdown": {**MAYBE_NUMBER, "description": "Logarithm of the ratio of times, slow / fast."},
                    "terms": by_name(NUMBER),
                    "inferred": array(STRING),
                    "design": one_of(Design),
                    "outcome": one_of(Outcome),
                    "control_slowdown": MAYBE_NUMBER,
                }
            ),
            "runs": MAYBE_COMPARISON,
            "control": MAYBE_COMPARISON,
            "suspects": array(_SUSPECT),
            "ruled_out": array(record({"title": STRING, "reason": STRING, "paths": array(STRING)})),
            "mistakes": array(record({"title": STRING, "advice": STRING, "paths": array(STRING), "story": STRING})),
            "not_comparable": array(
                record({"path": STRING, "because": one_of(Because), "only": array(COUNT), "detail": STRING})
            ),
            "unrecorded": {"type": "boolean", "description": "The state behind the fast figures is not known."},
            "contamination": array(STRING),
            "notes": array(STRING),
            "next": NEXT,
        },
    ),
    "blame": document(
        "blame",
        {
            "pattern": STRING,
            "metric": {"type": ["string", "null"]},
            "paths": array(
                record(
                    {
                        "path": STRING,
                        "spans": array(
                            record(
                                {
                                    "value": {"type": ["string", "null"], "description": "Signature; null: not known."},
                                    "from": STRING,
                                    "to": STRING,
                                    "runs": array(STRING),
                                    "median": MAYBE_NUMBER,
                                }
                            )
                        ),
                    }
                )
            ),
        },
    ),
    "summary": _SUMMARY,
    "summaries": document("summaries", {"summaries": array(_SUMMARY), "troubles": array(STRING)}),
    "readings": document("readings", {"name": STRING, "captured_at": STRING, "readings": by_name(_READING)}),
    "keys": document("keys", {"keys": array(_KEY)}),
    "validation": document(
        "validation",
        {"files": array(record({"name": STRING, "valid": {"type": "boolean"}, "violations": array(STRING)}))},
    ),
    "error": document("error", {"error": STRING, "next": array(STRING)}),
}
