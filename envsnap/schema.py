"""JSON Schema (2020-12) of what envsnap writes, generated from the keys.

One fragment per collector says what its section may hold; the snapshot's root refers to all of them. A reading
carries its key's declaration: `description` is the meaning, `x-kind`, `x-unit`, `x-effects`, `x-prior`, `x-lever`.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

from envsnap.check.policy import SCHEMA as POLICY
from envsnap.collectors import collector, sections
from envsnap.keys import Key, Type
from envsnap.reading import Json, Why
from envsnap.report import formats
from envsnap.report.done import DONE_FORMATS
from envsnap.report.formats import array, record
from envsnap.report.import_formats import IMPORT_FORMATS
from envsnap.report.run_formats import RUN_FORMATS
from envsnap.snapshot import FORMAT, STATUSES, VERSION

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FORMATS = {**formats.FORMATS, **RUN_FORMATS, **DONE_FORMATS, **IMPORT_FORMATS}
ROOT = f"snapshot.v{VERSION}.json"

_TYPES: dict[Type, dict[str, Json]] = {
    Type.STRING: {"type": "string"},
    Type.TEXT: {"type": "string"},
    Type.INTEGER: {"type": "integer"},
    Type.NUMBER: {"type": "number"},
    Type.BOOLEAN: {"type": "boolean"},
    Type.STRINGS: array({"type": "string"}),
    Type.INTEGERS: array({"type": "integer"}),
    Type.OBJECT: {"type": "object"},
    Type.ANY: {"not": {"type": "null"}},
}

_INSTANCE = r'\[(?:"(?:[^"\\]|\\.)+"|[A-Za-z0-9_.:/@+-]+)\]'


def documents() -> dict[str, dict[str, Json]]:
    """Every schema by its file's name below `schemas/`."""
    found = {ROOT: _snapshot()}
    found |= {_fragment_name(name): _section(name) for name in sections()}
    found |= {f"{name}.v1.json": _titled(f"envsnap.{name}", schema) for name, schema in FORMATS.items()}
    found["policy.v1.json"] = _titled("envsnap.policy", POLICY)
    return found


def bundle() -> dict[str, Json]:
    """The snapshot's schema as one self-contained document, its fragments embedded."""
    fragments = {
        name: {"$id": name, **_section(section)} for section in sections() for name in [_fragment_name(section)]
    }
    return {**_snapshot(), "$defs": fragments}


def write(folder: Path) -> list[Path]:
    """Write every schema below `folder`, remove the fragments of sections that are gone. Raises: OSError."""
    written = []
    for name, document in documents().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dumps(document))
        written.append(path)
    for path in (folder / "sections").glob("*.json"):
        if path not in written:
            path.unlink()
    return written


def dumps(document: Json) -> str:
    """A schema as it stands in its file."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def violations(document: Json, at_most: int = 10) -> list[str]:
    """One sentence for each way in which a document breaks the schema of its format, the first few of them."""
    from jsonschema import Draft202012Validator
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    if not isinstance(document, dict):
        return ["It is no JSON object."]
    written_as, version = document.get("format"), document.get("version")
    root = f"{str(written_as).removeprefix('envsnap.')}.v{version}.json"
    known = documents()
    if "/" in root or root not in known:
        return [f"This envsnap knows no format {written_as!r} of version {version!r}."]
    resources = ((uri, DRAFT202012.create_resource(content)) for uri, content in known.items())
    registry: Registry[Any] = Registry().with_resources(resources)
    errors = Draft202012Validator({"$ref": root}, registry=registry).iter_errors(document)
    return [_sentence(error) for error in islice(errors, at_most)]


def _sentence(error: Any) -> str:
    where = "".join(f"[{step}]" if isinstance(step, int) else f"/{step}" for step in error.absolute_path) or "/"
    if error.validator == "additionalProperties":
        # NOTE: jsonschema's own text lists every pattern of the section.
        known = set(error.schema.get("properties", ()))
        patterns = [re.compile(p) for p in error.schema.get("patternProperties", ())]
        unknown = [n for n in error.instance if n not in known and not any(p.search(n) for p in patterns)]
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        return f"{where}: nothing is declared for {', '.join(unknown[:3])}{more}"
    text = " ".join(str(error.message).split())
    return f"{where}: {text if len(text) <= 200 else text[:199] + '…'}"


def _fragment_name(section: str) -> str:
    return f"sections/{section}.v{VERSION}.json"


def _titled(title: str, schema: dict[str, Json]) -> dict[str, Json]:
    return {"$schema": DIALECT, "title": title, **schema}


def _snapshot() -> dict[str, Json]:
    return _titled(
        FORMAT,
        record(
            {
                "format": {"const": FORMAT},
                "version": {"const": VERSION},
                "envsnap": {"type": "string", "description": "Version of envsnap that wrote it."},
                "captured_at": {"type": "string", "description": "Moment of capture, ISO 8601 in UTC."},
                "moment": {"type": "string", "description": "Standalone, or before, during or after a benchmark."},
                "note": {"type": "string", "description": "What the user wanted to keep with it."},
                "scope": {"type": "object", "description": "Processes, repositories and models that were named."},
                "via": {"type": "object", "description": "How another machine was reached, and what answered there."},
                "cost": {"type": "object", "additionalProperties": {"type": "number"}},
                "redaction": {"type": "object", "description": "What was done to secrets."},
                "hash": record({"content": {"type": "string"}, "configuration": {"type": "string"}}),
                "sections": {
                    "type": "object",
                    "properties": {name: {"$ref": _fragment_name(name)} for name in sections()},
                    "additionalProperties": False,
                },
            },
            optional=("via",),
        ),
    )


def _section(name: str) -> dict[str, Json]:
    module = collector(name)
    reason = record({"why": {"enum": [why.value for why in Why]}, "detail": {"type": "string"}})
    plain = {key.pattern: _key(key) for key in module.KEYS if "[]" not in key.pattern}
    instances = {_regex(key.pattern): _key(key) for key in module.KEYS if "[]" in key.pattern}
    section = record(
        {
            "status": {"enum": list(STATUSES)},
            "reason": {"type": "string"},
            "complete": {"type": "boolean", "description": "A path that is not held is unset."},
            "seconds": {"type": "number", "minimum": 0},
            "method": {"type": "string"},
            "values": {
                "type": "object",
                "properties": plain,
                "patternProperties": instances,
                "additionalProperties": False,
            },
            "unavailable": {"type": "object", "additionalProperties": reason},
            "errors": {"type": "object", "additionalProperties": {"type": "string"}},
        }
    )
    return {**_titled(name, section), "description": (module.__doc__ or "").split("\n")[0]}


def _regex(pattern: str) -> str:
    return f"^{_INSTANCE.join(re.escape(part) for part in pattern.split('[]'))}$"


def _key(key: Key) -> dict[str, Json]:
    schema: dict[str, Json] = {**_TYPES[key.type], "description": key.meaning, "x-key": key.pattern}
    schema |= {"x-type": key.type.value, "x-kind": key.kind.value, "x-prior": key.prior}
    if key.unit:
        schema["x-unit"] = key.unit
    if key.effects:
        schema["x-effects"] = [effect.value for effect in key.effects]
    if key.lever:
        schema["x-lever"] = key.lever.value
    if key.advice:
        schema["x-advice"] = key.advice
    return schema
