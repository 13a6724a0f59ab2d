"""Laws over everything there is: keys, collectors, verbs. A failure names what breaks one."""

from __future__ import annotations

import ast
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from envsnap import cli, collectors
from envsnap.cli._arguments import add_capture
from envsnap.diff import BOOT_ID, HOSTNAME
from envsnap.keys import UNITS, Effect, Key, Kind, Lever, Type, is_path, path_of

KEYS = [key for name in collectors.sections() for key in collectors.collector(name).KEYS]
ROOT = Path(collectors.__file__).parent.parent

NUMBERS = (Type.INTEGER, Type.NUMBER)
QUANTITIES = re.compile(
    r"(_|\A)(memory|swap|clock|frequency|power|energy|temperature|voltage|speed|bandwidth|rate|time|latency|duration|interval|"
    r"timeout|period|age|uptime|size|buffer|utilization|usage)\Z"
)
"""Last words of names that say a quantity without its unit."""


# -- law 1: keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.pattern)
def test_law_a_key_is_well_formed(key: Key) -> None:
    assert is_path(path_of(key.pattern, *["0"] * key.pattern.count("[]"))), "not a path"
    for meaning in (key.meaning, *(at.meaning for at in key.at if at.meaning is not None)):
        assert meaning == meaning.strip(), "meaning has surrounding white space"
        assert meaning.endswith("."), "meaning ends in a period"
        assert "\n" not in meaning
    for advice in (key.advice, *(at.advice for at in key.at if at.advice is not None)):
        assert advice == advice.strip(), "advice has surrounding white space"
    for prior in (key.prior, *(at.prior for at in key.at if at.prior is not None)):
        assert 0 <= prior <= 1
    for effects in (key.effects, *(at.effects for at in key.at if at.effects is not None)):
        assert all(isinstance(effect, Effect) for effect in effects)
        assert len(set(effects)) == len(effects), "an effect twice"
    assert key.rel_tol >= 0
    assert key.abs_tol >= 0


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.pattern)
def test_law_tolerances_and_specialisations_are_where_they_can_act(key: Key) -> None:
    if key.rel_tol or key.abs_tol:
        assert key.type in (*NUMBERS, Type.ANY), "only numbers have a tolerance"
    if key.at:
        assert "[]" in key.pattern, "a key without instances cannot differ by instance"
        for at in key.at:
            assert at.instance, "an empty pattern matches nothing"
            assert set(at.instance).isdisjoint("?["), "only * is special"


@pytest.mark.parametrize("key", [k for k in KEYS if k.lever], ids=lambda key: key.pattern)
def test_law_a_lever_moves_what_can_be_set(key: Key) -> None:
    kinds = {key.kind, *(at.kind for at in key.at if at.kind)}
    settable = {Kind.TUNABLE, Kind.IDENTITY, Kind.CONDITION} | ({Kind.COUNTER} if key.lever is Lever.CACHE else set())
    assert kinds & settable, f"nobody sets a {key.kind.value}"


@pytest.mark.parametrize("key", [k for k in KEYS if k.type in NUMBERS], ids=lambda key: key.pattern)
def test_law_a_number_s_name_ends_in_its_unit(key: Key) -> None:
    assert not QUANTITIES.search(key.name), "in which unit?"


@pytest.mark.parametrize("key", [k for k in KEYS if k.type not in NUMBERS], ids=lambda key: key.pattern)
def test_law_a_unit_is_no_part_of_a_name_that_is_no_number(key: Key) -> None:
    if key.type in (Type.STRING, Type.BOOLEAN):
        assert key.name.rsplit("_", 1)[-1] not in UNITS or "_" not in key.name, "a quantity as text?"


def test_law_patterns_are_unique_and_each_root_has_one_collector() -> None:
    twice = [pattern for pattern, count in Counter(key.pattern for key in KEYS).items() if count > 1]
    assert twice == []
    owners: dict[str, set[str]] = {}
    for name in collectors.sections():
        for key in collectors.collector(name).KEYS:
            owners.setdefault(key.root, set()).add(name)
    assert {root: names for root, names in owners.items() if len(names) > 1} == {}


def test_law_no_pattern_is_another_s_branch() -> None:
    patterns = {key.pattern for key in KEYS}
    clashes = [(p, q) for p in patterns for q in patterns if q.startswith((f"{p}.", f"{p}["))]
    values = {p for p, _ in clashes}
    assert values == set(), "a path would be a value and a branch at once"


def test_what_a_diff_notes_are_labels_that_exist() -> None:
    assert {collectors.key_for(path).kind for path in (HOSTNAME, BOOT_ID)} == {Kind.LABEL}
    assert {HOSTNAME, BOOT_ID} <= set(collectors.keys())


# -- law 2: collectors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", collectors.names())
def test_law_a_collector_has_what_it_needs(name: str) -> None:
    module = collectors.collector(name)
    title = (module.__doc__ or "").split("\n")[0]
    assert title.endswith("."), "the docstring's first line is the section's title"
    assert module.KEYS
    assert module.METHOD
    assert callable(module.collect)
    assert is_path(name), "the section's name stands where a path may"
    assert not hasattr(collectors, name) or getattr(collectors, name) is module, "the package has that name already"
    assert (ROOT.parent / "tests" / "collectors" / f"test_{name}.py").exists(), "no test of its own"


@pytest.mark.parametrize("path", sorted((ROOT / "collectors").glob("*.py")), ids=lambda path: path.name)
def test_law_collectors_touch_the_machine_through_host_alone(path: Path) -> None:
    forbidden = re.compile(
        r"(os|subprocess|psutil|pynvml|shutil|ctypes|fcntl|urllib\.request|http\.client|tempfile|multiprocessing)\b"
    )
    if path.name == "__init__.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module or ""]
        else:
            assert not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open")
            continue
        assert not [name for name in imported if forbidden.match(name)], f"line {node.lineno}"


# -- law 2 for verbs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", cli.verbs())
def test_law_a_verb_has_help_and_an_example_that_parses(name: str) -> None:
    module = cli.module_of(name)
    doc = module.__doc__ or ""
    assert doc.split("\n")[0].endswith("."), "the docstring's first line is the help text"
    words = shlex.split(module.EXAMPLE)
    assert words[:2] == ["envsnap", name]
    args = cli.parser().parse_args(words[1:])
    assert args.module is module
    assert callable(module.run)
    for action in cli.parser(name)._subparsers._group_actions[0].choices[name]._actions:  # type: ignore[union-attr,index]
        assert action.help, f"{'/'.join(action.option_strings) or action.dest} has no help"


@pytest.mark.parametrize("name", cli.verbs())
def test_law_a_verb_that_captures_is_supervised(name: str) -> None:
    source = Path(cli.module_of(name).__file__).read_text()
    if add_capture.__name__ in source:
        assert hasattr(cli.module_of(name), "limit")


def test_help_shows_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert [name for name in cli.verbs() if f"\n    {name}" not in out] == []


def test_one_verb_is_imported_alone() -> None:
    subparsers = cli.parser("key")._subparsers
    assert subparsers is not None
    assert list(subparsers._group_actions[0].choices or ()) == ["key"]
