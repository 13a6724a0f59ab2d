"""Code that differs: hunks between two states, and beside each line whether it ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from envsnap.diff import diff
from envsnap.explain import Facts, Side, explain
from envsnap.explain.code.shown import between, differences
from envsnap.host import LiveHost
from envsnap.keys import path_of
from envsnap.reading import Json
from envsnap.report.page import Content, render
from tests.cases.incident.sides import Incident
from tests.collectors.git_repo import isolate
from tests.explain.pairs import side
from tests.report.test_page import Outline

HEAD = "1" * 40
PATCH = """diff --git a/m.py b/m.py
--- a/m.py
+++ b/m.py
@@ -1,2 +1,3 @@
 import os
-x = 1
+x = 2
+y = 3
"""


def state(patch: str, head: str = HEAD) -> Facts:
    values: dict[str, Json] = {path_of("repo[].head", "r"): head, path_of("repo[].root", "r"): "/nowhere"}
    values[path_of("repo[].patch", "r")] = patch
    if patch:
        values[path_of("repo[].changed[].status", "r", "m.py")] = "modified"
        values[path_of("repo[].changed[].blob", "r", "m.py")] = head
    return Facts(side(values))


def shown(fast: Facts, slow: Facts) -> list[tuple[str, list[str]]]:
    return [
        (d.note, [line for h in d.hunks for line in h.lines])
        for d in differences(fast, slow, "r", ["m.py"], None)["m.py"]
    ]


def test_a_patch_on_one_commit_is_the_difference() -> None:
    assert shown(state(""), state(PATCH)) == [("", [" import os", "-x = 1", "+x = 2", "+y = 3"])]


def test_a_patch_that_is_gone_is_the_difference_reversed() -> None:
    assert shown(state(PATCH), state("")) == [("", [" import os", "+x = 1", "-x = 2", "-y = 3"])]


def test_two_patches_are_told_apart_by_their_side() -> None:
    notes = [note for note, _ in shown(state(PATCH), state(PATCH.replace("y = 3", "y = 4"), "2" * 40))]
    assert notes == ["beside its commit on the fast side", "beside its commit on the slow side"]


def test_hunks_count_lines_as_files_do() -> None:
    old = "".join(f"line {i}\n" for i in range(1, 21))
    new = old.replace("line 10\n", "line\x0cten\n")
    [hunk] = between(old, new)
    assert (hunk.old, hunk.new) == (7, 7)
    assert hunk.removed == {10: "line 10"}
    assert hunk.added == {10: "line\x0cten"}


@pytest.fixture
def outline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outline:
    isolate(tmp_path, monkeypatch)
    then, now = Incident(tmp_path, monkeypatch).sides(recorded=True)
    content = Content((then, now), ("then", "now"), {}, diff(then.snapshot, now.snapshot), explain(then, now))
    return Outline(render(content, LiveHost()))


def test_each_edit_has_its_hunk_and_where_it_ran(outline: Outline) -> None:
    for said in (
        "Fix PCG MoE Error",
        "Scheduler.run_batch slow 11–12 never ran nothing of it ran: the rest stands behind `self.is_mamba`",
        "11 no effect + if self.is_mamba:",
        '17 ran + os.environ.setdefault("NCCL_PROTO", "LL")',
        "python/sglang/srt/layers/moe/topk.py never ran",
    ):
        assert said in outline.text, said


def test_one_side_shows_what_was_changed_beside_its_commit() -> None:
    facts = state(PATCH)
    one = Content((Side(facts.snapshot),), ("one",))
    outline = Outline(render(one))
    assert "Changed beside the commits" in outline.text
    assert "m.py 4 lines" in outline.text
    assert "2 - x = 1" in outline.text


def test_a_patch_of_many_lines_is_cut() -> None:
    lines = "".join(f"+x{i} = {i}\n" for i in range(4500))
    patch = f"diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1,0 +1,4500 @@\n{lines}"
    fast, slow = state("").side, state(patch).side
    content = Content((fast, slow), ("a", "b"), {}, diff(fast.snapshot, slow.snapshot), explain(fast, slow))
    page = render(content)
    assert "Too long to be shown here" in page
    assert len(page) < 300_000
    assert "x4499 = 4499" not in page
