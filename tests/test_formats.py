"""Law: every verb that tells a result tells it under --format json too, in a document that its schema accepts."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envsnap import cli
from envsnap.schema import violations
from envsnap.store import Store
from tests.test_store import make_run

NO_RESULT = {"completion": "a script", "schema": "JSON in itself"}
"""Verbs that print nothing that needs another form."""

ELSEWHERE = {"prove": "tests/prove/test_verb.py"}
"""Verbs whose documents are made and validated by tests of their own: a search takes a while."""

DOCUMENTS: dict[str, list[tuple[str, str]]] = {
    "blame": [("blame kernel.release --all", "blame")],
    "capture": [("capture --only kernel -o new.json", "summary")],
    "check": [
        ("check a.json --baseline b.json", "check"),
        ("check a.json --policy good.toml", "check"),
        ("check --explain", "rules"),
        ("check --explain gpu_busy", "rules"),
    ],
    "demo": [("demo", "demonstration")],
    "doctor": [("doctor", "doctor")],
    "diff": [("diff a.json b.json", "diff"), ("diff first second", "diff")],
    "explain": [("explain first second", "explain")],
    "import": [("import smi.txt -o imported.json", "import"), ("import --list", "import_kinds")],
    "key": [("key kernel.release", "keys")],
    "log": [("log", "log")],
    "policy": [
        ("policy from a.json -o made.toml", "policy_made"),
        ("policy from a.json", "policy_made"),
        ("policy check good.toml bad.toml", "policies"),
    ],
    "probe": [("probe --only cpu", "probe")],
    "record": [("record machine", "recording")],
    "report": [("report first second -o two.html", "page"), ("report a.json", "page")],
    "rm": [("rm gone", "removed")],
    "run": [("run --no-record -- true", "session")],
    "share": [("share a.json -o public.json", "shared")],
    "show": [("show a.json", "readings"), ("show first", "readings")],
    "validate": [("validate a.json b.json", "validation")],
    "workers": [("workers workers.json", "workers")],
}
"""Lines in the folder that the fixture makes, and the format of what each prints."""

LINES = [(line, name) for lines in DOCUMENTS.values() for line, name in lines]


def envsnap(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    command, dashes, benchmark = line.partition(" -- ")
    words = [*command.split(), "--format", "json", *(["--", *benchmark.split()] if dashes else [])]
    return subprocess.run(
        [sys.executable, "-m", "envsnap", *words],
        cwd=folder, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    for name, sections in (("a", "kernel"), ("b", "kernel,os"), ("workers", "worker")):
        pid = ("--pid", str(os.getpid())) if name == "workers" else ()
        command = [sys.executable, "-m", "envsnap", "capture", "-q", "-o", f"{name}.json", "--only", sections, *pid]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=200)
    for day, label in enumerate(("first", "second", "gone"), 1):
        for index in range(2):
            started = f"2026-01-0{day}T00:00:0{index}.000+00:00"
            Store(folder).save(make_run(f"g{day}-{index}", f"g{day}", label, started))
    (folder / "good.toml").write_text("[require]\n'os.architecture' = { present = true }\n")
    (folder / "bad.toml").write_text("[require]\n'os.architecure' = 'x'\n")
    shutil.copy(Path(__file__).parent / "data/h200x2/smi.txt", folder)
    return folder


@pytest.mark.parametrize(("line", "name"), LINES, ids=[line for line, _ in LINES])
def test_what_a_verb_tells_is_a_document_that_validates(folder: Path, line: str, name: str) -> None:
    done = envsnap(folder, line)
    document: Any = json.loads(done.stdout)
    assert document["format"] == f"envsnap.{name}", done.stderr
    assert violations(document) == []
    assert done.returncode in ((2,) if "bad.toml" in line else (0, 1, 3))


def test_law_no_verb_is_left_out() -> None:
    assert {*DOCUMENTS, *ELSEWHERE, *NO_RESULT} == set(cli.verbs())
    for file in ELSEWHERE.values():
        text = (Path(__file__).parents[1] / file).read_text()
        assert "violations(" in text
        assert '"--format", "json"' in text


@pytest.mark.parametrize("verb", sorted(set(cli.verbs()) - NO_RESULT.keys()))
def test_law_a_verb_takes_format_json(verb: str) -> None:
    parser = cli.parser(verb)
    # What is below a verb (policy from, policy check) takes it for itself.
    leaves = [p for p in _parsers(parser) if not any(isinstance(a, argparse._SubParsersAction) for a in p._actions)]
    assert leaves
    for leaf in leaves:
        formats = [a.choices for a in leaf._actions if "--format" in a.option_strings]
        assert [list(f or ())[:2] for f in formats] == [["text", "json"]], leaf.prog


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return [parser, *(p for action in below for inner in action.choices.values() for p in _parsers(inner))]


def test_a_name_that_is_not_known_removes_nothing(folder: Path) -> None:
    done = envsnap(folder, "rm first nonsense")
    assert (done.returncode, json.loads(done.stdout)["format"]) == (2, "envsnap.error")
    assert {e.label for e in Store(folder).entries()} >= {"first", "second"}


def test_one_stream_holds_one_document(folder: Path) -> None:
    done = envsnap(folder, "share a.json -o -")
    assert (done.returncode, json.loads(done.stdout)["format"]) == (2, "envsnap.error")
