"""The verbs around runs, as processes: run, show, validate, log, diff, rm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envsnap.schema import violations

BENCHMARK = "import sys; print('speed:', 94.5); print('warming up', file=sys.stderr)"


def envsnap(folder: Path, *arguments: str, code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "envsnap", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs of the label `first`."""
    folder = tmp_path_factory.mktemp("verbs")
    (folder / "bench.py").write_text(BENCHMARK)
    metric = r"speed[tok/s]=speed: (\S+)"
    envsnap(folder, "run", "--label", "first", "-n", "2", "--metric", metric, "--", sys.executable, "bench.py")
    return folder


def test_json_has_standard_output_for_itself(folder: Path) -> None:
    command = ("run", "--format", "json", "--no-record", "--metric", r"speed=speed: (\S+)")
    done = envsnap(folder, *command, "--", sys.executable, "bench.py")
    document = json.loads(done.stdout)
    assert violations(document) == []
    assert document["runs"][0]["metrics"][0]["value"] == 94.5
    assert "speed: 94.5" in done.stderr
    assert "warming up" in done.stderr
    done = envsnap(folder, "run", "--format", "json", "--", sys.executable, "bench.py")
    assert json.loads(done.stdout)["exit_code"] == 0
    assert "speed: 94.5" in done.stderr


def test_text_leaves_standard_output_to_the_benchmark(folder: Path) -> None:
    done = envsnap(folder, "run", "-n", "2", "--metric", r"speed=speed: (\S+)", "--", sys.executable, "bench.py")
    assert done.stdout == "speed: 94.5\n" * 2
    assert "run 1 of 2" in done.stderr
    assert "2 of 2 runs ok" in done.stderr
    assert "speed" in done.stderr


def test_show_a_run_by_its_label_by_its_id_and_as_a_file(folder: Path) -> None:
    shown = envsnap(folder, "show", "first").stdout
    assert shown.count("94.5 tok/s") == 2
    assert "benchmark.out" in shown
    assert "script_sha256" in shown
    assert "kernel.release" in shown
    runs = json.loads(envsnap(folder, "log", "--label", "first", "--format", "json").stdout)["runs"]
    by_id = envsnap(folder, "show", runs[0]["id"], "kernel.release").stdout
    assert "kernel.release" in by_id
    assert "94.5" not in by_id
    file = folder / ".envsnap" / "runs" / f"{runs[0]['id']}.json.gz"
    assert "94.5 tok/s" in envsnap(folder, "show", str(file)).stdout


def test_what_is_written_is_valid(folder: Path) -> None:
    files = [str(f) for f in (folder / ".envsnap" / "runs").glob("*.json.gz") if ".samples." not in f.name]
    assert files
    envsnap(folder, "validate", *files)
    for arguments in (("log", "--format", "json"), ("diff", "first", "last", "--format", "json")):
        done = subprocess.run(
            [sys.executable, "-m", "envsnap", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        assert violations(json.loads(done.stdout)) == [], arguments


def test_a_run_without_content_leaves_no_folder(folder: Path) -> None:
    done = envsnap(folder, "run", "--no-record", "--format", "json", "--", sys.executable, "-c", "pass")
    (run,) = json.loads(done.stdout)["runs"]
    assert not (folder / ".envsnap" / "runs" / run["id"]).exists()


def test_remove(folder: Path) -> None:
    envsnap(folder, "run", "--label", "gone", "--", sys.executable, "bench.py")
    assert "removed 1 run" in envsnap(folder, "rm", "gone").stdout
    envsnap(folder, "show", "gone", code=2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--server", "x", "--", "true"), "--ready"),
        (("--server", "x", "--ready", "http://127.0.0.1:1", "--server-url", "http://127.0.0.1:1", "--", "true"), "one"),
        (("--server-url", "http://127.0.0.1:1", "--", "true"), "No server answers"),
        (("--probe-output", "--", "true"), "needs a server"),
        (("--probe-output", "99", "--", "true"), "from 1 to"),
        (("--prompts", "nothing", "--", "true"), "Cannot read the prompts"),
        (("--a", "X=1", "--", "true"), "go together"),
        (("-n", "0", "--", "true"), "above zero"),
        (("--metric", "x", "--", "true"), "NAME=REGEX"),
        ((), "no benchmark"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    assert says in envsnap(tmp_path, "run", *arguments, code=2).stderr


def test_a_revision_is_unpacked_aside_and_its_tree_is_removed(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "lib").mkdir()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for speed in (10, 20):
        (tmp_path / "lib" / "engine.py").write_text(f"SPEED = {speed}\n")
        git("add", "lib")
        git("commit", "-q", "-m", f"speed {speed}")
    (tmp_path / "lib" / "engine.py").write_text("SPEED = 30\n")
    code = (
        "import os, sys; sys.path[:0] = os.environ['PYTHONPATH'].split(':')\n"
        "from lib import engine; print('speed:', engine.SPEED)"
    )
    command = ("run", "--a", "git:HEAD~1", "--b", "git:HEAD", "--metric", r"speed=speed: (\S+)", "--format", "json")
    done = envsnap(
        tmp_path, *command, "--", sys.executable, "-I", "-c", code, env={**os.environ, "TMPDIR": str(scratch)}
    )
    document = json.loads(done.stdout)
    assert {r["arm"]: r["metrics"][0]["value"] for r in document["runs"]} == {"a": 10, "b": 20}
    assert list(scratch.iterdir()) == []
    assert (tmp_path / "lib" / "engine.py").read_text() == "SPEED = 30\n"
    envsnap(tmp_path, "run", "--a", "git:nonsense", "--b", "git:HEAD", "--", "true", code=2)
