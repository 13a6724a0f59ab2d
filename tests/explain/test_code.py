"""The parts of reach: patches, edits of syntax trees, conditions, what ran."""

from __future__ import annotations

import ast
import random
import textwrap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.collectors._git_patch import Side, file_patch
from envsnap.explain import Side as Of
from envsnap.explain.code import hunks
from envsnap.explain.code.conditions import NotKnown, State, registry, truth
from envsnap.explain.code.edits import Edit, Where, edits, parsed
from envsnap.explain.code.ran import Ran
from envsnap.explain.code.syntax import fingerprint
from envsnap.explain.code.tree_files import Role, role_of, tuned_for
from envsnap.explain.story import Facts
from envsnap.reading import Json
from tests.explain.pairs import run, snapshot

# -- patches ------------------------------------------------------------------------------------------------------

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", " d", "-x", "+y", "@@ -1 +1 @@"]), max_size=30).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(TEXTS, TEXTS)
def test_a_patch_makes_of_the_old_text_the_new_one(old: str, new: str) -> None:
    made = file_patch("a b.py", Side("100644", "1" * 40, old.encode()), Side("100644", "2" * 40, new.encode()))
    found = hunks.read(made.text)
    if old == new:
        return
    assert list(found) == ["a b.py"]
    assert found["a b.py"].applied(old) == new
    lines = new.split("\n")
    for hunk in found["a b.py"].hunks:
        assert {n: lines[n - 1] for n in hunk.added} == hunk.added


@given(TEXTS.filter(bool))
def test_a_new_and_a_deleted_file(text: str) -> None:
    made = hunks.read(file_patch('ä/"q".py', None, Side("100644", "2" * 40, text.encode())).text)
    assert [(f.path, f.added, f.applied("")) for f in made.values()] == [('ä/"q".py', True, text)]
    gone = hunks.read(file_patch("x.py", Side("100644", "1" * 40, text.encode()), None).text)
    assert gone["x.py"].deleted


def test_a_patch_that_does_not_fit_its_base() -> None:
    made = file_patch("x", Side("100644", "1" * 40, b"a\nb\nc\n"), Side("100644", "2" * 40, b"a\nB\nc\n"))
    assert hunks.read(made.text)["x"].applied("a\n") is None


@given(st.text(alphabet='@ -+,0123456789\nabdifgt/"\\', max_size=200))
def test_nothing_in_a_patch_makes_reading_it_fail(text: str) -> None:
    for patch in hunks.read(f"diff --git a/x b/x\n{text}").values():
        patch.applied("a\nb\n")
        [(h.added, h.removed, h.spans) for h in patch.hunks]


# -- edits --------------------------------------------------------------------------------------------------------


def differing(old: str, new: str) -> list[Edit]:
    before, after = parsed(textwrap.dedent(old)), parsed(textwrap.dedent(new))
    assert before
    assert after
    return edits(before, after)


def shown(found: list[Edit]) -> list[tuple[str, str, list[str], list[str]]]:
    return [
        (
            e.function,
            e.where.value,
            [ast.unparse(s) for s in e.old.statements],
            [ast.unparse(s) for s in e.new.statements],
        )
        for e in found
    ]


def test_only_the_statement_that_changed() -> None:
    old = """
        def f(x):
            for i in range(3):
                if x:
                    a(i)
                    b(i)
            return x
    """
    assert shown(differing(old, old.replace("b(i)", "c(i)"))) == [("f", "body", ["b(i)"], ["c(i)"])]
    [edit] = differing(old, old.replace("b(i)", "c(i)"))
    assert [(ast.unparse(g.test), g.truth) for g in edit.new.guards] == [("x", True)]


def test_functions_that_moved_are_the_same() -> None:
    old = "def f():\n    return 1\n\ndef g():\n    return 2\n\nclass C:\n    def m(self):\n        return 3\n"
    parts = [part for part in old.split("\n\n") if part]
    assert differing(old, "\n\n".join(reversed(parts)) + "\n") == []


def test_exception_handlers_and_cases_count() -> None:
    old = "def f():\n    try:\n        a()\n    except ValueError:\n        b()\n"
    [edit] = differing(old, old.replace("ValueError", "KeyError"))
    assert isinstance(edit.new.statements[0], ast.Try)
    old = "def f(x):\n    match x:\n        case 1:\n            a()\n"
    assert len(differing(old, old.replace("case 1", "case 2"))) == 1


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("def f(x): pass", "def f(x, y=1): pass", Where.SIGNATURE),
        ("class C: pass", "class C(B): pass", Where.SIGNATURE),
        ("class C:\n    x: int = 1", "class C:\n    x: int = 2", Where.IMPORT),
        ("X = 1", "X = 2", Where.IMPORT),
        ("def f():\n    return 1", "def f():\n    return 2", Where.BODY),
    ],
)
def test_when_an_edit_takes_effect(old: str, new: str, where: Where) -> None:
    assert [e.where for e in differing(old, new)] == [where]


def test_what_stands_after_an_early_exit_is_guarded_by_it() -> None:
    old = "def f(x):\n    if x is None:\n        return 0\n    return 1\n"
    [edit] = differing(old, old.replace("return 1", "return 2"))
    assert [(ast.unparse(g.test), g.truth) for g in edit.new.guards] == [("x is None", False)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_any_two_versions_of_real_code_can_be_compared(seed: int) -> None:
    """Lines of a real module are dropped and doubled at random; what is still Python is compared both ways."""
    import inspect

    source = inspect.getsource(textwrap)
    chance = random.Random(seed)
    lines = [line for line in source.split("\n") for _ in range(chance.choice([1] * 30 + [0, 2]))]
    one, two = parsed(source), parsed("\n".join(lines))
    assert one
    assert edits(one, one) == []
    if two is not None:
        there, back = edits(one, two), edits(two, one)
        assert bool(there) == bool(back) == (fingerprint(one.tree) != fingerprint(two.tree))


@pytest.mark.parametrize("text", ["def f(:", "\0", "x" * 10 + " ('" * 400, "(" * 100_000])
def test_what_is_no_python(text: str) -> None:
    assert parsed(text) is None


# -- conditions ---------------------------------------------------------------------------------------------------

VARIABLES = {"ON": "1", "OFF": "0", "WORD": "triton", "EMPTY": ""}
ARGUMENTS: dict[str, Json] = {"fast": True, "slow": False, "backend": "fa3", "size": 8, "none": None}


def known_variable(name: str) -> str | None:
    if name == "UNKNOWN":
        raise NotKnown
    return VARIABLES.get(name)


def known_argument(name: str) -> Json:
    if name not in ARGUMENTS:
        raise NotKnown
    return ARGUMENTS[name]


def judged(test: str, module: str = "") -> bool | None:
    tree = ast.parse(f"{module}\n{test}")
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    declared = registry(ast.parse("class E:\n    DECLARED = EnvBool(True)\n    SET = EnvInt(3)\n"))
    return truth(last.value, [tree], State(known_variable, known_argument, declared))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("os.environ.get('ON') == '1'", True),
        ("os.environ.get('ABSENT', '1') == '1'", True),
        ("os.environ.get('ABSENT')", False),
        ("os.environ.get('UNKNOWN')", None),
        ("os.environ['WORD'].upper() == 'TRITON'", True),
        ("bool(int(os.getenv('OFF', '1')))", False),
        ("get_bool_env_var('ON')", True),
        ("get_bool_env_var('EMPTY', 'true')", False),
        ("utils.get_int_env_var('ABSENT', 0) > 0", False),
        ("envs.DECLARED.get()", True),
        ("envs.SET.get() == 3", True),
        ("envs.NOT_DECLARED.get()", None),
        ("server_args.fast", True),
        ("self.server_args.slow", False),
        ("get_global_server_args().backend in ('fa3', 'fa4')", True),
        ("global_server_args_dict['size'] >= 8", True),
        ("server_args.none is None", True),
        ("server_args.whatever", None),
        ("getattr(server_args, 'slow', True)", False),
        ("anything() and False", False),
        ("anything() or True", True),
        ("anything() or False", None),
        ("not (anything() and server_args.slow)", True),
        ("1 if server_args.slow else 0", False),
        ("TYPE_CHECKING", False),
        ("x.y.z", None),
        ("int(os.environ['WORD'])", None),
        ("'a' < 1", None),
    ],
)
def test_a_condition(test: str, expected: bool | None) -> None:
    assert judged(test) is expected


def test_a_name_that_is_given_once() -> None:
    assert judged("FLAG", "import os\nFLAG = os.getenv('OFF') == '1'") is False
    assert judged("FLAG", "FLAG = False\nFLAG = compute()") is None
    assert judged("FLAG", "FLAG = False\ndef f():\n    global FLAG\n    FLAG = True") is None
    assert judged("FLAG", "FLAG = False\ndef f():\n    FLAG = True") is False
    assert judged("A", "A = B\nB = A") is None


# -- what ran -----------------------------------------------------------------------------------------------------


def record(serving: tuple[float, float], **more: Any) -> dict[str, Json]:
    windows = {
        "start_up": {"from": 0, "to": serving[0], "complete": True},
        "serving": {"from": serving[0], "to": serving[1], "complete": True},
    }
    workers = {"scheduler_TP0": {"state": "arrived", "reason": "", "windows": windows}}
    return {"record.code_reach": {"files": {"/r/a.py": {"serving": [[1, 3]]}}, "workers": workers}, **more}


AT = 1_767_225_600.0  # 2026-01-01, when runs made up here start


@pytest.mark.parametrize(
    ("serving", "why"),
    [
        ((AT - 10, AT + 30), ""),
        ((AT - 60, AT - 5), "for 0% of the measurement"),
        ((AT + 10, AT + 30), "for 50% of the measurement"),
    ],
)
def test_a_window_has_to_cover_the_measurement(serving: tuple[float, float], why: str) -> None:
    from dataclasses import replace

    one = replace(run(record(serving), tpot_seconds=0.01), window=(0.0, 20.0))
    assert Ran(Facts(Of.of_runs([one]))).why.startswith(why and f"scheduler_TP0 was watched {why}")


def test_a_record_that_is_only_touched_covers_what_followed() -> None:
    """Nothing new ran since it was written, and it was renewed two seconds before the capture."""
    values = record((AT - 60, AT - 58), **{"record[scheduler_TP0].age_seconds": 2.0})
    assert Ran(Facts(Of(snapshot(values)))).why == ""
    assert "for 2 s of serving alone" in Ran(Facts(Of(snapshot(record((AT - 60, AT - 58)))))).why


def test_the_latest_record_of_a_run_counts() -> None:
    from dataclasses import replace

    one = replace(run(record((AT - 60, AT - 5)), tpot_seconds=0.01), window=(0.0, 20.0))
    later = replace(one, snapshots={**one.snapshots, "after": snapshot(record((AT - 60, AT + 21)))})
    assert Ran(Facts(Of.of_runs([one]))).why != ""
    assert Ran(Facts(Of.of_runs([later]))).why == ""


@pytest.mark.parametrize(
    "value", [None, [], "x", {"files": 3}, {"workers": {"a": []}}, {"files": {"a": {"serving": [[1], 2]}}}]
)
def test_a_record_of_any_form(value: Json) -> None:
    ran = Ran(Facts(Of(snapshot({"record.code_reach": value}))))
    assert ran.why
    assert ran.imported("/r", "b.py") is None


# -- files by name ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("python/sglang/srt/layers/moe/topk.py", Role.PYTHON),
        ("python/sglang/bench_serving.py", Role.CLIENT),
        ("benchmark/latency.py", Role.CLIENT),
        ("test/srt/test_eagle.py", Role.TEST),
        ("docs/index.rst", Role.DOCUMENT),
        (".github/workflows/pr.yml", Role.AUTOMATION),
        ("python/pyproject.toml", Role.AUTOMATION),
        ("sgl-kernel/csrc/allreduce/custom.cuh", Role.KERNEL),
        ("build/ops.cpython-312-x86_64-linux-gnu.so", Role.LIBRARY),
        ("configs/E=8,N=1,device_name=NVIDIA_H200.json", Role.TUNING),
        ("python/sglang/srt/model_config.json", Role.OTHER),
        ("python/sglang/srt/contest.py", Role.PYTHON),
    ],
)
def test_what_a_file_is(path: str, role: Role) -> None:
    assert role_of(path) is role


def test_what_a_table_is_tuned_for() -> None:
    assert tuned_for("c/E=8,N=1,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json") == "NVIDIA H100 80GB HBM3"
