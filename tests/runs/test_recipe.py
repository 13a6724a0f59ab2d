"""What it takes to repeat a run: kept with it, and given back as a command, without secrets."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from envsnap.cli import parser
from envsnap.runs.plan import Plan
from envsnap.runs.recipe import MISSING_SECRET, Recipe, how, prove_command
from envsnap.runs.run import parse
from envsnap.runs.sources import Wanted, pattern_of
from envsnap.schema import violations
from tests.runs.sessions import SERVER, ask, python, run, serve
from tests.test_store import make_run


def taken(line: str) -> tuple[Any, list[str]]:
    """What `prove` understands of a line, and the benchmark behind it."""
    words = shlex.split(line)
    at = words.index("--")
    return parser("prove").parse_args(words[1:at]), words[at + 1 :]


def test_a_run_tells_how_it_was_measured_and_the_command_reads_back_as_it_was(tmp_path: Path, port: int) -> None:
    metric = r"speed[tok/s,lower]=speed: (\S+)"
    plan = Plan(ask(port), metrics=Wanted(patterns=(pattern_of(metric),)), **serve(port))
    outcome, _ = run(tmp_path, plan)
    document = json.loads(json.dumps(outcome.runs[0].as_json()))
    assert violations(document) == []
    done = parse(document, "it")
    command = prove_command(done, "fast", "slow", only=["argument:x"], store="/somewhere")
    args, benchmark = taken(shlex.join(command))
    assert (args.fast, args.slow, args.only, args.store) == ("fast", "slow", ["argument:x"], "/somewhere")
    assert shlex.split(args.server) == [sys.executable, str(SERVER), str(port)]
    assert (args.ready, args.ready_timeout) == (plan.ready, plan.ready_seconds)
    assert (args.metrics, args.metric) == ([], [metric])
    assert tuple(benchmark) == plan.benchmark


def test_files_output_and_what_begins_with_a_dash() -> None:
    recipe = Recipe(files=("a b.jsonl", "-odd"), output=True, patterns=("x=json:a.b",))
    made = parse({**make_run("a-000", "a").as_json(), "recipe": recipe.as_json()}, "it")
    args, _ = taken(shlex.join(prove_command(made, "A", "B")))
    assert args.metrics == ["a b.jsonl", "-odd", "-"]
    assert args.metric == ["x=json:a.b"]
    assert args.server == args.ready == ""


def test_where_a_secret_was_the_command_says_so_and_holds_no_hash(tmp_path: Path, port: int) -> None:
    secret = "hunter2hunter2hunter2"
    plan = Plan(
        (*python("print('speed: 1')"), "--api-key", secret),
        metrics=Wanted(output=True, files=(f"http://user:{secret}@x/out",)),
        **serve(port, server=(sys.executable, str(SERVER), str(port), "0", f"--api-key={secret}")),
    )
    outcome, _ = run(tmp_path, plan)
    line = shlex.join(prove_command(outcome.runs[0], "fast", "slow"))
    assert secret not in json.dumps(outcome.runs[0].as_json())
    assert secret not in line
    assert "redacted" not in line
    args, benchmark = taken(line)
    assert benchmark[-2:] == ["--api-key", MISSING_SECRET]
    assert shlex.split(args.server)[-1] == f"--api-key={MISSING_SECRET}"
    assert args.metrics == [f"http://user:{MISSING_SECRET}@x/out", "-"]


def test_a_run_of_before_gives_what_it_knows() -> None:
    document = make_run("a-000", "a").as_json()
    del document["recipe"]
    old = parse(document, "it")
    assert old.recipe is None
    assert how(old) == ("--", "bench", "-n", "3")


@pytest.mark.parametrize(
    "text", [r"a=(\d)", "a[ms]=(x)", "a[,lower]=(x)", "a[tok/s,neither]=json:a.0.b", "speed=x=(y)=z"]
)
def test_a_pattern_is_told_as_it_was_given(text: str) -> None:
    assert pattern_of(str(pattern_of(text))) == pattern_of(text)
    assert str(pattern_of(text)) == text
