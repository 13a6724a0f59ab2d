"""Reach: real repositories, recorded by the collector; what ran is given line by line."""

from __future__ import annotations

import hashlib
import math
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.diff import diff
from envsnap.explain import Side
from envsnap.explain.code import ran
from envsnap.explain.reach import FileReach, RepositoryReach, Verdict, repositories
from envsnap.explain.stories import code_that_ran
from envsnap.explain.story import Clue, Facts, View
from envsnap.explain.symptom import Symptom
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.host import LiveHost
from envsnap.reading import Json
from envsnap.scope import Scope
from tests.collectors.git_repo import Repo, isolate, section
from tests.explain.pairs import snapshot
from tests.integrations.recording import QUICK, environment, run

MODULE = """\
import os

LIMIT = 4


def attend(q, k):
    scores = q * k
    if scores > LIMIT:
        return clip(scores)
    return scores


def clip(scores):
    return LIMIT


def unused(x):
    return x + 1
"""
"""Lines: attend 6 to 10, clip 13 and 14, unused 17 and 18."""

START = 1_767_225_600.0  # 2026-01-01
SERVED = {"start_up": {"from": START, "to": START + 5, "complete": True},
          "serving": {"from": START + 5, "to": START + 65, "complete": True}}  # fmt: skip


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.new(tmp_path / "engine")
    made.commit({"engine/attention.py": MODULE, "README.md": "# an engine\n"}, "first")
    return made


def blob(text: str) -> str:
    data = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def reach(repo: Repo, ran: Mapping[str, str], **windows: Any) -> dict[str, Json]:
    """Records of two ranks. `ran`: file -> lines that ran while serving, `6-8,10`; those of imports ran at start."""
    files: dict[str, Json] = {}
    for path, lines in ran.items():
        text = (repo.root / path).read_text()
        top = [n for n, line in enumerate(text.split("\n"), 1) if re.match(r"[\w@]", line)]
        spans = [[int(n) for n in part.split("-")] for part in lines.split(",") if part]
        files[str(repo.root / path)] = {
            "blob": blob(text),
            "start_up": [[n, n] for n in top],
            "serving": [[span[0], span[-1]] for span in spans],
        }
    workers = {f"scheduler_TP{n}": {"state": "arrived", "reason": "", "windows": SERVED, **windows} for n in (0, 1)}
    states = {f"record[{role}].state": worker["state"] for role, worker in workers.items()}
    return {"record.code_reach": {"files": files, "workers": workers}, **states}


def facts(repo: Repo, values: Mapping[str, Json] | None = None) -> Facts:
    """What a snapshot of the repository as it is now tells, beside other values."""
    made = snapshot({**(values or {})})
    return Facts(Side(replace(made, sections={**made.sections, "git": section(repo.root)})))


def judged(fast: Facts, slow: Facts, host: LiveHost | None = None) -> RepositoryReach:
    [found] = repositories(fast, slow, host or LiveHost())
    return found


def file(fast: Facts, slow: Facts, path: str = "engine/attention.py", host: LiveHost | None = None) -> FileReach:
    return {f.path: f for f in judged(fast, slow, host).files}[path]


def edited(repo: Repo, old: str, new: str, path: str = "engine/attention.py") -> None:
    text = (repo.root / path).read_text()
    assert text.count(old) == 1
    repo.write({path: text.replace(old, new)})


ALL = {"engine/attention.py": "7-8,10"}
"""What a run does with the module as committed: `attend` without its branch."""


def test_the_same_tree_is_no_difference(repo: Repo) -> None:
    assert repositories(facts(repo), facts(repo), LiveHost()) == []


@pytest.mark.parametrize("commit", [False, True], ids=["beside the commit", "committed"])
def test_a_change_of_lines_that_ran_in_both(repo: Repo, commit: bool) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "scores = q * k", "scores = slow_product(q, k)")
    if commit:
        repo.commit(message="another product")
    slow = facts(repo, reach(repo, ALL))
    found = judged(fast, slow)
    [changed] = found.files
    assert (changed.verdict, changed.innocent, changed.committed) == (Verdict.BOTH, False, commit)
    [edit] = changed.edits
    assert (edit.function, edit.old_lines, edit.new_lines, edit.serving) == ("attend", (7, 7), (7, 7), True)
    assert [(c.commit.subject, c.verdict, c.innocent) for c in found.commits] == (
        [("another product", Verdict.BOTH, False)] if commit else []
    )
    assert not found.innocent


def test_a_change_in_a_function_that_nobody_called(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "return x + 1", "return x + 2")
    found = judged(fast, facts(repo, reach(repo, ALL)))
    [changed] = found.files
    assert (changed.verdict, changed.innocent) == (Verdict.NEVER, True)
    assert "came to it" in changed.reason
    assert found.innocent


def test_a_call_behind_a_condition_within_a_function_that_runs(repo: Repo) -> None:
    """The function runs, the line with the condition runs, and what is new does not."""
    fast = facts(repo, reach(repo, ALL))
    edited(
        repo,
        "    scores = q * k\n",
        "    if os.environ.get('FANCY') == '1':\n        scores = fancy(q, k)\n    else:\n        scores = q * k\n",
    )
    changed = file(fast, facts(repo, reach(repo, {"engine/attention.py": "7,10,11,13"})))
    assert (changed.verdict, changed.innocent) == (Verdict.BOTH, True)
    assert "the same statements run" in changed.reason
    assert "FANCY" in changed.reason
    took_it = file(fast, facts(repo, reach(repo, {"engine/attention.py": "7-8,11,13"})))
    assert (took_it.verdict, took_it.innocent) == (Verdict.BOTH, False)


def test_what_is_new_ran_in_the_slow_run_only(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "    scores = q * k\n", "    scores = q * k\n    synchronize()\n")
    changed = file(fast, facts(repo, reach(repo, {"engine/attention.py": "7-9,11"})))
    assert (changed.verdict, changed.innocent) == (Verdict.SLOW, False)


def test_what_is_gone_ran_in_the_fast_run_only(repo: Repo) -> None:
    fast = facts(repo, reach(repo, {"engine/attention.py": "7-9,14"}))
    edited(repo, "    if scores > LIMIT:\n        return clip(scores)\n", "")
    changed = file(fast, facts(repo, reach(repo, {"engine/attention.py": "7-8"})))
    assert (changed.verdict, changed.innocent) == (Verdict.FAST, False)


def test_a_line_that_ran_before_and_is_not_reached_any_more_is_no_proof_of_innocence(repo: Repo) -> None:
    fast = facts(repo, reach(repo, {"engine/attention.py": "7-10,14,18"}))
    edited(repo, "return x + 1", "return x + 2")
    changed = file(fast, facts(repo, reach(repo, ALL)))
    assert (changed.verdict, changed.innocent) == (Verdict.FAST, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scores = q * k", "scores = q * k  # faster"),
        ("def attend(q, k):\n", 'def attend(q, k):\n    """Attend."""\n\n'),
        ("def attend(q, k):", "def attend(q: float, k: float) -> float:"),
        ("LIMIT = 4", "LIMIT: int = (\n    4\n)"),
    ],
    ids=["comment", "docstring", "annotations", "layout"],
)
def test_what_does_nothing(repo: Repo, old: str, new: str) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, old, new)
    changed = file(fast, facts(repo, reach(repo, ALL)))
    assert (changed.verdict, changed.innocent, changed.edits) == (Verdict.NEVER, True, ())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 4", "LIMIT = 5"),
        ("def attend(q, k):", "def attend(q, k=2):"),
        ("def attend(q, k):", "@slow\ndef attend(q, k):"),
        ("import os\n", "import os\n\nos.environ['X'] = '1'\n"),
    ],
    ids=["constant", "default", "decorator", "statement"],
)
def test_what_acts_at_import_or_by_a_signature(repo: Repo, old: str, new: str) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, old, new)
    shift = new.count("\n") - old.count("\n")
    lines = ",".join(
        "-".join(str(int(n) + shift) for n in part.split("-")) for part in ALL["engine/attention.py"].split(",")
    )
    changed = file(fast, facts(repo, reach(repo, {"engine/attention.py": lines})))
    assert changed.verdict in (Verdict.BOTH, Verdict.SLOW)
    assert not changed.innocent


def test_a_default_of_a_function_that_nobody_called(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "def unused(x):", "def unused(x=3):")
    changed = file(fast, facts(repo, reach(repo, ALL)))
    assert (changed.verdict, changed.innocent) == (Verdict.NEVER, True)


def test_an_import_is_judged_where_it_leads(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "import os\n", "import os\nfrom engine.flags import enabled\n")
    changed = file(fast, facts(repo, reach(repo, {"engine/attention.py": "8-9,11"})))
    assert changed.innocent
    assert changed.reason == "only what it imports differs"


def test_files_that_no_worker_imported_and_files_that_do_not_act(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    repo.write({"README.md": "# another\n", "engine/other.py": "def f():\n    return 1\n",
                "tests/test_attention.py": "assert True\n", ".github/workflows/ci.yml": "on: push\n"})  # fmt: skip
    found = judged(fast, facts(repo, reach(repo, ALL)))
    reasons = {f.path: f.reason for f in found.files}
    assert reasons["engine/other.py"] == "no worker imported it"
    assert reasons["README.md"] == "documentation"
    assert "test" in reasons["tests/test_attention.py"]
    assert found.innocent


def test_workers_that_import_from_elsewhere(repo: Repo) -> None:
    installed = {**reach(repo, {}), "record[scheduler_TP0].package_origin[engine]": "/venv/site-packages/engine"}
    here, elsewhere = facts(repo, reach(repo, ALL)), facts(repo, installed)
    edited(repo, "scores = q * k", "scores = slow_product(q, k)")
    nowhere = facts(repo, installed)
    moved, never = file(here, nowhere), file(elsewhere, nowhere)
    assert (moved.verdict, moved.innocent) == (Verdict.FAST, False)
    assert (never.verdict, never.innocent) == (Verdict.NEVER, True)
    assert "/venv/site-packages/engine" in never.reason


# -- what is not known -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        ({"windows": {}, "reason": "needs Python 3.12 or later"}, "needs Python 3.12"),
        ({"windows": {"start_up": SERVED["start_up"]}}, "was not watched while it served"),
        ({"windows": {**SERVED, "serving": {**SERVED["serving"], "to": START + 7}}}, "for 2 s of serving alone"),
    ],
    ids=["unwatched", "not serving", "too short"],
)
def test_an_unread_or_too_short_window_is_unknown_and_not_never(repo: Repo, windows: Any, words: str) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "return x + 1", "return x + 2")
    changed = file(fast, facts(repo, reach(repo, ALL, **windows)))
    assert (changed.verdict, changed.innocent) == (Verdict.UNKNOWN, False)
    assert words in changed.reason


def test_a_rank_that_did_not_record_leaves_it_open(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "return x + 1", "return x + 2")
    values = reach(repo, ALL)
    values["record.code_reach"]["workers"]["scheduler_TP1"].update(state="missing", reason="no record of it has come")
    changed = file(fast, facts(repo, values))
    assert changed.verdict is Verdict.UNKNOWN
    assert "scheduler_TP1" in changed.reason


def test_records_that_saw_no_request(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "return x + 1", "return x + 2")
    changed = file(fast, facts(repo, reach(repo, {"engine/attention.py": ""})))
    assert changed.verdict is Verdict.UNKNOWN
    assert "served no request" in changed.reason


def test_the_slow_run_alone_is_enough_to_acquit(repo: Repo) -> None:
    """What the slow run does not come to would change nothing there if it were undone, whatever the fast run did."""
    fast = facts(repo)
    edited(repo, "return x + 1", "return x + 2")
    changed = file(fast, facts(repo, reach(repo, ALL)))
    assert (changed.verdict, changed.innocent) == (Verdict.NEVER, True)


def test_without_any_record(repo: Repo) -> None:
    fast = facts(repo)
    edited(repo, "scores = q * k", "scores = slow_product(q, k)")
    changed = file(fast, facts(repo))
    assert (changed.verdict, changed.innocent) == (Verdict.UNKNOWN, False)
    assert "no worker recorded itself" in changed.reason


def test_workers_that_ran_another_content_than_was_recorded(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    values = reach(repo, ALL)
    edited(repo, "return x + 1", "return x + 2")  # after the server was started
    changed = file(fast, facts(repo, values))
    assert changed.verdict is Verdict.UNKNOWN
    assert "another content" in changed.reason


# -- conditions, where nobody watched -----------------------------------------------------------------------------

ENV = {f"worker[scheduler_TP{n}].env[PATH]": "/usr/bin" for n in (0, 1)}
ON = {f"worker[scheduler_TP{n}].env[FANCY]": "1" for n in (0, 1)}
GUARDED = [
    "os.environ.get('FANCY', '0') == '1'",
    "os.getenv('FANCY')",
    "get_bool_env_var('FANCY', 'false')",
    "get_int_env_var('FANCY', 0) > 0",
    "server_args.enable_fancy",
    "self.server_args.enable_fancy and q",
    "not server_args.disable_fancy",
    "q and False",
]


@pytest.mark.parametrize("test", GUARDED)
def test_a_change_behind_a_condition_that_was_off(repo: Repo, test: str) -> None:
    values: dict[str, Json] = {**ENV, "server[0].argument[tp_size]": 2, "server[0].argument[disable_fancy]": True}
    fast = facts(repo, values)
    edited(repo, "    scores = q * k\n", f"    scores = q * k\n    if {test}:\n        scores = fancy(q)\n")
    changed = file(fast, facts(repo, values))
    assert (changed.verdict, changed.innocent) == (Verdict.NEVER, True)
    assert "never true" in changed.reason


def test_the_same_where_it_was_on_or_is_not_known(repo: Repo) -> None:
    fast, unknown = facts(repo, ENV), facts(repo)
    edited(repo, "    scores = q * k\n", "    scores = q * k\n    if os.getenv('FANCY'):\n        scores = fancy(q)\n")
    assert not file(fast, facts(repo, {**ENV, **ON})).innocent
    assert not file(unknown, facts(repo)).innocent


def test_a_flag_that_a_module_reads_once_and_a_line_behind_an_early_exit(repo: Repo) -> None:
    repo.commit({"engine/flags.py": "import os\n\nFANCY = os.getenv('FANCY') is not None\n\n\n"
                 "def fancy(q):\n    if not FANCY:\n        return q\n    return q + 1\n"})  # fmt: skip
    fast = facts(repo, ENV)
    edited(repo, "return q + 1", "return q + 2", "engine/flags.py")
    changed = file(fast, facts(repo, ENV), "engine/flags.py")
    assert (changed.verdict, changed.innocent) == (Verdict.NEVER, True)
    assert "`not FANCY`, which was true in both runs" in changed.reason
    assert not file(fast, facts(repo, {**ENV, **ON}), "engine/flags.py").innocent


def test_a_variable_by_the_engines_registry(repo: Repo) -> None:
    repo.commit({"engine/environ.py": "class Envs:\n    FANCY = EnvBool(False)\n    USUAL = EnvBool(True)\n"})
    values = {**ENV, **reach(repo, {"engine/environ.py": ""})}
    fast = facts(repo, values)
    edited(repo, "    scores = q * k\n", "    scores = q * k\n    if envs.FANCY.get():\n        scores = fancy(q)\n")
    assert file(fast, facts(repo, {**ENV, **reach(repo, {"engine/environ.py": ""})} | _imported(repo))).innocent
    edited(repo, "envs.FANCY", "envs.USUAL")
    assert not file(fast, facts(repo, {**ENV, **reach(repo, {"engine/environ.py": ""})} | _imported(repo))).innocent


def _imported(repo: Repo) -> dict[str, Json]:
    """Records by which both files were imported, and nothing is known of what ran."""
    return reach(repo, {"engine/environ.py": "", "engine/attention.py": ""}, reason="needs Python 3.12 or later")


def test_a_new_function_that_is_called_behind_a_condition_alone(repo: Repo) -> None:
    fast = facts(repo, ENV)
    edited(repo, "    scores = q * k\n", "    scores = q * k\n    if os.getenv('FANCY'):\n        scores = _fancy(q)\n")
    repo.write(
        {"engine/attention.py": (repo.root / "engine/attention.py").read_text() + "\n\ndef _fancy(q):\n    return q\n"}
    )
    assert file(fast, facts(repo, ENV)).innocent
    edited(repo, "    return scores\n\n\ndef clip", "    return _fancy(scores)\n\n\ndef clip")
    assert not file(fast, facts(repo, ENV)).innocent


# -- where the repository is gone ---------------------------------------------------------------------------------


def gone(repo: Repo) -> None:
    shutil.rmtree(repo.root / ".git")


def test_the_recorded_patch_alone(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "return x + 1", "return x + 2")
    slow = facts(repo, reach(repo, ALL))
    edited(repo, "scores = q * k", "scores = slow_product(q, k)")
    slower = facts(repo, reach(repo, ALL))
    gone(repo)
    assert (file(fast, slow).verdict, file(fast, slow).innocent) == (Verdict.NEVER, True)
    both = file(fast, slower)
    assert (both.verdict, both.innocent) == (Verdict.BOTH, False)
    assert [(e.new_lines, e.verdict) for e in both.edits] == [((7, 7), Verdict.BOTH), ((18, 18), Verdict.NEVER)]


def test_the_recorded_patch_of_a_condition(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "    scores = q * k\n", "    scores = q * k\n    if os.getenv('FANCY'):\n        scores = fancy(q)\n")
    slow = facts(repo, reach(repo, {"engine/attention.py": "7-8,10,12"}))
    gone(repo)
    changed = file(fast, slow)
    assert (changed.verdict, changed.innocent) == (Verdict.NEVER, True)
    assert "FANCY" in changed.reason


def test_a_patch_that_was_taken_away_again(repo: Repo) -> None:
    edited(repo, "scores = q * k", "scores = fast_product(q, k)")
    fast = facts(repo, reach(repo, ALL))
    repo.git("checkout", "--", ".")
    slow = facts(repo, reach(repo, ALL))
    gone(repo)
    changed = file(fast, slow)
    assert (changed.verdict, changed.innocent) == (Verdict.BOTH, False)
    assert [(e.old_lines, e.new_lines) for e in changed.edits] == [((7, 7), (7, 7))]


def test_an_untracked_file_has_its_whole_text_in_the_patch(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    repo.write({"engine/patch.py": "import engine.attention\n\n\ndef apply():\n    return 1\n"})
    ran = {**ALL, "engine/patch.py": "5"}
    slow, idle = facts(repo, reach(repo, ran)), facts(repo, reach(repo, {**ALL, "engine/patch.py": ""}))
    gone(repo)
    assert file(fast, slow, "engine/patch.py").verdict is Verdict.SLOW
    assert file(fast, idle, "engine/patch.py").innocent


def test_commits_that_are_gone_are_known_by_name_and_by_what_was_imported(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "scores = q * k", "scores = slow_product(q, k)")
    repo.commit(message="another product")
    slow = facts(repo, reach(repo, ALL))
    gone(repo)
    found = judged(fast, slow)
    assert [(c.commit.subject, c.verdict) for c in found.commits] == [("another product", None)]
    assert [(f.path, f.verdict) for f in found.files] == [("engine/attention.py", Verdict.UNKNOWN)]
    assert not found.whole
    assert "not at hand" in found.notes[0]


def test_commits_between_are_judged_each(repo: Repo) -> None:
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "return x + 1", "return x + 2")
    repo.commit(message="nobody calls it")
    edited(repo, "scores = q * k", "scores = slow_product(q, k)")
    repo.commit(message="another product")
    repo.commit({"README.md": "# more\n"}, "words")
    found = judged(fast, facts(repo, reach(repo, ALL)))
    said = {c.commit.subject: (c.verdict, c.innocent) for c in found.commits}
    assert said["words"] == (Verdict.NEVER, True)
    # NOTE: both commits changed one file, and a file is judged as it was and is.
    assert said["another product"] == (Verdict.BOTH, False)
    assert not found.innocent


def test_what_was_changed_and_is_committed_now_is_no_difference(repo: Repo) -> None:
    edited(repo, "scores = q * k", "scores = slow_product(q, k)")
    fast = facts(repo, reach(repo, ALL))
    repo.commit(message="as it was")
    found = judged(fast, facts(repo, reach(repo, ALL)))
    assert found.files == ()
    assert [c.innocent for c in found.commits] == [True]


def test_nothing_of_the_repository_is_run_or_written(repo: Repo, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    repo.commit({".gitattributes": "*.py diff=evil filter=evil\n"})
    for name in ("diff.evil.textconv", "diff.evil.command", "filter.evil.smudge", "filter.evil.clean", "diff.external",
                 "core.pager", "core.fsmonitor"):  # fmt: skip
        repo.git("config", name, f"touch {mark}")
    fast = facts(repo, reach(repo, ALL))
    edited(repo, "return x + 1", "return x + 2")
    repo.git("-c", "filter.evil.clean=cat", "commit", "-qam", "nobody calls it")
    mark.unlink(missing_ok=True)
    slow = facts(repo, reach(repo, ALL))
    before = {p: p.stat().st_mtime_ns for p in repo.root.rglob("*")}
    assert judged(fast, slow).commits[0].innocent
    assert not mark.exists()
    assert {p: p.stat().st_mtime_ns for p in repo.root.rglob("*")} == before


# -- what is no Python ---------------------------------------------------------------------------------------------


def test_kernels_by_the_build_of_what_is_mapped(repo: Repo) -> None:
    library = str(repo.root / "engine/ops.so")
    mapped = {"worker[scheduler_TP0].library[ops/0].path": library}
    one, two = ({**mapped, "worker[scheduler_TP0].library[ops/0].build_id": name} for name in ("aa", "bb"))
    repo.write({"engine/ops.so": "x"})
    fast = facts(repo, one)
    repo.write({"engine/ops.so": "y", "engine/ops.cu": "int f;"})
    found = {f.path: f for f in judged(fast, facts(repo, two)).files}
    assert (found["engine/ops.so"].verdict, found["engine/ops.so"].innocent) == (Verdict.BOTH, False)
    assert found["engine/ops.cu"].verdict is Verdict.UNKNOWN
    same = {f.path: f for f in judged(fast, facts(repo, one)).files}
    assert same["engine/ops.so"].innocent


def test_a_kernel_source_that_is_not_in_the_installed_build(repo: Repo) -> None:
    sums = {"package[sgl-kernel].record_sha256": "aa"}
    fast = facts(repo, sums)
    repo.write({"sgl-kernel/csrc/all_reduce.cu": "int f;"})
    assert file(fast, facts(repo, sums), "sgl-kernel/csrc/all_reduce.cu").innocent
    rebuilt = facts(repo, {"package[sgl-kernel].record_sha256": "bb"})
    assert not file(fast, rebuilt, "sgl-kernel/csrc/all_reduce.cu").innocent


def test_tuned_settings_are_for_one_kind_of_gpu(repo: Repo) -> None:
    name = "engine/configs/E=8,N=1792,device_name=NVIDIA_H100_80GB_HBM3.json"
    gpu = {"gpu[0].name": "NVIDIA H200"}
    fast = facts(repo, gpu)
    repo.write({name: "{}"})
    assert file(fast, facts(repo, gpu), name).innocent
    own = {"gpu[0].name": "NVIDIA H100 80GB HBM3"}
    repo.git("clean", "-qfd")
    before = facts(repo, own)
    repo.write({name: "{}"})
    assert not file(before, facts(repo, own), name).innocent


def test_compiled_functions_run_without_their_lines(repo: Repo) -> None:
    """A Triton kernel's lines never run in Python; the line that launches it does."""
    source = "import triton\n\n\n@triton.jit\ndef kernel(x):\n    y = x + 1\n\n\ndef launch(x):\n    kernel[(1,)](x)\n"
    repo.commit({"engine/kernels.py": source})
    fast = facts(repo, reach(repo, {**ALL, "engine/kernels.py": "10"}))
    edited(repo, "y = x + 1", "y = x + 2", "engine/kernels.py")
    ran = file(fast, facts(repo, reach(repo, {**ALL, "engine/kernels.py": "10"})), "engine/kernels.py")
    assert (ran.verdict, ran.innocent) == (Verdict.BOTH, False)


# -- a real program that records itself -----------------------------------------------------------------------------

PROGRAM = """\
import time

from engine import attention

end = time.monotonic() + 1.5
while time.monotonic() < end:
    attention.attend(1, 2)
    time.sleep(0.05)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_a_real_program_before_and_after(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ran, "MIN_SECONDS", 0.5)
    repo.commit({"serve.py": PROGRAM, ".gitignore": "__pycache__\n"})
    fast = _recorded(repo, "fast")
    edited(repo, "return x + 1", "return x + 2")
    edited(repo, "    scores = q * k\n", "    scores = q * k\n    if os.getenv('FANCY'):\n        scores = fancy(q)\n")
    harmless = _recorded(repo, "harmless")
    edited(repo, "return scores\n\n\ndef clip", "return scores + 0\n\n\ndef clip")
    harmful = _recorded(repo, "harmful")
    assert {e.function: e.verdict for e in file(fast, harmless).edits} == {
        "attend": Verdict.NEVER,
        "unused": Verdict.NEVER,
    }
    assert judged(fast, harmless).innocent
    assert [e.verdict for e in file(fast, harmful).edits if not e.innocent] == [Verdict.BOTH]


def _recorded(repo: Repo, name: str) -> Facts:
    """Run the program, and what a capture then finds of it."""
    directory = repo.root.parent / f"records-{name}"
    watched = {"ENVSNAP_RECORD": str(directory), "ENVSNAP_RECORD_CODE": str(repo.root)}
    env = environment(str(repo.root), **watched, **QUICK)
    assert run(str(repo.root / "serve.py"), env).returncode == 0
    taken = capture(Scope(records=str(directory)), LiveHost(), only=["worker_record"])
    return Facts(Side(replace(taken, sections={**taken.sections, "git": section(repo.root)})))


# -- where time went ------------------------------------------------------------------------------------------------


def spent(repo: Repo, looks: int, lines: Mapping[int, tuple[int, int]]) -> dict[str, Json]:
    """Two ranks at the module's lines: line -> looks in it, looks at it."""
    where = str(repo.root / "engine/attention.py")
    held: Json = {"looks": looks, "files": {where: {str(line): list(counts) for line, counts in lines.items()}}}
    unwatched = {"reason": "needs Python 3.12 or later", "windows": {}}
    return {**reach(repo, {"engine/attention.py": ""}, **unwatched),
            "record.code_time": dict.fromkeys(("scheduler_TP0", "scheduler_TP1", "detokenizer"), held)}  # fmt: skip


def time_clues(fast: Facts, slow: Facts, slowdown: float) -> list[tuple[float, str]]:
    changes = diff(fast.snapshot, slow.snapshot).changes
    found = code_that_ran.tell(View(fast, slow, changes, Symptom(slowdown=slowdown, terms={"step_time": slowdown})))
    return [(f.weight, f.text) for f in found if isinstance(f, Clue) and "The slow run spent" in f.text]


def test_new_lines_that_take_as_much_as_was_lost_are_the_cause(repo: Repo) -> None:
    fast = facts(repo, spent(repo, 300, {8: (290, 100)}))
    edited(repo, "    scores = q * k\n", "    scores = q * k\n    scores = checked(scores)\n")
    slow = facts(repo, spent(repo, 400, {9: (390, 70), 8: (140, 0)}))
    [(weight, text)] = time_clues(fast, slow, math.log(1.5))
    assert weight == STRONG
    assert text == (
        "The slow run spent 35% of its time (400 looks) in what differs, most in attend (engine/attention.py:8); the "
        "slowdown is 33% of it."
    )
    [(small, _)] = time_clues(fast, facts(repo, spent(repo, 400, {8: (30, 0)})), math.log(1.5))
    assert small == FAIR
    [(none, text)] = time_clues(fast, facts(repo, spent(repo, 400, {9: (390, 70)})), math.log(1.5))
    assert (none, "next to no time" in text) == (-WEAK, True)


def test_a_line_that_holds_all_the_rest_is_not_blamed_for_what_it_calls(repo: Repo) -> None:
    """The event loop's own call takes all the time before and after."""
    fast = facts(repo, spent(repo, 300, {7: (300, 3)}))
    edited(repo, "scores = q * k", "scores = q * k * 1")
    slow = facts(repo, spent(repo, 400, {7: (400, 4)}))
    [(weight, text)] = time_clues(fast, slow, math.log(1.5))
    assert weight == -WEAK
    assert "next to no time" in text


def test_a_changed_line_is_judged_by_what_it_took_before(repo: Repo) -> None:
    fast = facts(repo, spent(repo, 300, {7: (60, 60)}))
    edited(repo, "scores = q * k", "scores = slow_product(q, k)")
    slow = facts(repo, spent(repo, 400, {7: (188, 188)}))
    [(weight, text)] = time_clues(fast, slow, math.log(1.5))
    assert weight == STRONG
    assert "spent 34% of its time" in text  # 188/400 - 60/300 of two thirds
    unknown = facts(repo, spent(repo, 20, {7: (10, 10)}))
    assert time_clues(fast, unknown, math.log(1.5)) == [], "20 looks tell nothing"
    assert time_clues(fast, slow, 0.01) == [], "nothing slowed"


def test_time_in_another_content_than_is_recorded_counts_for_nothing(repo: Repo) -> None:
    fast = facts(repo, spent(repo, 300, {7: (60, 60)}))
    stale = spent(repo, 400, {7: (188, 188)})
    edited(repo, "scores = q * k", "scores = slow_product(q, k)")
    assert time_clues(fast, facts(repo, stale), math.log(1.5)) == []
