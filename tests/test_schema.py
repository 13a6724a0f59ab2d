from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from envsnap import schema
from envsnap.capture import capture
from envsnap.collectors import keys, sections
from envsnap.keys import is_path, path_of
from envsnap.schema import FORMATS, violations
from envsnap.snapshot import dumps
from tests.fakes import FakeHost
from tests.probe import denied, snapshot

COMMITTED = Path(__file__).parent.parent / "schemas"


def test_law_the_committed_schemas_are_those_that_are_generated() -> None:
    committed = {str(p.relative_to(COMMITTED)): p.read_text() for p in COMMITTED.rglob("*.json")}
    generated = {name: schema.dumps(document) for name, document in schema.documents().items()}
    assert sorted(committed) == sorted(generated)
    stale = [name for name in generated if committed[name] != generated[name]]
    assert stale == [], "envsnap schema --write schemas"


def test_every_schema_is_one() -> None:
    for document in (*schema.documents().values(), schema.bundle()):
        Draft202012Validator.check_schema(document)


def test_the_bundle_validates_by_itself() -> None:
    taken = json.loads(dumps(capture(host=FakeHost(), only=["kernel"])))
    validator = Draft202012Validator(schema.bundle())
    assert not list(validator.iter_errors(taken))
    taken["sections"]["kernel"]["values"]["kernel.release"] = 5
    assert [e.json_path for e in validator.iter_errors(taken)] == ["$.sections.kernel.values['kernel.release']"]


def test_writing_removes_the_fragments_of_sections_that_are_gone(tmp_path: Path) -> None:
    schema.write(tmp_path)
    (tmp_path / "sections" / "gone.v1.json").write_text("{}")
    (tmp_path / "sections" / "mine.txt").write_text("kept")
    written = schema.write(tmp_path)
    there = {p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()}
    assert there == {p.relative_to(tmp_path) for p in written} | {Path("sections/mine.txt")}
    assert len(written) == len(("snapshot", "policy")) + len(sections()) + len(FORMATS)


@pytest.mark.usefixtures("probe_keys")
def test_a_reading_s_schema_is_its_key_s_declaration() -> None:
    values: Any = schema.documents()["sections/probe.v1.json"]["properties"]["values"]
    assert values["properties"]["probe.limit_watts"] == {
        "type": "integer",
        "description": "Power the probe may draw.",
        "x-key": "probe.limit_watts",
        "x-type": "integer",
        "x-kind": "tunable",
        "x-prior": 0.2,
        "x-unit": "W",
        "x-effects": ["compute"],
        "x-lever": "root",
        "x-advice": "Raise it.",
    }


@pytest.mark.usefixtures("probe_keys")
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"probe.limit_watts": "x"}, "/sections/probe/values/probe.limit_watts: 'x' is not of type 'integer'"),
        ({"probe.limit_watts": True}, "True is not of type 'integer'"),
        ({"probe.flags": [1]}, "/sections/probe/values/probe.flags[0]: 1 is not of type 'string'"),
        ({"card[0].limit_watts": None}, "None is not of type 'integer'"),
        ({"card[0].news": 1}, "/sections/probe/values: nothing is declared for card[0].news"),
        ({f"probe.x{i}": 1 for i in range(5)}, "nothing is declared for probe.x0, probe.x1, probe.x2 and 2 more"),
        ({"probe.model": ["x" * 1000]}, "xxx…"),
    ],
)
def test_what_breaks_a_declaration_is_found(values: dict[str, Any], sentence: str) -> None:
    (found,) = violations(json.loads(dumps(snapshot(values))))
    assert sentence in found
    assert len(found) < 260


@pytest.mark.usefixtures("probe_keys")
def test_what_holds_is_not_complained_about() -> None:
    held = snapshot(
        {'role["a b"].env[NCCL_X]': "1", "card[0000:01:00.0].link[3].speed_gts": 32, "probe.arguments": {"x": None}},
        unavailable={"card[1]": denied("no")},
        errors={"probe.model": "boom"},
    )
    assert violations(json.loads(dumps(held))) == []


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "It is no JSON object."),
        ({}, "This envsnap knows no format None of version None."),
        (
            {"format": "envsnap.snapshot", "version": 99},
            "This envsnap knows no format 'envsnap.snapshot' of version 99.",
        ),
        ({"format": "envsnap.sections/kernel", "version": 1}, "This envsnap knows no format"),
    ],
)
def test_documents_of_no_known_format(document: Any, sentence: str) -> None:
    assert violations(document)[0].startswith(sentence)


def test_the_patterns_of_every_section_take_their_paths_and_no_others() -> None:
    for pattern in keys():
        regex = re.compile(schema._regex(pattern))
        count = pattern.count("[]")
        for instance in ("0", "a b", 'q"]\\', "0000:01:00.0", "\x1b"):
            path = path_of(pattern, *[instance] * count)
            assert is_path(path)
            assert regex.search(path), path
            assert not regex.search(path + "x")
            assert not regex.search("x" + path)
