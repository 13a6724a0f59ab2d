"""JSON Schemas of what `envsnap import` prints, as in formats.py."""

from __future__ import annotations

from envsnap.report.formats import COUNT, STRING, array, by_name, document, record
from envsnap.runs.metrics import Better

_SOURCE = record(
    {
        "file": STRING,
        "kind": {"type": "string", "description": "Kind of dump: the name of its importer."},
        "tool": STRING,
        "version": STRING,
        "date": {"type": "string", "description": "The dump's own date, as it stands there."},
        "first_line": COUNT,
        "last_line": COUNT,
        "lines": {**COUNT, "description": "Lines of it that say anything."},
        "not_understood": COUNT,
        "readings": COUNT,
        "dropped": {**COUNT, "description": "Values without a key, or that cannot be trusted."},
        "figures": COUNT,
        "notes": array(STRING),
    }
)
_METRIC = record(
    {
        "name": STRING,
        "value": {"type": "number"},
        "unit": STRING,
        "better": {"enum": [b.value for b in Better]},
        "source": STRING,
        "samples": array({"type": "number"}),
    }
)

IMPORT_FORMATS = {
    "import": document(
        "import",
        {
            "captured_at": STRING,
            "readings": COUNT,
            "disputed": {**by_name(STRING), "description": "Paths on which the dumps disagree, and how."},
            "lines": COUNT,
            "not_understood": COUNT,
            "sources": array(_SOURCE),
            "runs": array(array(_METRIC)),
            "unknown": array(record({"file": STRING, "line": COUNT, "text": STRING})),
            "written": array(STRING),
        },
    ),
    "import_kinds": document(
        "import_kinds",
        {"kinds": array(record({"name": STRING, "tool": STRING, "seen": STRING, "untested": STRING}))},
    ),
}
