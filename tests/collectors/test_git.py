from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.collectors import _git_checkout, _git_facts, _git_run
from envsnap.host import Answer, Request
from envsnap.reading import Unavailable, Unset, Value, Why
from envsnap.scope import Scope
from envsnap.snapshot import Section
from tests.collectors.git_repo import Alone, Repo, Seen, isolate, section, seen
from tests.fakes import FakeHost

TIME = {"GIT_COMMITTER_DATE": "2025-11-02T10:00:00+0000", "GIT_AUTHOR_DATE": "2001-01-01T00:00:00+0000"}


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.new(tmp_path / "sglang")


# -- HEAD and what led to it ----------------------------------------------------------------------------------


def test_a_clean_repository(repo: Repo) -> None:
    repo.commit({"a.py": "1\n"}, "first")
    repo.git("tag", "v0.5.9")
    repo.write({"a.py": "2\n"}).git("add", "-A")
    repo.git("commit", "-q", "-m", "Fix PCG MoE Error\n\nbody", env={**os.environ, **TIME})
    head = repo.git("rev-parse", "HEAD")
    read = seen(repo)
    assert read["head"] == head
    assert read["head_time"] == "2025-11-02T10:00:00+00:00"
    assert read["branch"] == "main"
    assert read["detached"] is False
    assert read["describe"] == f"v0.5.9-1-g{head[:12]}"
    assert read["recent_commits"] == [head, repo.git("rev-parse", "HEAD~")]
    assert read[f"commit[{head}].subject"] == "Fix PCG MoE Error"
    assert read[f"commit[{head}].time"] == "2025-11-02T10:00:00+00:00"
    assert read["root"] == str(repo.root)
    assert read["found_by"] == ["given"]
    assert read["dirty"] is False
    assert read["tree_id"] == repo.git("rev-parse", "HEAD^{tree}")
    assert [read[f"{kind}_count"] for kind in ("staged", "unstaged", "untracked", "stash")] == [0, 0, 0, 0]
    assert read["patch"] == ""
    assert read["patch_truncated"] is False
    assert read["in_progress"] == []
    assert (read["shallow"], read["sparse_checkout"], read["worktree_count"]) == (False, False, 1)
    assert isinstance(read.section.reading("repo[sglang].upstream"), Unset)


def test_only_the_last_twenty_commits(repo: Repo) -> None:
    commits = [repo.commit(message=f"change {i}") for i in range(23)]
    assert seen(repo)["recent_commits"] == commits[:2:-1]


def test_a_detached_head_has_no_branch(repo: Repo) -> None:
    repo.commit()
    repo.git("checkout", "-q", "--detach")
    read = seen(repo)
    assert read["detached"] is True
    assert "branch" not in read.values


def test_ahead_and_behind_come_from_what_was_fetched(tmp_path: Path, repo: Repo) -> None:
    repo.commit()
    clone = Repo(tmp_path / "clone")
    repo.git("clone", "-q", str(repo.root), str(clone.root))
    for i in range(3):
        repo.commit(message=f"theirs {i}")
    clone.git("fetch", "-q")
    clone.commit(message="mine")
    repo.commit(message="not fetched")
    read = seen(clone)
    assert (read["upstream"], read["ahead_count"], read["behind_count"]) == ("origin/main", 1, 3)
    assert read["remote[origin].url"] == str(repo.root)
    clone.git("update-ref", "-d", "refs/remotes/origin/main")
    assert seen(clone).why("ahead_count") == Unavailable(Why.ABSENT, "the upstream branch is gone")


def test_an_upstream_that_is_level(tmp_path: Path, repo: Repo) -> None:
    repo.commit()
    repo.git("clone", "-q", str(repo.root), str(tmp_path / "clone"))
    read = seen(Repo(tmp_path / "clone"))
    assert (read["ahead_count"], read["behind_count"]) == (0, 0)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://user:ghp_abc@github.com/a/b.git", "https://github.com/a/b.git"),
        ("https://oauth2:p@ss@host/a", "https://host/a"),
        ("ssh://git@host:22/a", "ssh://host:22/a"),
        ("git@github.com:a/b.git", "git@github.com:a/b.git"),
        ("https://host/a@b", "https://host/a@b"),
    ],
)
def test_credentials_are_cut_from_remotes(repo: Repo, url: str, kept: str) -> None:
    repo.commit()
    repo.git("remote", "add", "origin", url)
    assert seen(repo)["remote[origin].url"] == kept


def test_when_head_last_moved_and_was_last_pulled(tmp_path: Path, repo: Repo) -> None:
    repo.commit()
    clone = Repo(tmp_path / "clone")
    repo.git("clone", "-q", str(repo.root), str(clone.root))
    read = seen(clone)
    assert read["last_move.message"] == f"clone: from {repo.root}"
    assert "last_pull.message" not in read.values
    repo.commit(message="new")
    clone.git("pull", "-q", "--ff-only", env={**os.environ, **TIME})
    clone.git("checkout", "-q", "-b", "experiment")
    read = seen(clone)
    assert read["last_pull.message"].startswith("pull")
    assert read["last_pull.time"] == "2025-11-02T10:00:00+00:00"
    assert read["last_move.message"] == "checkout: moving from main to experiment"


def test_the_reflog_holds_no_credentials_and_its_end_is_read_alone(repo: Repo) -> None:
    repo.commit()
    line = "0" * 40 + " " + "1" * 40 + " A <a@b> 1700000000 +0000\t"
    old, new = line + "pull: " + "x" * 200, line + "clone: from https://u:secret@host/x"
    (repo.root / ".git/logs/HEAD").write_text((old + "\n") * 2000 + new + "\n")
    read = seen(repo)
    assert read["last_move.message"] == "clone: from https://host/x"
    assert read["last_pull.message"].startswith("pull: xxx")
    assert len(read["last_pull.message"]) <= 300


def test_stashes(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    for text in ("2\n", "3\n"):
        repo.write({"a": text}).git("stash", "push", "-q", "-m", f"try {text.strip()}")
    read = seen(repo)
    assert read["stash_count"] == 2
    assert read["stash[0].message"] == "On main: try 3"
    assert read["stash[1].commit"] == repo.git("rev-parse", "stash@{1}")
    assert read["dirty"] is False


def test_a_merge_under_way(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    repo.git("checkout", "-q", "-b", "other")
    repo.commit({"a": "2\n"})
    repo.git("checkout", "-q", "main")
    repo.commit({"a": "3\n"})
    repo.git("merge", "-q", "other", ok=False)
    read = seen(repo)
    assert read["in_progress"] == ["merge"]
    assert read.changed() == {"a": "unmerged"}
    assert read["changed[a].blob"] == repo.git("hash-object", "a")
    assert read["tree_id"] == repo.tree_by_git()


def test_a_rebase_and_a_bisection_under_way(repo: Repo) -> None:
    first = repo.commit({"a": "1\n"})
    repo.commit({"a": "2\n"})
    repo.git("bisect", "start", "HEAD", first)
    (repo.root / ".git/rebase-merge").mkdir()
    assert seen(repo)["in_progress"] == ["bisect", "rebase"]


def test_remotes_without_end(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit()
    for name in ("origin", "with space.url", "z"):
        repo.git("config", f"remote.{name}.url", "x")
    assert seen(repo)['remote["with space.url"].url'] == "x"
    monkeypatch.setattr(_git_facts, "MAX_REMOTES", 2)
    assert "remote[z].url" not in seen(repo).values


# -- kinds of repositories ------------------------------------------------------------------------------------


def test_no_commit_yet(repo: Repo) -> None:
    read = seen(repo.write({"a": "1\n", "b": "2\n"}))
    assert read.why("head") == Unavailable(Why.ABSENT, "HEAD names no commit yet")
    assert read["branch"] == "main"
    assert read.changed() == {"a": "untracked", "b": "untracked"}
    repo.git("add", "a")
    read = seen(repo)
    assert read.changed() == {"a": "added", "b": "untracked"}
    assert (read["staged_count"], read["untracked_count"]) == (1, 1)
    assert read["tree_id"] == repo.tree_by_git()


def test_a_bare_repository(tmp_path: Path, repo: Repo) -> None:
    head = repo.commit({"a": "1\n"})
    repo.git("clone", "-q", "--bare", str(repo.root), str(tmp_path / "bare.git"))
    read = Seen(section(tmp_path / "bare.git"), "bare.git")
    assert read["head"] == head
    assert read.why("dirty") == Unavailable(Why.NOT_SUPPORTED, "a bare repository has no working files")
    assert read["worktree_count"] == 0


def test_a_linked_worktree_has_a_head_index_and_log_of_its_own(tmp_path: Path, repo: Repo) -> None:
    first = repo.commit({"a": "1\n"})
    repo.commit({"a": "2\n"})
    other = Repo(tmp_path / "other")
    repo.git("worktree", "add", "-q", "-b", "old", str(other.root), first)
    other.write({"a": "3\n"}).git("add", "a")
    other.git("switch", "-q", "-c", "older")
    repo.write({"a": "4\n"}).git("stash", "-q")
    read = seen(other)
    assert (read["head"], read["branch"], read["worktree_count"]) == (first, "older", 2)
    assert read.changed() == {"a": "modified"}
    assert read["staged_count"] == 1
    assert read["stash_count"] == 1  # shared by all worktrees
    assert read["last_move.message"] == "checkout: moving from old to older"
    assert seen(repo)["last_move.message"] == "reset: moving to HEAD"


def test_a_linked_worktree_of_one_that_is_said_to_lie_elsewhere(tmp_path: Path, repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    repo.git("worktree", "add", "-q", str(tmp_path / "other"))
    repo.git("config", "core.worktree", str(tmp_path / "home"))
    assert seen(Repo(tmp_path / "other"))["dirty"] is False  # git does not heed the setting there


def test_a_shallow_clone(tmp_path: Path, repo: Repo) -> None:
    repo.commit()
    head = repo.commit()
    repo.git("clone", "-q", "--depth=1", f"file://{repo.root}", str(tmp_path / "clone"))
    read = seen(Repo(tmp_path / "clone"))
    assert read["shallow"] is True
    assert read["recent_commits"] == [head]


def test_hashes_of_256_bits(tmp_path: Path) -> None:
    repo = Repo.new(tmp_path / "r", "--object-format=sha256")
    repo.commit({"a": "1\n", "b": "2\n"})
    repo.settle()
    assert seen(repo)["dirty"] is False
    repo.write({"a": "3\n", "c": "4\n"})
    os.utime(repo.root / "b")
    read = seen(repo)
    assert read.changed() == {"a": "modified", "c": "untracked"}
    assert read["changed[a].blob"] == repo.git("hash-object", "a")
    assert read["tree_id"] == repo.tree_by_git()


def test_a_corrupt_index_costs_only_what_needs_it(repo: Repo) -> None:
    head = repo.commit({"a": "1\n"})
    (repo.root / ".git/index").write_bytes(b"garbage" * 20)
    read = seen(repo)
    assert read["head"] == head
    for path in ("dirty", "tree_id", "patch", "changed[a].status", "untracked_count"):
        assert read.why(path).why is Why.NOT_SUPPORTED
        assert "bad signature" in read.why(path).detail


def test_a_broken_repository_is_not_answered_for_by_the_one_around_it(repo: Repo) -> None:
    outer = repo.commit({"a": "1\n"})
    inner = repo.root / "inner"
    (inner / ".git").mkdir(parents=True)
    (inner / ".git/HEAD").write_text("ref: refs/heads/main\n")
    read = Seen(section(inner), "inner")
    assert outer not in read.values.values()
    assert read.why("head").why is Why.ABSENT
    assert "not a git repository" in read.why("head").detail


def test_a_project_with_files_named_as_in_a_bare_repository(repo: Repo) -> None:
    repo.commit({"objects/x": "1\n", "refs/x": "1\n", "HEAD": "ref: refs/heads/other\n"})
    read = seen(repo)
    assert (read["branch"], read["dirty"]) == ("main", False)


def made_up(git: Callable[[list[str]], dict[str, object]], head: str = "", **more: Any) -> Section:
    """A machine with a repository in /r and a git of its own."""
    host = FakeHost(
        {"/r/.git/HEAD": head, "/r/.git/logs/HEAD": ""},
        replies={("self",): {"cwd": "/r"}, ("environ",): {}, ("run",): lambda argv, *_: git(argv)},
        **more,
    )
    return capture(host=host, only=["git"]).sections["git"]


@pytest.mark.parametrize("branch", ["topic", ""])
def test_branches_and_logs_that_are_no_files(branch: str) -> None:
    def git(argv: list[str]) -> dict[str, object]:
        if "symbolic-ref" in argv:
            return {"code": 0 if branch else 1, "out": f"refs/heads/{branch}\n" if branch else "", "err": ""}
        if "refs/heads/topic" in argv:
            return {"code": 0, "out": "origin/topic\0behind 2\n", "err": ""}
        return {"code": 128, "out": "", "err": "fatal: made up\n"}

    read = made_up(git, "ref: refs/heads/.invalid\n")
    assert read.values.get("repo[r].branch", "") == branch
    assert read.values["repo[r].detached"] is not bool(branch)
    assert read.values.get("repo[r].behind_count") == (2 if branch else None)
    for path in ("last_move.time", "last_pull.message", "stash_count", "stash[0].commit"):
        reading = read.reading(f"repo[r].{path}")
        assert isinstance(reading, Unavailable)
        assert (reading.why, "reftable" in reading.detail) == (Why.NOT_SUPPORTED, True)
    assert read.errors == {}


def test_a_repository_that_may_not_be_read() -> None:
    refusal = {"code": 128, "out": "", "err": "fatal: error opening '/r/.git/HEAD': Permission denied\n"}
    read = made_up(lambda argv: refusal, denied=["/r/.git/HEAD"])
    for path in ("head", "dirty", "describe"):
        reading = read.reading(f"repo[r].{path}")
        assert isinstance(reading, Unavailable)
        assert reading.why is Why.DENIED


def test_a_directory_named_git_that_is_no_repository_is_passed_over(repo: Repo) -> None:
    head = repo.commit({"a": "1\n"})
    (repo.root / "inner/.git").mkdir(parents=True)
    assert Seen(section(repo.root / "inner"), "sglang")["head"] == head


def test_a_head_that_points_to_garbage(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    for garbage in (
        b"\xff\xfe\0garbage",
        b"ref: refs/heads/a\0b\n",
        b"ref: refs/heads/--all\n",
        b"ref: refs/heads/*\n",
    ):
        (repo.root / ".git/HEAD").write_bytes(garbage)
        assert seen(repo).why("head").why in (Why.ABSENT, Why.NOT_SUPPORTED)


# -- submodules -----------------------------------------------------------------------------------------------


@pytest.fixture
def with_submodule(tmp_path: Path, repo: Repo) -> tuple[Repo, Repo]:
    library = Repo.new(tmp_path / "cutlass")
    library.commit({"x.cu": "1\n"})
    library.commit({"x.cu": "2\n"})
    repo.commit({"a": "1\n"})
    repo.git("submodule", "--quiet", "add", str(library.root), "third party/cutlass")
    repo.commit()
    return repo, Repo(repo.root / "third party/cutlass")


SUB = 'submodule["third party/cutlass"]'


def test_a_submodule_as_recorded(with_submodule: tuple[Repo, Repo]) -> None:
    repo, inner = with_submodule
    read = seen(repo)
    assert read[f"{SUB}.commit"] == inner.git("rev-parse", "HEAD")
    assert read[f"{SUB}.dirty"] is False
    assert read[f"{SUB}.tree_id"] == inner.git("rev-parse", "HEAD^{tree}")
    assert read["dirty"] is False
    assert read["tree_id"] == repo.git("rev-parse", "HEAD^{tree}")


def test_a_submodule_at_another_commit(with_submodule: tuple[Repo, Repo]) -> None:
    repo, inner = with_submodule
    was = inner.git("rev-parse", "HEAD")
    inner.git("checkout", "-q", "HEAD~")
    now = inner.git("rev-parse", "HEAD")
    read = seen(repo)
    assert read[f"{SUB}.commit"] == now
    assert read.changed() == {"third party/cutlass": "modified"}
    assert read['changed["third party/cutlass"].blob'] == now
    assert f"-Subproject commit {was}\n+Subproject commit {now}\n" in read["patch"]
    assert read["tree_id"] == repo.tree_by_git()


def test_a_dirty_submodule_makes_the_tree_another_one(with_submodule: tuple[Repo, Repo]) -> None:
    repo, inner = with_submodule
    clean = seen(repo)["tree_id"]
    inner.write({"x.cu": "3\n"})
    read = seen(repo)
    assert read[f"{SUB}.dirty"] is True
    assert read[f"{SUB}.tree_id"] == inner.tree_by_git()
    assert read["dirty"] is True
    third = read["tree_id"]
    inner.write({"x.cu": "4\n"})
    assert len({clean, third, seen(repo)["tree_id"]}) == 3


def test_a_submodule_that_is_not_checked_out(tmp_path: Path, with_submodule: tuple[Repo, Repo]) -> None:
    repo, _ = with_submodule
    repo.git("clone", "-q", str(repo.root), str(tmp_path / "clone"))
    read = seen(Repo(tmp_path / "clone"))
    assert read.why(f"{SUB}.commit") == Unavailable(Why.ABSENT, "not checked out")
    assert read["dirty"] is False


def test_a_submodule_whose_change_git_was_told_to_ignore(with_submodule: tuple[Repo, Repo]) -> None:
    repo, inner = with_submodule
    repo.git("config", "submodule.third party/cutlass.ignore", "all")
    repo.git("config", "diff.ignoreSubmodules", "all")
    inner.git("checkout", "-q", "HEAD~")
    repo.git("add", "-f", "third party/cutlass")
    assert seen(repo).changed() == {"third party/cutlass": "modified"}


def test_more_submodules_than_are_looked_into(
    with_submodule: tuple[Repo, Repo], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, inner = with_submodule
    inner.git("checkout", "-q", "--detach")
    monkeypatch.setattr(_git_checkout, "MAX_SUBMODULES", 0)
    read = seen(repo)
    assert read[f"{SUB}.commit"] == inner.git("rev-parse", "HEAD")
    assert read.why(f"{SUB}.dirty").why is Why.OFF
    assert read.why("dirty").why is Why.OFF  # not known, so not clean
    assert read.why("tree_id").why is Why.NOT_SUPPORTED


def test_submodules_of_submodules_count_too(
    tmp_path: Path, with_submodule: tuple[Repo, Repo], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, inner = with_submodule
    Repo.new(tmp_path / "deep").commit({"x": "1\n"})
    inner.git("submodule", "--quiet", "add", str(tmp_path / "deep"), "deep")
    inner.commit()
    repo.commit()
    assert seen(repo)["dirty"] is False
    Repo(inner.root / "deep").write({"x": "2\n"})
    assert seen(repo)[f"{SUB}.dirty"] is True
    monkeypatch.setattr(_git_checkout, "MAX_SUBMODULES", 1)
    assert seen(repo).why(f"{SUB}.dirty").why is Why.OFF


def test_more_submodules_than_anyone_has(with_submodule: tuple[Repo, Repo], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_checkout, "MAX_LISTED_SUBMODULES", 0)
    read = seen(with_submodule[0])
    assert read["head"]
    for path in ("dirty", "tree_id", f"{SUB}.commit"):
        assert read.why(path).why is Why.TOO_LARGE


# -- which repositories ---------------------------------------------------------------------------------------


def names(read: Section) -> dict[str, list[str]]:
    """Repository -> what led to it."""
    return {p[5 : p.index("]")]: v for p, v in read.values.items() if p.endswith(".found_by")}


def test_the_working_directorys_repository_is_found_by_walking_up(repo: Repo) -> None:
    repo.commit({"a/b/c": "1\n"})
    assert names(section(repo.root, repos=(), host=Alone(repo.root / "a/b"))) == {"sglang": ["working_directory"]}


def test_a_working_directory_in_no_repository(tmp_path: Path) -> None:
    read = section(tmp_path, repos=(), host=Alone(tmp_path / "home"))
    assert (read.status, read.complete, read.values, read.unavailable) == ("ok", True, {}, {})


def test_one_that_was_asked_for_and_is_none(tmp_path: Path) -> None:
    read = section(tmp_path / "home")
    path = str(tmp_path / "home")
    assert read.unavailable == {"repo[home]": Unavailable(Why.ABSENT, f"not in a git repository: {path}")}
    assert section(tmp_path / "nowhere").unavailable.keys() == {"repo[nowhere]"}


def test_a_repository_is_read_once_however_many_ways_lead_to_it(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit({"python/sglang/__init__.py": ""})
    (tmp_path / "link").symlink_to(repo.root)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/link/python:relative:/nowhere")
    read = section(repo.root, repos=("../link",), host=Alone(repo.root))
    assert names(read) == {"sglang": ["given", "pythonpath", "working_directory"]}


def test_two_of_one_name_are_told_apart_by_their_parents(tmp_path: Path) -> None:
    for parent in ("old", "new"):
        Repo.new(tmp_path / parent / "sglang").commit()
    Repo.new(tmp_path / "vllm").commit()
    roots = tuple(str(tmp_path / name) for name in ("old/sglang", "new/sglang", "vllm"))
    assert names(section(tmp_path, repos=roots)).keys() == {"old/sglang", "new/sglang", "vllm"}


def test_editable_installs(tmp_path: Path, repo: Repo) -> None:
    repo.commit({"python/pyproject.toml": ""})
    Repo.new(tmp_path / "legacy").commit()
    site = tmp_path / "venv/lib/python3.11/site-packages"
    meta = site / "sglang-0.5.9.dist-info"
    meta.mkdir(parents=True)
    (meta / "METADATA").write_text("Name: sglang\nVersion: 0.5.9\n")
    (meta / "direct_url.json").write_text(
        json.dumps({"url": f"file://{repo.root}/python", "dir_info": {"editable": True}})
    )
    other = site / "local-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Name: local\nVersion: 1\n")
    (other / "direct_url.json").write_text(json.dumps({"url": f"file://{tmp_path}/legacy", "dir_info": {}}))
    read = section(tmp_path, repos=(), host=Alone(tmp_path / "home", path=[str(site)]))
    assert names(read) == {"sglang": ["editable:sglang"]}


def test_a_caller_in_the_middle_of_another_repository(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a git hook: its variables name a repository, and must not stand for every other."""
    head = repo.commit({"a": "1\n"})
    other = Repo.new(tmp_path / "other")
    other.commit({"b": "1\n"})
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.root / ".git/index"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "remote.injected.url")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "x")
    monkeypatch.setenv("GIT_NAMESPACE", "n")
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    read = seen(repo)
    assert read["head"] == head
    assert read["dirty"] is False
    assert not any(path.startswith("remote[") for path in read.values)


# -- what may be missing --------------------------------------------------------------------------------------


def test_the_empty_machine() -> None:
    read = capture(host=FakeHost(), only=["git"]).sections["git"]
    assert (read.status, read.errors, read.values) == ("unavailable", {}, {})


def test_git_is_not_installed(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    repo.commit({"a": "1\n"})
    monkeypatch.setenv("PATH", str(tmp_path / "home"))
    read = seen(repo)
    assert read["branch"] == "main"
    for path in ("head", "dirty", "patch", "changed[a].blob", "remote[origin].url", "describe", "upstream"):
        assert read.why(path).why is Why.ABSENT
        assert "no such program" in read.why(path).detail


@pytest.mark.parametrize("answer", ["", "garbage\n", "\0\0\0", "? \0", "H 100644 00 0\ta\0", "x" * 100_000, "\udcff\n"])
def test_git_that_answers_nonsense(repo: Repo, answer: str) -> None:
    repo.commit({"a": "1\n"})

    class Nonsense(Alone):
        def ask(self, requests: Sequence[Request]) -> list[Answer]:
            answers = super().ask(requests)
            for request, given in zip(requests, answers):
                if request[0] == "within":
                    given[1][:] = [["ok", {"code": 0, "out": answer, "err": ""}] for _ in request[2]]
            return answers

    read = capture(Scope(repos=(str(repo.root),)), Nonsense(repo.root), only=["git"]).sections["git"]
    assert read.status == "ok"
    assert read.reading("repo[sglang].branch") == Value("main")
    for path in ("repo[sglang].head", "repo[sglang].dirty", "repo[sglang].tree_id"):
        assert not isinstance(read.reading(path), Value)


def test_a_git_that_hangs_costs_its_own_readings_alone(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit({"a": "1\n"})
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(_git_run, "TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(_git_facts, "TIMEOUT_SECONDS", 0.2)
    read = seen(repo)
    assert read["branch"] == "main"
    assert read.why("head").why is Why.TIMEOUT
    assert read.why("dirty").why is Why.TIMEOUT


def test_how_often_git_is_run(repo: Repo) -> None:
    """Each run costs some milliseconds on every capture."""
    repo.commit({"a": "1\n", "b": "1\n"})
    host = Alone(repo.root)
    seen(repo, host=host)
    assert len(host.runs) == 6
    repo.write({"a": "2\n", "c": "3\n"})
    host = Alone(repo.root)
    seen(repo, host=host)
    assert len(host.runs) == 9
