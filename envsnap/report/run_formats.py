"""JSON Schemas of runs: their file, and what the verbs about them print; by the name after `envsnap.`."""

from __future__ import annotations

from envsnap.report.formats import (
    COUNT,
    MAYBE_COMPARISON,
    NEXT,
    NUMBER,
    STRING,
    Schema,
    array,
    by_name,
    document,
    one_of,
    record,
)
from envsnap.report.proof_format import PROOF
from envsnap.runs.metrics import Better
from envsnap.runs.run import STATUSES
from envsnap.workers.propagation import State

_STATUS: Schema = {"enum": list(STATUSES)}
_EXIT_CODE: Schema = {"type": ["integer", "null"], "description": "As a shell says it; null if it never ran."}
_MAYBE_STRING: Schema = {"type": ["string", "null"]}

_METRIC = record(
    {
        "name": STRING,
        "value": {"type": "number", "exclusiveMinimum": 0},
        "unit": STRING,
        "better": one_of(Better),
        "source": {"type": "string", "description": "The tool, file or server that the figure is from."},
        "samples": {**array(NUMBER), "description": "Values of single requests, warm-up left out."},
    }
)
_RECIPE = record(
    {
        "ready": {"type": "string", "description": "Address that told when the server was ready."},
        "ready_seconds": NUMBER,
        "server_url": {"type": "string", "description": "A server that was up already."},
        "keep_server": {"type": "boolean", "description": "One server for all repetitions."},
        "files": {**array(STRING), "description": "Files that figures were read from."},
        "output": {"type": "boolean", "description": "Whether they were read from the benchmark's output."},
        "patterns": {**array(STRING), "description": "As --metric takes them."},
        "prompts": STRING,
        "folder": {"type": "string", "description": "Where the commands were started."},
    }
)
_CELL = record({"state": one_of(State), "value": _MAYBE_STRING, "by": STRING, "why": STRING})
_ROW = record({"name": STRING, "odd": array(STRING), "cells": by_name(_CELL)})

RUN_FORMATS: dict[str, Schema] = {
    "proof": PROOF,
    "run": document(
        "run",
        {
            "id": STRING,
            "group": {"type": "string", "description": "Shared by the repetitions of a session."},
            "label": STRING,
            "arm": {"enum": ["", "a", "b"]},
            "index": COUNT,
            "started_at": {"type": "string", "description": "ISO 8601 in UTC."},
            "seconds": NUMBER,
            "status": _STATUS,
            "reason": {"type": "string", "description": "Why it is not ok."},
            "command": array(STRING),
            "server": array(STRING),
            "exit_code": _EXIT_CODE,
            "added": {**by_name(STRING), "description": "What envsnap added to the environment."},
            "arm_environment": {**by_name(_MAYBE_STRING), "description": "What the arm changed in it; null: removed."},
            "recipe": {
                "anyOf": [_RECIPE, {"type": "null"}],
                "description": "What it takes beside the commands to measure the same again.",
            },
            "metrics": array(_METRIC),
            "request": {"type": "object", "description": "What was asked of the server."},
            "output_probe": {"type": "object", "description": "Hashes of what it answered to fixed prompts, twice."},
            "window": {
                "anyOf": [{**array(NUMBER), "minItems": 2, "maxItems": 2}, {"type": "null"}],
                "description": "The measured part, in seconds since the start.",
            },
            "warnings": array(STRING),
            "costs": by_name(NUMBER),
            "sampled": {"anyOf": [{"$ref": "sections/during.v1.json"}, {"type": "null"}]},
            "snapshots": by_name({"$ref": "snapshot.v1.json"}),
        },
        ("arm_environment", "output_probe", "recipe"),
    ),
    "session": document(
        "session",
        {
            "exit_code": {"type": "integer"},
            "runs": array(
                record(
                    {
                        "id": STRING,
                        "group": STRING,
                        "arm": STRING,
                        "status": _STATUS,
                        "reason": STRING,
                        "exit_code": _EXIT_CODE,
                        "metrics": array(_METRIC),
                        "warnings": array(STRING),
                    }
                )
            ),
            "comparison": MAYBE_COMPARISON,
            "next": NEXT,
        },
    ),
    "log": document(
        "log",
        {
            "runs": array(
                record(
                    {
                        "id": STRING,
                        "group": STRING,
                        "label": STRING,
                        "arm": STRING,
                        "index": COUNT,
                        "started_at": STRING,
                        "seconds": NUMBER,
                        "status": _STATUS,
                        "configuration": STRING,
                        "command": {**array(STRING), "description": "A very long one: its beginning and a hash."},
                        "metrics": array(record({"name": STRING, "value": NUMBER, "unit": STRING})),
                    }
                )
            )
        },
    ),
    "workers": document(
        "workers",
        {
            "processes": array(STRING),
            "parents": by_name(STRING),
            "variables": array(_ROW),
            "attributes": array(_ROW),
        },
    ),
}
