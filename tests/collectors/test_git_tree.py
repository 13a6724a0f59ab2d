"""What differs from HEAD: found, named, hashed and put into a patch, as git itself would see it."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from envsnap.cache import Cache
from envsnap.capture import capture
from envsnap.collectors import _git_contents, _git_index, _git_run, _git_tree
from envsnap.collectors._git_patch import Side, file_patch
from envsnap.host import Answer, Request
from envsnap.reading import Unavailable, Unset, Why
from envsnap.scope import Scope
from envsnap.snapshot import dumps, from_json, write
from tests.collectors.git_repo import Alone, Repo, Seen, isolate, section, seen


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.new(tmp_path / "r")


def applied(repo: Repo, patch: str) -> str:
    """The tree that HEAD and the patch make, by git."""
    environment = {**os.environ, "GIT_INDEX_FILE": str(repo.root.parent / "apply-index")}
    repo.git("read-tree", "HEAD", env=environment)
    data = patch.encode("utf-8", "surrogateescape")
    if data:
        repo.git("apply", "--cached", "--whitespace=nowarn", "-", input=data, env=environment)
    return repo.git("write-tree", env=environment)


def test_every_way_in_which_a_file_can_differ(repo: Repo) -> None:
    repo.commit(
        {f"{name}.py": f"{name}\n" * 5 for name in ("same", "edited", "staged", "both", "gone", "removed", "mode")}
    )
    repo.git("rm", "-q", "removed.py")
    repo.write({"staged.py": "s\n", "both.py": "one\n", "added.py": "a\nb\n"}).git("add", "-A")
    repo.write({"both.py": "two\n", "edited.py": "edited\n" * 4 + "x\ny\n", "new/file.py": "1\n2\n3"})
    (repo.root / "gone.py").unlink()
    (repo.root / "mode.py").chmod(0o755)
    read = seen(repo)
    assert read.changed() == {
        "added.py": "added",
        "both.py": "modified",
        "edited.py": "modified",
        "gone.py": "deleted",
        "mode.py": "modified",
        "new/file.py": "untracked",
        "removed.py": "deleted",
        "staged.py": "modified",
    }
    assert (read["staged_count"], read["unstaged_count"], read["untracked_count"]) == (4, 4, 1)
    assert read["dirty"] is True
    assert read["changed[both.py].blob"] == repo.git("hash-object", "both.py")
    assert isinstance(read.section.reading("repo[r].changed[gone.py].blob"), Unset)
    lines = {p: (read[f"changed[{p}].added_lines"], read[f"changed[{p}].deleted_lines"]) for p in read.changed()}
    assert lines["edited.py"] == (2, 1)
    assert lines["new/file.py"] == (3, 0)
    assert lines["gone.py"] == (0, 5)
    assert lines["mode.py"] == (0, 0)
    assert read["tree_id"] == repo.tree_by_git() == applied(repo, read["patch"])
    assert read["patch_truncated"] is False


def test_equal_content_has_one_tree_id_however_it_came_about(repo: Repo) -> None:
    repo.commit({"a": "1\n", "d/b": "1\n"})
    repo.write({"a": "2\n", "d/c": "3\n"})
    changed = seen(repo)["tree_id"]
    repo.git("add", "a")
    assert seen(repo)["tree_id"] == changed
    repo.commit()
    assert seen(repo)["tree_id"] == changed
    repo.git("reset", "-q", "--soft", "HEAD~")
    assert seen(repo)["tree_id"] == changed
    repo.write({"a": "4\n"})
    assert seen(repo)["tree_id"] != changed


def test_staged_and_taken_back_is_no_difference(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    repo.write({"a": "2\n"}).git("add", "a")
    repo.write({"a": "1\n"})
    read = seen(repo)
    assert (read["staged_count"], read["unstaged_count"], read["dirty"]) == (1, 1, False)
    assert read["tree_id"] == repo.git("rev-parse", "HEAD^{tree}")
    read = seen(repo.write({"b": "1\n"}))
    assert read.changed() == {"b": "untracked"}
    assert read["tree_id"] == repo.tree_by_git()


def test_removed_from_the_index_but_still_there(repo: Repo) -> None:
    repo.commit({"a": "1\n", "b": "1\n"})
    repo.git("rm", "-q", "--cached", "a", "b")
    repo.write({"b": "2\n"})
    read = seen(repo)
    assert read.changed() == {"b": "modified"}
    assert read["tree_id"] == repo.tree_by_git()


def test_intended_to_be_added(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    repo.write({"b": "1\n", "empty": ""}).git("add", "--intent-to-add", "b", "empty")
    read = seen(repo)
    assert read.changed() == {"b": "added", "empty": "added"}
    assert read["changed[b].blob"] == repo.git("hash-object", "b")
    assert read["tree_id"] == repo.tree_by_git() == applied(repo, read["patch"])


def test_a_file_that_only_one_side_of_a_merge_has(repo: Repo) -> None:
    repo.commit({"a": "1\n2\n3\n"})
    repo.git("checkout", "-q", "-b", "other")
    repo.git("mv", "a", "b")
    repo.commit()
    repo.git("checkout", "-q", "main")
    repo.git("mv", "a", "c")
    repo.commit()
    repo.git("merge", "-q", "other", ok=False)
    read = seen(repo)
    assert read.changed() == {"b": "unmerged"}
    assert read["changed[b].added_lines"] == 3
    assert read["tree_id"] == repo.tree_by_git()


# -- unchanged or not, without asking git ---------------------------------------------------------------------


def test_a_settled_tree_is_not_read_at_all(repo: Repo) -> None:
    repo.commit({f"{i}.py": "x\n" for i in range(20)})
    repo.settle()
    host = Recorder(repo.root)
    assert seen(repo, host=host)["dirty"] is False
    assert host.hashed == []


class Recorder(Alone):
    """Notes which files are hashed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.hashed: list[str] = []

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        self.hashed += [Path(r[1]).name for r in requests if r[0] == "blob_hash"]
        return super().ask(requests)


def test_touched_but_equal_is_unchanged(repo: Repo) -> None:
    repo.commit({"a": "1\n", "b": "1\n"})
    repo.settle()
    os.utime(repo.root / "a")
    host = Recorder(repo.root)
    assert seen(repo, host=host)["dirty"] is False
    assert host.hashed == ["a"]


def test_a_change_that_keeps_size_and_time_is_found(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    repo.settle()
    status = (repo.root / "a").stat()
    (repo.root / "a").write_text("2\n")
    os.utime(repo.root / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert seen(repo).changed() == {"a": "modified"}


def test_a_change_within_the_tick_in_which_the_index_was_written_is_found(repo: Repo) -> None:
    """The file's times, inode and size are all as the index has them; only that the index is no younger tells."""
    repo.commit({"a": "1\n", "b": "1\n"})
    noted = repo.git("ls-files", "--debug", "a").split()
    seconds, nanoseconds = noted[noted.index("mtime:") + 1].split(":")
    moment = int(seconds) * 10**9 + int(nanoseconds)
    (repo.root / "a").write_text("2\n")

    class SameTimes(Alone):
        def ask(self, requests: Sequence[Request]) -> list[Answer]:
            answers = super().ask(requests)
            for request, answer in zip(requests, answers):
                if request[0] == "lstats":
                    for row in answer[1]:
                        if row:
                            row[2:4] = [moment, moment]
                if request[0] == "stat" and request[1].endswith("/index"):
                    answer[1]["mtime_ns"] = index_moment
            return answers

    index_moment = moment + 1
    assert seen(repo, host=SameTimes(repo.root))["dirty"] is False  # what any reader of times would say
    index_moment = moment
    assert seen(repo, host=SameTimes(repo.root)).changed() == {"a": "modified"}


def test_another_file_with_the_same_size_and_times_is_looked_at(repo: Repo) -> None:
    """Moved over the old one within a tick of the clock."""
    repo.commit({"a": "1\n"})
    repo.settle()

    class OtherInode(Recorder):
        def ask(self, requests: Sequence[Request]) -> list[Answer]:
            answers = super().ask(requests)
            for request, answer in zip(requests, answers):
                if request[0] == "lstats" and answer[1]:
                    answer[1][0][4] += 1
            return answers

    host = OtherInode(repo.root)
    seen(repo, host=host)
    assert host.hashed == ["a"]


def test_changes_that_git_was_told_to_hide_are_seen(repo: Repo) -> None:
    repo.commit({"a": "1\n", "b": "1\n", "c": "1\n", "d": "1\n"})
    repo.git("update-index", "--assume-unchanged", "a", "c")
    repo.git("update-index", "--skip-worktree", "b", "d")
    repo.write({"a": "2\n", "b": "2\n"})
    (repo.root / "d").unlink()
    assert repo.git("status", "--porcelain") == ""
    read = seen(repo)
    assert read.changed() == {"a": "modified", "b": "modified"}
    assert (read["assume_unchanged_count"], read["skip_worktree_count"]) == (2, 2)
    assert read["dirty"] is True


def test_a_sparse_checkout_is_clean_without_what_it_leaves_out(repo: Repo) -> None:
    repo.commit({"a/x": "1\n", "b/y": "1\n", "z": "1\n"})
    repo.git("sparse-checkout", "set", "--cone", "a")
    assert not (repo.root / "b").exists()
    read = seen(repo)
    assert (read["sparse_checkout"], read["dirty"], read["skip_worktree_count"]) == (True, False, 1)
    assert read["tree_id"] == repo.git("rev-parse", "HEAD^{tree}")


def test_an_index_in_two_parts(repo: Repo) -> None:
    repo.commit({"a": "1\n", "b": "1\n"})
    repo.git("update-index", "--split-index")
    repo.write({"c": "1\n"}).git("add", "c")
    repo.write({"b": "2\n"})
    assert seen(repo).changed() == {"b": "modified", "c": "added"}


def test_the_executable_bit_where_it_does_not_count(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    repo.git("config", "core.fileMode", "false")
    (repo.root / "a").chmod(0o755)
    assert seen(repo)["dirty"] is False


def test_ignored_files_are_no_change(repo: Repo) -> None:
    repo.commit({".gitignore": "*.pyc\nbuild/\n"})
    repo.write({"x.pyc": "1", "build/lib/y.py": "1", "z.py": "1\n"})
    assert seen(repo).changed() == {"z.py": "untracked"}


def test_envsnaps_own_output_is_no_change(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    snapshot = capture(host=Alone(repo.root), only=["git"])
    (repo.root / ".envsnap").mkdir()
    for name in ("before.json", "deep/before.json.gz", ".envsnap/anything"):
        (repo.root / name).parent.mkdir(exist_ok=True)
        write(snapshot, repo.root / name)
    read = seen(repo.write({"results.json": "{}\n", "broken.json.gz": b"\x1f\x8b\x00"}))
    assert read.changed() == {"broken.json.gz": "untracked", "results.json": "untracked"}
    assert read["untracked_count"] == 2


# -- links, directories, names --------------------------------------------------------------------------------


def test_links_are_changes_of_their_target_name_and_never_followed(tmp_path: Path, repo: Repo) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    repo.write({"file": "1\n", "other": "1\n"})
    (repo.root / "link").symlink_to("file")
    (repo.root / "turned").symlink_to("file")
    repo.commit()
    for name in ("link", "other", "new"):
        (repo.root / name).unlink(missing_ok=True)
        (repo.root / name).symlink_to(tmp_path / "secret")
    (repo.root / "turned").unlink()
    repo.write({"turned": "now a file\n"})
    read = seen(repo)
    assert read.changed() == {"link": "modified", "new": "untracked", "other": "type_changed", "turned": "type_changed"}
    assert "hunter2" not in read["patch"]
    assert str(tmp_path / "secret") in read["patch"]
    assert read["tree_id"] == repo.tree_by_git() == applied(repo, read["patch"])


def test_a_directory_that_became_a_link_does_not_hold_its_files(tmp_path: Path, repo: Repo) -> None:
    repo.commit({"etc/passwd": "1\n", "etc/sub/x": "1\n", "moved/deep/a": "1\n"})
    repo.settle()
    outside = tmp_path / "outside"
    (repo.root / "moved").rename(repo.root / "elsewhere")
    (repo.root / "moved").symlink_to("elsewhere")
    (repo.root / "etc").rename(outside)
    (outside / "passwd").write_text("hunter2\n")
    (repo.root / "etc").symlink_to(outside)
    read = seen(repo)
    assert read.changed() == {
        "etc": "untracked",
        "etc/passwd": "deleted",
        "etc/sub/x": "deleted",
        "elsewhere/deep/a": "untracked",
        "moved": "untracked",
        "moved/deep/a": "deleted",
    }
    assert "hunter2" not in read["patch"]
    assert read["tree_id"] == repo.tree_by_git()


def test_a_file_that_became_a_directory_and_the_other_way_round(repo: Repo) -> None:
    repo.commit({"a": "1\n", "b/c": "1\n"})
    (repo.root / "a").unlink()
    (repo.root / "b/c").unlink()
    (repo.root / "b").rmdir()
    read = seen(repo.write({"a/x": "1\n", "b": "1\n"}))
    assert read.changed() == {"a": "deleted", "a/x": "untracked", "b": "untracked", "b/c": "deleted"}
    assert read["tree_id"] == repo.tree_by_git() == applied(repo, read["patch"])


def test_a_repository_inside_that_is_no_submodule(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    Repo.new(repo.root / "inner").commit({"x": "1\n"})
    read = seen(repo)
    assert read.changed() == {"inner/": "untracked"}
    assert read.why("changed[inner/].blob") == Unavailable(Why.NOT_SUPPORTED, "a repository of its own")
    assert read["tree_id"] == repo.git("rev-parse", "HEAD^{tree}")


def test_what_is_no_file_is_passed_over(repo: Repo) -> None:
    repo.commit({"a": "1\n", "b": "1\n"})
    (repo.root / "a").unlink()
    os.mkfifo(repo.root / "a")
    os.mkfifo(repo.root / "pipe")
    read = seen(repo)
    assert read.why("changed[a].status").why is Why.NOT_SUPPORTED
    assert read.why("dirty").why is Why.NOT_SUPPORTED


NAMES = [
    "with space.py",
    "-n",
    "--help",
    "new\nline",
    "tab\there",
    'quote"d',
    "back\\slash",
    "[brackets]",
    "ünï.py",
    os.fsdecode(b"latin\xff\xfe"),
    "\x1b[31mred",
    "a b/c\nd/e",
    "H 100644 0 0\tfake",
    "  ctime: 1:1",
    ":(glob)**",
    "?",
    "🙂",
]


@pytest.mark.parametrize("tracked", [False, True])
def test_any_name_that_a_file_can_have(repo: Repo, tracked: bool) -> None:
    files: dict[str, str | bytes] = dict.fromkeys(NAMES, "1\n")
    repo.commit({"a": "1\n", **(files if tracked else {})})
    repo.write({name: f"{i}\nx\n" for i, name in enumerate(NAMES)})
    read = seen(repo)
    assert read.changed() == dict.fromkeys(NAMES, "modified" if tracked else "untracked")
    assert read["tree_id"] == repo.tree_by_git() == applied(repo, read["patch"])


def test_strange_names_survive_the_file_format(repo: Repo) -> None:
    repo.commit()
    repo.write(dict.fromkeys(NAMES, "1\n"))
    snapshot = capture(Scope(repos=(str(repo.root),), cache=False), Alone(repo.root), only=["git"])
    assert from_json(json.loads(dumps(snapshot))).values == snapshot.values


# -- line ends, filters, encodings ----------------------------------------------------------------------------


def with_attributes(repo: Repo, attributes: str, **files: str | bytes) -> Repo:
    repo.commit({".gitattributes": attributes + "\n", **files})
    return repo


def rewrite(repo: Repo, **files: bytes) -> Seen:
    """Give tracked files other bytes; their times change too."""
    for name, data in files.items():
        (repo.root / name).write_bytes(data)
    return seen(repo)


@pytest.mark.parametrize(
    "attributes", ["* text", "* text=auto", "* eol=crlf", "* text eol=lf", "* crlf=input", "* crlf"]
)
def test_line_ends_that_git_converts_are_no_change(repo: Repo, attributes: str) -> None:
    with_attributes(repo, attributes, a="1\n2\n")
    read = rewrite(repo, a=b"1\r\n2\r\n")
    assert read.changed() == {}
    assert read["dirty"] is False
    read = rewrite(repo, a=b"1\r\n3\r\n")
    assert read.changed() == {"a": "modified"}
    assert (read["changed[a].added_lines"], read["changed[a].deleted_lines"]) == (1, 1)
    assert read["changed[a].blob"] == repo.git("hash-object", "--no-filters", "a")
    assert read["tree_id"] == repo.tree_by_git() == applied(repo, read["patch"])


@pytest.mark.parametrize("setting", ["true", "input"])
def test_line_ends_that_a_setting_converts(repo: Repo, setting: str) -> None:
    repo.commit({"a": "1\n2\n", "crlf": "1\r\n"})
    repo.git("config", "core.autocrlf", setting)
    assert rewrite(repo, a=b"1\r\n2\r\n", crlf=b"1\r\n").changed() == {}
    read = rewrite(repo, a=b"1\r\n2\r\n", crlf=b"1\r\n2\r\n")
    assert read.changed() == {"crlf": "modified"}
    assert read["tree_id"] == repo.tree_by_git()  # git leaves CRLF alone where it was committed


@pytest.mark.parametrize("attributes", ["", "* -text", "* binary", "*.other text"])
def test_line_ends_that_nobody_converts_are_a_change(repo: Repo, attributes: str) -> None:
    with_attributes(repo, attributes, a="1\n2\n")
    read = rewrite(repo, a=b"1\r\n2\r\n")
    assert read.changed() == {"a": "modified"}
    assert read["tree_id"] == repo.tree_by_git()


def test_what_looks_binary_is_not_converted_automatically(repo: Repo) -> None:
    with_attributes(repo, "* text=auto", a=b"\0\n", b=b"lone\rcr\n")
    read = rewrite(repo, a=b"\0\r\n", b=b"lone\rcr\r\n")
    assert read.changed() == {"a": "modified", "b": "modified"}
    assert read["tree_id"] == repo.tree_by_git()


def test_expanded_keywords_are_no_change(repo: Repo) -> None:
    with_attributes(repo, "* ident", a="$Id$\nx\n")
    assert rewrite(repo, a=b"$Id: 0123456789 $\nx\n").changed() == {}
    assert rewrite(repo, a=b"$Id: 0123456789 $\ny\n").changed() == {"a": "modified"}
    assert rewrite(repo, a=b"$Identity: x$\nx\n").changed() == {"a": "modified"}


def test_a_file_under_a_filter_is_neither_clean_nor_changed(repo: Repo) -> None:
    with_attributes(repo, "*.bin filter=vault", **{"a.bin": "1\n", "b.py": "1\n"})
    repo.git("config", "filter.vault.clean", "tr a-z A-Z")
    read = rewrite(repo, **{"a.bin": b"2\n"})
    expected = Unavailable(Why.NOT_SUPPORTED, "the clean filter vault applies, which envsnap never runs")
    assert read.why("changed[a.bin].status") == expected
    assert read["changed[a.bin].blob"] == repo.git("hash-object", "--no-filters", "a.bin")
    for path in ("dirty", "unstaged_count", "changed[a.bin].added_lines"):
        assert read.why(path) == expected
    assert read.why("tree_id").detail == f"a.bin: {expected.detail}"
    assert read["patch_truncated"] is True
    repo.write({"b.py": "2\n"})
    read = seen(repo)
    assert read["dirty"] is True  # certain by the other file
    assert read.changed() == {"b.py": "modified"}


def test_a_filter_that_nobody_configured_does_nothing(repo: Repo) -> None:
    with_attributes(repo, "* filter=vault", a="1\n")
    assert rewrite(repo, a=b"2\n").changed() == {"a": "modified"}


def test_an_untouched_file_under_a_filter_is_clean(repo: Repo) -> None:
    with_attributes(repo, "* filter=vault", a="1\n")
    repo.git("config", "filter.vault.process", "false")
    repo.settle()
    assert seen(repo)["dirty"] is False


def test_a_file_in_another_encoding_is_neither_clean_nor_changed(repo: Repo) -> None:
    with_attributes(repo, "*.txt working-tree-encoding=UTF-16LE", **{"a.txt": "1\n".encode("utf-16-le")})
    read = rewrite(repo, **{"a.txt": "1\n".encode("utf-16-le")})
    assert read.why("changed[a.txt].status") == Unavailable(
        Why.NOT_SUPPORTED, "the file is converted from UTF-16LE by git"
    )


def pointer(content: bytes) -> bytes:
    digest = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n".encode()


def test_files_of_git_lfs_are_compared_with_their_pointers(repo: Repo) -> None:
    weights = b"\0weights" * 1000
    repo.commit({name: pointer(weights) for name in ("kept.pt", "trained.pt", "pointer.pt")} | {"empty.pt": b""})
    repo.commit({".gitattributes": "*.pt filter=lfs diff=lfs merge=lfs -text\n"})
    for setting, value in (
        ("clean", "git-lfs clean -- %f"),
        ("process", "git-lfs filter-process"),
        ("required", "true"),
    ):
        repo.git("config", f"filter.lfs.{setting}", value)
    read = rewrite(repo, **{"kept.pt": weights, "trained.pt": b"\0other", "empty.pt": b""})
    assert read.changed() == {"trained.pt": "modified"}
    new = repo.git("hash-object", "--no-filters", "--stdin", input=pointer(b"\0other"))
    assert f"..{new} 100644" in read["patch"]
    assert (read["changed[trained.pt].added_lines"], read["changed[trained.pt].deleted_lines"]) == (2, 2)
    tree = applied(repo, read["patch"])
    assert read["tree_id"] == tree
    expected = repo.git("rev-parse", "HEAD:pointer.pt")
    read = rewrite(repo, **{"pointer.pt": pointer(b"\0not smudged")})
    assert f"-oid sha256:{hashlib.sha256(weights).hexdigest()}" in read["patch"]
    assert f"+oid sha256:{hashlib.sha256(bytes(1) + b'not smudged').hexdigest()}" in read["patch"]
    assert f"index {expected}..{repo.git('hash-object', '--no-filters', 'pointer.pt')}" in read["patch"]


# -- the patch ------------------------------------------------------------------------------------------------


def random_file(rnd: random.Random) -> bytes:
    words = [
        b"",
        b"a",
        b"b",
        b"def f():",
        b"    return",
        b"x" * 200,
        b"\xff\xfe",
        b"cr\r",
        b"\x0cform\x0bfeed",
        b"\xe2\x80\xa8",
    ]
    data = b"\n".join(rnd.choice(words) for _ in range(rnd.choice([0, 1, 3, 20, 400])))
    return data + rnd.choice([b"", b"\n"])


def mutated(rnd: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    for _ in range(rnd.choice([0, 1, 1, 2, 5, 50])):
        at = rnd.randrange(len(lines) + 1)
        lines[at : at + rnd.randrange(3)] = [b"new %d" % rnd.randrange(9) for _ in range(rnd.randrange(3))]
    return b"\n".join(lines)


def test_patches_of_random_files_apply(repo: Repo) -> None:
    rnd = random.Random(5)
    before = {f"{i}": random_file(rnd) for i in range(120)}
    repo.commit(dict(before))
    repo.write({name: mutated(rnd, data) if rnd.random() < 0.9 else random_file(rnd) for name, data in before.items()})
    read = seen(repo)
    assert len(read.changed()) > 80
    assert read["tree_id"] == repo.tree_by_git() == applied(repo, read["patch"])
    counts = {
        name: (int(added), int(deleted))
        for added, deleted, name in (x.split("\t") for x in repo.git("diff", "--numstat", "HEAD").splitlines())
    }
    for name in read.changed():
        ours = read[f"changed[{name}].added_lines"] - read[f"changed[{name}].deleted_lines"]
        assert ours == counts[name][0] - counts[name][1]


def test_a_patch_gives_up_finding_the_least_change_before_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    a = [f"{i % 90}\n" for i in range(2000)]
    b = [f"{i * 7 % 90}\n" for i in range(2000)]
    old, new = (Side("100644", "0" * 40, "".join(lines).encode()) for lines in (a, b))
    calls = 0
    original = difflib.SequenceMatcher.find_longest_match

    def counted(self: Any, *limits: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(self, *limits)

    monkeypatch.setattr(difflib.SequenceMatcher, "find_longest_match", counted)
    made = file_patch("x", old, new)
    assert calls < 40
    assert made.added_lines == made.deleted_lines
    assert made.added_lines is not None
    assert made.added_lines > 1000


def test_the_patch_is_gits_own_where_there_is_but_one_way_to_write_it(repo: Repo) -> None:
    body = "".join(f" {i}\n" for i in range(40))
    repo.commit(
        {
            "edited": body,
            "emptied": " 1\n",
            "filled": "",
            "gone": " 1\n 2\n",
            "gone empty": "",
            "mode": " 1\n",
            "mode and more": " 1\n",
            "no newline": " 1",
            "newline": " 1\n 2",
        }
    )
    edited = body.replace(" 3\n", " three\n").replace(" 20\n", "").replace(" 39\n", " 39\n 40\n 41\n")
    repo.write({"edited": edited, "emptied": "", "filled": " 1\n", "new": " 1\n", "new\tempty": ""})
    repo.write({"no newline": " 1\n", "newline": " 1\n 3", "mode and more": " 2\n", "dir/sp ace": " 1"})
    for name in ("gone", "gone empty"):
        (repo.root / name).unlink()
    for name in ("mode", "mode and more", "new"):
        (repo.root / name).chmod(0o755)
    (repo.root / "link").symlink_to("new")
    ours = seen(repo)["patch"]
    repo.git("add", "-A")
    theirs = repo.git("diff", "--cached", "--full-index", "--no-renames", "HEAD") + "\n"

    def files(patch: str) -> list[str]:
        return sorted(patch.split("\ndiff --git "), key=lambda part: part.removeprefix("diff --git "))

    assert [part.strip("\n").removeprefix("diff --git ") for part in files(ours)] == [
        part.strip("\n").removeprefix("diff --git ") for part in files(theirs)
    ]


def test_a_small_change_of_a_long_file_is_a_small_patch(repo: Repo) -> None:
    lines = [f"    value_{i} = {i}\n" for i in range(20_000)]
    repo.commit({"long.py": "".join(lines)})
    lines[5] = "changed\n"
    lines[10_000:10_003] = []
    lines[-1] = "changed too\n"
    read = seen(repo.write({"long.py": "".join(lines)}))
    assert (read["changed[long.py].added_lines"], read["changed[long.py].deleted_lines"]) == (2, 5)
    assert len(read["patch"]) < 2000
    assert applied(repo, read["patch"]) == read["tree_id"]


def test_binary_files_are_hashed_and_named_but_not_in_the_patch(repo: Repo) -> None:
    repo.commit({"a.bin": b"\0\1"})
    repo.write({"a.bin": b"\0\2", "b.bin": b"\0\3", "c.py": "1\n"})
    read = seen(repo)
    assert read["changed[b.bin].blob"] == repo.git("hash-object", "b.bin")
    assert read.why("changed[a.bin].added_lines") == Unavailable(Why.NOT_SUPPORTED, "a binary file")
    assert read["patch_truncated"] is True
    assert "c.py" in read["patch"]
    applied(repo, read["patch"])


def test_a_patch_has_a_limit_and_no_half_files(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_tree, "MAX_PATCH_BYTES", 1000)
    repo.commit()
    repo.write({"a": "1\n", "b": "2\n" * 2000, "c": "3\n"})
    read = seen(repo)
    assert read["patch_truncated"] is True
    assert "b/a" in read["patch"]
    assert "b/c" in read["patch"]
    assert "b/b" not in read["patch"]
    assert len(read["patch"]) <= 1000
    assert read["changed[b].added_lines"] == 2000
    applied(repo, read["patch"])


# -- limits ---------------------------------------------------------------------------------------------------


def test_large_untracked_files_are_not_read(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_index, "MAX_UNTRACKED_FILE_BYTES", 1 << 20)
    repo.commit({"a": "1\n"})
    repo.write({"weights.bin": b"x" * (1 << 21), "large.txt": b"y\n" * 150_000, "small.txt": "1\n"})
    read = seen(repo)
    assert read.changed() == dict.fromkeys(("large.txt", "small.txt", "weights.bin"), "untracked")
    assert read.why("changed[weights.bin].blob").why is Why.TOO_LARGE
    assert read["changed[large.txt].blob"] == repo.git("hash-object", "large.txt")
    assert read.why("changed[large.txt].added_lines").why is Why.TOO_LARGE
    assert (read["dirty"], read["patch_truncated"]) == (True, True)
    assert read.why("tree_id").why is Why.TOO_LARGE


def test_many_untracked_files_that_are_large_together(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_index, "MAX_UNTRACKED_BYTES", 25)
    repo.commit({"a": "1\n"})
    read = seen(repo.write({"x": "1" * 10, "y": "1" * 10, "z": "1" * 10}))
    assert read["changed[y].blob"] == repo.git("hash-object", "y")
    assert read.why("changed[z].blob").why is Why.TOO_LARGE


def test_many_changes_that_are_large_together(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_contents, "MAX_TEXTS_BYTES", 25)
    repo.commit({"x": "1" * 10, "y": "2" * 10, "z": "3" * 10})
    read = seen(repo.write({"x": "4" * 10, "y": "5" * 10, "z": "6" * 10}))
    assert read.changed() == dict.fromkeys("xyz", "modified")
    compared = [name for name in "xyz" if f"changed[{name}].added_lines" in read.values]
    assert 1 <= len(compared) <= 2
    assert read["patch_truncated"] is True
    assert read["tree_id"] == repo.tree_by_git()


def test_many_new_or_deleted_files_that_are_large_together(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_contents, "MAX_TEXTS_BYTES", 25)
    repo.commit({"x": "1" * 10, "y": "2" * 10, "z": "3" * 10})
    for name in "xyz":
        (repo.root / name).unlink()
    deleted = seen(repo)
    assert sum(f"changed[{name}].deleted_lines" in deleted.values for name in "xyz") == 2
    repo.commit()
    new = seen(repo.write({"x": "4" * 10, "y": "5" * 10, "z": "6" * 10}))
    assert sum(f"changed[{name}].added_lines" in new.values for name in "xyz") == 2


def test_more_changes_than_are_kept(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_tree, "MAX_CHANGES", 4)
    monkeypatch.setattr(_git_index, "MAX_UNTRACKED", 5)
    repo.commit({"z1": "1\n", "z2": "1\n"})
    repo.write({"z1": "2\n", "z2": "2\n", **{f"a{i}": "1\n" for i in range(9)}})
    read = seen(repo)
    assert read.section.status == "partial"
    assert read.section.reason == "r: 7 changed paths were left out"
    assert list(read.changed()) == ["z1", "z2", "a0", "a1"]  # tracked files first
    assert (read["unstaged_count"], read["untracked_count"]) == (2, 9)
    assert read.why("tree_id").why is Why.TOO_LARGE
    assert not read.section.complete


def test_a_tree_in_which_all_times_are_wrong_is_hashed_once(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a container's image: extracting it gave every file new times and inodes, and nothing updates the index."""
    monkeypatch.setattr(_git_index, "MANY", 5)
    repo.commit({f"{i}.py": f"{i}\n" for i in range(8)})
    for i in range(8):
        os.utime(repo.root / f"{i}.py", ns=(10**18, 10**18))
    monkeypatch.setattr(_git_index, "SETTLED_SECONDS", -1)
    repo.write({"3.py": "changed\n"})
    first, second, third = (Recorder(repo.root) for _ in range(3))
    expected = seen(repo, host=first, cache=True)
    assert sorted(set(first.hashed)) == [f"{i}.py" for i in range(8)]
    again = seen(repo, host=second, cache=True)
    assert set(second.hashed) == {"3.py"}
    assert {**again.values} == {**expected.values}
    repo.write({"5.py": "changed\n"})
    assert seen(repo, host=third, cache=True).changed() == {"3.py": "modified", "5.py": "modified"}
    assert not (repo.root / ".envsnap").exists()
    assert Cache(tmp_path / "home/cache/envsnap/git.json").get(f"unchanged {repo.root} True")


def test_what_is_remembered_is_not_trusted_while_files_are_fresh(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_index, "MANY", 2)
    repo.commit({"a": "1\n", "b": "1\n", "c": "1\n"})
    for name in "abc":
        os.utime(repo.root / name)
    hosts = Recorder(repo.root), Recorder(repo.root)
    for host in hosts:
        seen(repo, host=host, cache=True)
    assert hosts[0].hashed == hosts[1].hashed != []


def test_how_fresh_files_are_is_told_by_the_machine_s_clock(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    class Early(Recorder):
        """A machine on which it is still the moment at which the files were written."""

        def self(self) -> dict[str, Any]:
            return {**super().self(), "time": 1e9}

    monkeypatch.setattr(_git_index, "MANY", 2)
    repo.commit({"a": "1\n", "b": "1\n", "c": "1\n"})
    monkeypatch.setattr(_git_index, "SETTLED_SECONDS", -1.0)
    for name in "abc":
        os.utime(repo.root / name, ns=(10**18, 10**18))
    for host_of, hashed in ((Early, 3), (Early, 3), (Recorder, 3), (Recorder, 0)):
        host = host_of(repo.root)
        seen(repo, host=host, cache=True)
        assert len(host.hashed) == hashed


def test_more_files_to_hash_than_is_sensible(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_index, "MAX_STALE", 3)
    repo.commit({f"{i}": "1\n" for i in range(5)})
    for i in range(5):
        os.utime(repo.root / f"{i}")
    read = seen(repo)
    assert read["head"]
    for path in ("dirty", "tree_id", "unstaged_count", "changed[1].status"):
        assert read.why(path).why is Why.TOO_LARGE
        assert "`git status` updates the index" in read.why(path).detail


def test_more_files_than_can_be_listed(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_run, "OUTPUT_LIMIT", 4096)
    repo.commit({f"{i}": "1\n" for i in range(50)})
    read = seen(repo)
    assert read["head"]
    assert read.why("dirty").why is Why.TOO_LARGE


def test_more_converted_files_than_are_looked_into(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_contents, "MAX_CONVERTED", 1)
    with_attributes(repo, "* text", a="1\n", b="1\n")
    read = rewrite(repo, a=b"1\r\n", b=b"1\r\n")
    assert read.changed() == {}
    assert read.why("changed[b].status").why is Why.TOO_LARGE
    assert read.why("dirty").why is Why.TOO_LARGE


def test_a_converted_file_that_is_too_large_to_convert_here(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_contents, "MAX_TEXT_BYTES", 10)
    with_attributes(repo, "* text", a="1\n" * 20, b="1\n" * 20)
    read = rewrite(repo, a=b"1\r\n" * 20)
    assert read.why("changed[a].status").why is Why.TOO_LARGE
    assert read.why("dirty").why is Why.TOO_LARGE


def test_an_unreadable_file_is_not_clean(repo: Repo) -> None:
    class Denied(Alone):
        def ask(self, requests: Sequence[Request]) -> list[Answer]:
            answers = super().ask(requests)
            return [
                ["missing", "denied", "Permission denied"] if r[0] == "blob_hash" and r[1].endswith("/a") else answer
                for r, answer in zip(requests, answers)
            ]

    repo.commit({"a": "1\n", "b": "1\n"})
    os.utime(repo.root / "a")
    read = seen(repo, host=Denied(repo.root))
    assert read.why("changed[a].status").why is Why.DENIED
    assert read.why("dirty").why is Why.DENIED
    assert read.why("tree_id").why is Why.DENIED


def test_a_stash_log_without_end(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    logs = repo.root / ".git/logs/refs"
    (logs / "stash").write_text(("0" * 40 + " " + "1" * 40 + " A <a@b> 1 +0000\tWIP\n") * 2000)
    assert seen(repo).why("stash_count").why is Why.TOO_LARGE


def test_a_path_deeper_than_any_tree_needs(repo: Repo) -> None:
    repo.commit()
    read = seen(repo.write({"a/" * 250 + "x": "1\n"}))
    assert list(read.changed().values()) == ["untracked"]
    assert read.why("tree_id").why is Why.TOO_LARGE


def test_more_comparing_than_is_sensible(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_git_tree, "MAX_STEPS", 6)
    repo.commit({"a": "1\n2\n3\n4\n", "b": "1\n2\n3\n4\n"})
    read = seen(repo.write({"a": "0\n2\n3\n0\n", "b": "0\n2\n3\n0\n"}))
    lines = [read[f"changed[{name}].added_lines"] for name in "ab"]
    assert lines == [2, 4]  # the second has no steps left to find its two equal lines
    assert read["tree_id"] == applied(repo, read["patch"])


def test_git_agrees_on_this_very_machine(tmp_path: Path) -> None:
    """A mixed tree, read as a whole, against `git status`."""
    rnd = random.Random(11)
    repo = Repo.new(tmp_path / "mixed")
    names = [f"d{rnd.randrange(5)}/e{rnd.randrange(4)}/f{i}.py" for i in range(150)]
    repo.commit({name: random_file(rnd) for name in names})
    repo.settle()
    for name in rnd.sample(names, 60):
        action = rnd.randrange(5)
        path = repo.root / name
        if action == 0:
            path.unlink(missing_ok=True)
        elif action == 1:
            path.chmod(0o755)
        elif action == 2:
            repo.write({name: random_file(rnd)})
        elif action == 3:
            os.utime(path)
        else:
            repo.write({name + ".new": "1\n"})
        if rnd.random() < 0.3:
            repo.git("add", "-A", str(Path(name).parent))
    read = seen(repo)
    status = repo.git("status", "--porcelain", "-uall", "--no-renames", "-z").split("\0")
    assert len(status) > 30
    differing = (
        subprocess.run(
            ["git", "diff", "--name-only", "-z", "--no-renames", "HEAD"], cwd=repo.root, capture_output=True, check=True
        )
        .stdout.decode()
        .split("\0")
    )
    untracked = [line[3:] for line in status if line.startswith("??")]
    assert sorted(read.changed()) == sorted([*differing[:-1], *untracked])
    assert read["tree_id"] == repo.tree_by_git() == applied(repo, read["patch"])
    assert section(repo.root).complete
