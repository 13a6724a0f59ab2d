"""JSON Schema of what a search came to."""

from __future__ import annotations

from envsnap.report.formats import NUMBER, STRING, Schema, array, by_name, document, record
from envsnap.runs.run import STATUSES

_PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1}

_CULPRITS: Schema = array(
    record(
        {
            "suspect": STRING,
            "title": STRING,
            "probability": _PROBABILITY,
            "ratio": {"type": "number", "description": "Slow over fast, as times; low and high at 95 %."},
            "low": NUMBER,
            "high": NUMBER,
            "fraction": {"type": "number", "description": "Its part of the gap that was searched, in logarithms."},
            "only_with": {
                "type": "string",
                "description": "A suspect without which it does nothing; 'others': one that was not found.",
            },
        }
    )
)
_OUTCOME: Schema = {"enum": ["confirmed", "not_reproducible", "none", "unsettled", "budget", "failing"]}
_MEMBER: dict[str, Schema] = {"suspect": STRING, "title": STRING, "probability": _PROBABILITY}

PROOF: Schema = document(
    "proof",
    {
        "id": {"type": "string", "description": "The search's name in .envsnap/prove."},
        "fast": STRING,
        "slow": STRING,
        "outcome": _OUTCOME,
        "reason": STRING,
        "metric": {"type": "string", "description": "What the search went by."},
        "culprits": _CULPRITS,
        "suspects": array(
            record(
                {**_MEMBER, "status": {"enum": ["culprit", "ruled_out", "open", "without_effect"]}, "reason": STRING}
            )
        ),
        "parts": {
            **array(
                record(
                    {
                        "of": {"type": "string", "description": "The culprit whose parts were searched."},
                        "outcome": _OUTCOME,
                        "reason": STRING,
                        "culprits": _CULPRITS,
                        "suspects": array(record({**_MEMBER, "status": {"enum": ["culprit", "ruled_out", "open"]}})),
                    }
                )
            ),
            "description": "Commits of a guilty repository, what was not committed, and hunks of either.",
        },
        "manual": array(record({"suspect": STRING, "title": STRING, "reason": STRING, "advice": STRING})),
        "notes": {**array(STRING), "description": "What else was noticed: what was not checked, what was left over."},
        "trials": array(
            record(
                {
                    "run": {"type": "string", "description": "Its id in the store; empty where it was not built."},
                    "within": {"type": "string", "description": "The culprit among whose parts it is; empty: none."},
                    "purpose": {"enum": ["gate", "search", "necessity", "sufficiency", "level"]},
                    "suspect": STRING,
                    "reverted": {**array(STRING), "description": "Suspects that were as the fast side had them."},
                    "status": {"enum": [*STATUSES, "without_effect", "not_built"]},
                    "reason": STRING,
                    "value": {"type": ["number", "null"]},
                    "seconds": NUMBER,
                }
            )
        ),
        "reproduce": {**by_name(STRING), "description": "Shell commands of either side."},
    },
)
