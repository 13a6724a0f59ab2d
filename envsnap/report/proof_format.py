"""JSON Schema of what a search came to."""

from __future__ import annotations

from envsnap.report.formats import NUMBER, STRING, Schema, array, by_name, document, record
from envsnap.runs.run import STATUSES

_PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1}

PROOF: Schema = document(
    "proof",
    {
        "id": {"type": "string", "description": "The search's name in .envsnap/prove."},
        "fast": STRING,
        "slow": STRING,
        "outcome": {"enum": ["confirmed", "not_reproducible", "none", "unsettled", "budget", "failing"]},
        "reason": STRING,
        "metric": {"type": "string", "description": "What the search went by."},
        "culprits": array(
            record(
                {
                    "suspect": STRING,
                    "title": STRING,
                    "probability": _PROBABILITY,
                    "ratio": {"type": "number", "description": "Slow over fast, as times; low and high at 95 %."},
                    "low": NUMBER,
                    "high": NUMBER,
                    "fraction": {"type": "number", "description": "Its part of the whole gap, in logarithms."},
                    "only_with": {"type": "string", "description": "A suspect without which it does nothing."},
                }
            )
        ),
        "suspects": array(
            record(
                {
                    "suspect": STRING,
                    "title": STRING,
                    "status": {"enum": ["culprit", "ruled_out", "open", "without_effect"]},
                    "probability": _PROBABILITY,
                    "reason": STRING,
                }
            )
        ),
        "manual": array(record({"suspect": STRING, "title": STRING, "reason": STRING, "advice": STRING})),
        "trials": array(
            record(
                {
                    "run": {"type": "string", "description": "Its id in the store."},
                    "purpose": {"enum": ["gate", "search", "necessity", "sufficiency"]},
                    "suspect": STRING,
                    "reverted": {**array(STRING), "description": "Suspects that were as the fast side had them."},
                    "status": {"enum": [*STATUSES, "without_effect"]},
                    "reason": STRING,
                    "value": {"type": ["number", "null"]},
                    "seconds": NUMBER,
                }
            )
        ),
        "reproduce": {**by_name(STRING), "description": "Shell commands of either side."},
    },
)
