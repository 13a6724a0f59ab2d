"""Parts of a repository's change: what each is called, and that any of them can be taken back by itself."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from envsnap.prove.parts import Code, Part, build, differs, hunks_of, parts_of
from envsnap.prove.trees import Tree
from tests.collectors.git_repo import Repo, isolate

LINES = [f"line_{i} = {i}\n" for i in range(60)]


def text(**changed: str) -> str:
    """The file with some of its lines changed."""
    return "".join(changed.get(f"l{i}", line.rstrip("\n")) + "\n" for i, line in enumerate(LINES))


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    isolate(tmp_path, monkeypatch)
    return Repo.new(tmp_path / "engine")


def code(repo: Repo, fast: str, slow: str, before: str = "", now: str = "") -> Code:
    return Code("git:engine", Tree(str(repo.root), fast, before), Tree(str(repo.root), slow, now))


def parts(code: Code) -> list[Part]:
    found = parts_of(code)
    assert not isinstance(found, str), found
    return found


def tree(code: Code, chain: list[Part], reverted: set[str], folder: Path) -> dict[str, str]:
    """The files of a state."""
    target = folder / f"tree-{random.getrandbits(64):x}"
    assert build(code, chain, frozenset(reverted), target) == ""
    return {str(p.relative_to(target)): p.read_text() for p in target.rglob("*") if p.is_file()}


def patch_of(repo: Repo) -> str:
    return repo.git("diff", "HEAD") + "\n"


def test_each_commit_can_be_taken_back_by_itself_and_all_are_the_fast_side(repo: Repo, tmp_path: Path) -> None:
    fast = repo.commit({"a.py": text(), "b.py": "b = 0\n"}, "start")
    repo.commit({"a.py": text(l5="five = 5")}, "first")
    repo.commit({"a.py": text(l5="five = 5", l40="forty = 40"), "c.py": "c = 1\n"}, "second")
    slow = repo.commit({"b.py": "b = 2\n"}, "third")
    both = code(repo, fast, slow)
    chain = parts(both)
    assert [p.title.partition(" (")[2] for p in chain] == ["first)", "second)", "third)"]
    first, second, third = (p.id for p in chain)
    assert tree(both, chain, {first, second, third}, tmp_path) == {"a.py": text(), "b.py": "b = 0\n"}
    assert tree(both, chain, set(), tmp_path)["a.py"] == text(l5="five = 5", l40="forty = 40")
    without = tree(both, chain, {second}, tmp_path)
    assert without == {"a.py": text(l5="five = 5"), "b.py": "b = 2\n"}


def test_a_commit_by_its_hunks_any_of_which_can_be_taken_back(repo: Repo, tmp_path: Path) -> None:
    fast = repo.commit({"a.py": text(), "b.py": "def f():\n    return 1\n"})
    # What the first one adds moves all that is below it.
    slow = repo.commit({"a.py": text(l3="x = 1\ny = 2\nz = 3", l30="thirty = 1", l50="fifty = 2"), "n.py": "n = 1\n"})
    both = code(repo, fast, slow)
    (commit,) = parts(both)
    hunks = hunks_of(commit)
    assert [h.place for h in hunks] == ["a.py:4", "a.py:33", "a.py:53", "n.py"]
    assert hunks[-1].title == "n.py (added)"
    assert hunks[0].title == "a.py:4", "a line of code is no name of a place"
    for kept in range(4):
        reverted = {h.id for i, h in enumerate(hunks) if i != kept}
        made = tree(both, hunks, reverted, tmp_path)
        wanted = [text(l3="x = 1\ny = 2\nz = 3"), text(l30="thirty = 1"), text(l50="fifty = 2"), text()][kept]
        assert made["a.py"] == wanted
        assert ("n.py" in made) == (kept == 3)


def test_what_was_not_committed_is_a_part_with_hunks_of_its_own(repo: Repo, tmp_path: Path) -> None:
    head = repo.commit({"a.py": text(), "b.py": "b = 1\n"})
    repo.write({"a.py": text(l5="five = 5")})
    before = patch_of(repo)
    repo.write({"a.py": text(l5="five = 5", l30="thirty = 1"), "b.py": "b = 9\n"})
    both = code(repo, head, head, before, patch_of(repo))
    (part,) = parts(both)
    assert part.title == "uncommitted changes"
    hunks = hunks_of(part)
    asked = [h for h in hunks if differs(h)]
    assert [h.place for h in asked] == ["a.py:31", "b.py:1"], "what both sides had is not in question"
    assert tree(both, hunks, {h.id for h in asked}, tmp_path) == {"a.py": text(l5="five = 5"), "b.py": "b = 1\n"}
    assert tree(both, hunks, {asked[0].id}, tmp_path) == {"a.py": text(l5="five = 5"), "b.py": "b = 9\n"}


def test_one_patch_on_two_commits_stays_where_it_is(repo: Repo, tmp_path: Path) -> None:
    fast = repo.commit({"a.py": text(), "b.py": "b = 1\n"})
    slow = repo.commit({"b.py": "b = 2\n"}, "other")
    repo.write({"a.py": text(l5="five = 5")})
    both = code(repo, fast, slow, patch_of(repo), patch_of(repo))
    chain = parts(both)
    assert [differs(p) for p in chain] == [True, False]
    assert tree(both, chain, {chain[0].id}, tmp_path) == {"a.py": text(l5="five = 5"), "b.py": "b = 1\n"}


def test_commits_that_only_the_fast_side_had_come_back(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"a.py": text()})
    repo.git("checkout", "-q", "-b", "old")
    fast = repo.commit({"a.py": text(l5="kept = 1")}, "was there")
    repo.git("checkout", "-q", "main")
    slow = repo.commit({"a.py": text(l40="new = 1")}, "came")
    both = code(repo, fast, slow)
    chain = parts(both)
    assert [p.title.rpartition(" (")[2] for p in chain] == ["was there), gone", "came)"]
    assert tree(both, chain, {p.id for p in chain}, tmp_path)["a.py"] == text(l5="kept = 1")
    assert tree(both, chain, {chain[0].id}, tmp_path)["a.py"] == text(l5="kept = 1", l40="new = 1")


def test_a_merge_is_one_part(repo: Repo, tmp_path: Path) -> None:
    fast = repo.commit({"a.py": text()})
    repo.git("checkout", "-q", "-b", "side")
    repo.commit({"b.py": "b = 1\n"})
    repo.commit({"b.py": "b = 2\n"})
    repo.git("checkout", "-q", "main")
    repo.commit({"a.py": text(l1="one = 1")}, "own")
    repo.git("merge", "-q", "--no-ff", "-m", "take it in", "side")
    both = code(repo, fast, repo.git("rev-parse", "HEAD"))
    chain = parts(both)
    assert [p.title.partition(" (")[2] for p in chain] == ["own)", "take it in)"]
    assert tree(both, chain, {chain[1].id}, tmp_path) == {"a.py": text(l1="one = 1")}


def test_where_the_fast_side_was_merged_in_there_is_one_part(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"a.py": text()})
    repo.git("checkout", "-q", "-b", "side")
    fast = repo.commit({"b.py": "b = 1\n"})
    repo.git("checkout", "-q", "main")
    repo.commit({"a.py": text(l1="one = 1")})
    repo.git("merge", "-q", "--no-ff", "-m", "take it in", "side")
    both = code(repo, fast, repo.git("rev-parse", "HEAD"))
    (part,) = parts(both)
    assert part.title.startswith("commits from ")
    assert tree(both, [part], {part.id}, tmp_path) == {"a.py": text(), "b.py": "b = 1\n"}


def test_parts_that_build_on_each_other_are_told_apart_from_a_tree(repo: Repo, tmp_path: Path) -> None:
    fast = repo.commit({"a.py": text()})
    repo.commit({"a.py": text(l5="five = 1")})
    slow = repo.commit({"a.py": text(l5="five = 2")})
    both = code(repo, fast, slow)
    chain = parts(both)
    problem = build(both, chain, frozenset({chain[0].id}), tmp_path / "t")
    assert "cannot be put together" in problem
    assert not list(tmp_path.glob("t*")), "nothing is left of it"


def test_a_tree_holds_what_was_built_in_the_users(repo: Repo, tmp_path: Path) -> None:
    commit = repo.commit({"a.py": text(), ".gitignore": "*.so\nsecret\n"})
    repo.write({"fast.so": b"\x7fELF", "secret": "no"})
    repo.git("config", "export.ignored", "x")
    target = tmp_path / "t"
    assert build(code(repo, commit, commit), [], frozenset(), target) == ""
    assert (target / "fast.so").read_bytes() == b"\x7fELF"
    assert not (target / "secret").exists()
    status = repo.git("status", "--porcelain")
    assert status == ""
