"""Reading a hostile repository runs nothing of it, writes nothing, fetches nothing and asks nothing."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from envsnap import machine
from envsnap.collectors import _git_facts, _git_run
from envsnap.reading import Unavailable, Why
from tests.collectors.git_repo import Repo, Seen, isolate, section, seen, wrapped_git


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.new(tmp_path / "r")


class Trap:
    """Two programs that leave a trace when they are run: one hands its input on, as a filter does, one ends at once."""

    def __init__(self, directory: Path) -> None:
        self.trace = directory / "trace"
        self.program = directory / "filter"
        self.mute = directory / "mute"
        for program, rest in ((self.program, "cat"), (self.mute, "exit 1")):
            program.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.trace}\n{rest}\n')
            program.chmod(0o755)

    def sprung(self) -> bool:
        """Whether it was run since this was last asked."""
        found = self.trace.exists()
        self.trace.unlink(missing_ok=True)
        return found


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    (tmp_path / "traps").mkdir()
    return Trap(tmp_path / "traps")


def attribute(repo: Repo, text: str) -> None:
    (repo.root / ".git/info").mkdir(exist_ok=True)
    (repo.root / ".git/info/attributes").write_text(text + "\n")


def set_fsmonitor(repo: Repo, program: Path) -> None:
    repo.git("config", "core.fsmonitor", str(program))


def set_clean(repo: Repo, program: Path) -> None:
    attribute(repo, "* filter=evil")
    repo.git("config", "filter.evil.clean", str(program))
    repo.git("config", "filter.evil.smudge", str(program))
    repo.git("config", "filter.evil.required", "true")


def set_process(repo: Repo, program: Path) -> None:
    attribute(repo, "* filter=ev=il")
    repo.git("config", "filter.ev=il.process", str(program))


def set_textconv(repo: Repo, program: Path) -> None:
    attribute(repo, "* diff=evil")
    repo.git("config", "diff.evil.textconv", str(program))


def set_diff_command(repo: Repo, program: Path) -> None:
    attribute(repo, "* diff=evil")
    repo.git("config", "diff.evil.command", str(program))


def set_external_diff(repo: Repo, program: Path) -> None:
    repo.git("config", "diff.external", str(program))


def set_signatures(repo: Repo, program: Path) -> None:
    signed = repo.git("cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n\n", 1
    )
    commit = repo.git("hash-object", "-t", "commit", "-w", "--stdin", input=(signed + "\n").encode())
    repo.git("update-ref", "HEAD", commit)
    repo.git("config", "log.showSignature", "true")
    repo.git("config", "gpg.program", str(program))


def set_hooks(repo: Repo, program: Path) -> None:
    hooks = repo.root / ".git/evil-hooks"
    hooks.mkdir()
    for name in ("post-index-change", "post-checkout", "pre-commit", "reference-transaction", "fsmonitor-watchman"):
        (hooks / name).symlink_to(program)
    repo.git("config", "core.hooksPath", str(hooks))


def set_pager(repo: Repo, program: Path) -> None:
    for name in ("core.pager", "pager.ls-files", "pager.rev-list", "pager.config", "core.editor", "core.askPass"):
        repo.git("config", name, str(program))


TRAPS: list[tuple[Callable[[Repo, Path], None], tuple[str, ...]]] = [
    (set_fsmonitor, ("status",)),
    (set_clean, ("status",)),
    (set_process, ("status",)),
    (set_textconv, ("diff", "HEAD")),
    (set_diff_command, ("diff", "HEAD")),
    (set_external_diff, ("diff", "HEAD")),
    (set_signatures, ("log", "-1")),
    (set_hooks, ("update-index", "--refresh")),
    (set_pager, ("-p", "ls-files")),
]


def with_work_in_progress(repo: Repo) -> Repo:
    """A tree in which everything that the traps guard has to be looked at: touched, changed, staged, new, deleted."""
    repo.commit({name: f"{name}\n" for name in ("touched", "changed", "staged", "deleted")})
    repo.settle()
    os.utime(repo.root / "touched")
    repo.write({"staged": "other\n"}).git("add", "staged")
    repo.write({"changed": "other\n", "new": "new\n"})
    (repo.root / "deleted").unlink()
    return repo


@pytest.mark.parametrize(("set_trap", "trigger"), TRAPS, ids=[t[0].__name__ for t in TRAPS])
def test_nothing_that_a_repository_configures_is_run(
    repo: Repo, trap: Trap, set_trap: Callable[[Repo, Path], None], trigger: tuple[str, ...]
) -> None:
    with_work_in_progress(repo)
    set_trap(repo, trap.program)
    trap.sprung()
    read = seen(repo)
    assert not trap.sprung()
    assert read["head"]
    assert read["dirty"] is True
    assert {"deleted", "new", "staged"} <= read.changed().keys()
    if trigger[0] == "-p":
        _on_a_terminal(repo, trigger)
    else:
        repo.git(*trigger, ok=False)
    assert trap.sprung(), "the trap is dead, so the test says nothing"


def _on_a_terminal(repo: Repo, arguments: tuple[str, ...]) -> None:
    main, side = os.openpty()
    try:
        subprocess.run(
            ["git", *arguments], cwd=repo.root, stdin=side, stdout=side, stderr=side, timeout=20, check=False
        )
    finally:
        os.close(main)
        os.close(side)


def test_nothing_of_a_submodule_is_run_either(tmp_path: Path, repo: Repo, trap: Trap) -> None:
    library = Repo.new(tmp_path / "library")
    library.commit({"x": "1\n"})
    repo.commit({"a": "1\n"})
    repo.git("submodule", "--quiet", "add", str(library.root), "library")
    repo.commit()
    inner = Repo(repo.root / "library")
    git_dir = Path(inner.git("rev-parse", "--absolute-git-dir"))
    (git_dir / "info/attributes").write_text("* filter=evil diff=evil\n")
    for name in ("core.fsmonitor", "filter.evil.clean", "diff.evil.textconv"):
        inner.git("config", name, str(trap.program))
    os.utime(inner.root / "x")
    trap.sprung()
    read = seen(repo)
    assert not trap.sprung()
    assert read["submodule[library].commit"] == library.git("rev-parse", "HEAD")
    repo.git("status", ok=False)
    assert trap.sprung()


def test_programs_that_the_callers_environment_names_are_not_run(
    tmp_path: Path, repo: Repo, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_work_in_progress(repo)
    for name in ("EXTERNAL_DIFF", "PAGER", "EDITOR", "ASKPASS", "SSH_COMMAND", "PROXY_COMMAND"):
        monkeypatch.setenv(f"GIT_{name}", str(trap.program))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor={trap.program}'")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace.log"))
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(tmp_path / "trace2.log"))
    seen(repo)
    assert not trap.sprung()
    assert not (tmp_path / "trace.log").exists()
    assert not (tmp_path / "trace2.log").exists()
    repo.git("diff", "HEAD")
    assert trap.sprung()


def test_a_program_called_git_in_the_repository_is_not_run(
    repo: Repo, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = with_work_in_progress(repo).git("rev-parse", "HEAD")
    (repo.root / "git").symlink_to(trap.program)
    monkeypatch.chdir(repo.root)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    assert seen(repo)["head"] == head
    assert not trap.sprung()


# -- nothing is written ---------------------------------------------------------------------------------------


def everything_below(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """Inode, mode, size and times of whatever is there."""
    found = {}
    for path in sorted(root.rglob("*")):
        s = path.lstat()
        found[str(path)] = (s.st_ino, s.st_mode, s.st_mtime_ns, s.st_ctime_ns)
    return found


def test_nothing_is_written_into_the_repository(repo: Repo) -> None:
    with_work_in_progress(repo)
    before = everything_below(repo.root)
    seen(repo)
    assert everything_below(repo.root) == before
    repo.git("status")
    assert everything_below(repo.root) != before, "git status would have written the index"


def test_a_lock_that_someone_holds_is_no_obstacle(repo: Repo) -> None:
    with_work_in_progress(repo)
    free = seen(repo).values
    (repo.root / ".git/index.lock").write_text("")
    assert seen(repo).values == free


def test_a_repository_that_may_not_be_written(repo: Repo) -> None:
    with_work_in_progress(repo)
    before = seen(repo).values
    directories = [p for p in (repo.root / ".git").rglob("*") if p.is_dir()] + [repo.root / ".git"]
    for directory in directories:
        directory.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert seen(repo).values == before
    finally:
        for directory in directories:
            directory.chmod(0o755)


# -- nothing is fetched ---------------------------------------------------------------------------------------


@pytest.fixture(params=["this git", "an old git"])
def any_git(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old git does not know the variable that forbids it to fetch what is missing."""
    if request.param == "an old git":
        wrapped_git(tmp_path, monkeypatch, "unset GIT_NO_LAZY_FETCH")


@pytest.mark.usefixtures("any_git")
def test_missing_objects_of_a_partial_clone_are_not_fetched(tmp_path: Path, repo: Repo, trap: Trap) -> None:
    repo.commit({"a": "old\n"})
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = Repo(tmp_path / "clone")
    repo.git("clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repo.root}", str(clone.root))
    clone.git("config", "remote.origin.uploadpack", str(trap.mute))
    clone.git("config", "core.sshCommand", str(trap.mute))
    clone.git("read-tree", "HEAD")
    clone.write({"a": "new\n"})
    missing = repo.git("rev-parse", "HEAD:a")
    before = everything_below(clone.root / ".git")
    read = seen(clone)
    assert not trap.sprung()
    assert everything_below(clone.root / ".git") == before
    assert read["head"] == repo.git("rev-parse", "HEAD")
    assert read.changed() == {"a": "modified"}
    assert read["tree_id"]
    assert read.why("changed[a].added_lines").why is Why.TOO_LARGE
    assert read["patch_truncated"] is True
    clone.git("cat-file", "-p", missing, ok=False)
    assert trap.sprung(), "git by itself would have fetched"


@pytest.mark.usefixtures("any_git")
@pytest.mark.parametrize("url", ["ssh://host.invalid/x", "ext::{program}", "git://host.invalid/x", "evil::x"])
def test_no_transport_of_a_partial_clone_is_started(repo: Repo, trap: Trap, url: str) -> None:
    repo.commit({"a": "1\n"})
    blob = repo.git("rev-parse", "HEAD:a")
    repo.git("remote", "add", "origin", url.format(program=trap.mute))
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("core.sshCommand", str(trap.mute)),
        ("core.gitProxy", str(trap.mute)),
        ("protocol.ext.allow", "always"),
        ("credential.helper", str(trap.mute)),
    ):
        repo.git("config", name, value)
    (repo.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    repo.write({"a": "2\n"})
    assert seen(repo).changed() == {"a": "modified"}
    assert not trap.sprung()


# -- whom git does not trust, and whom it should not ----------------------------------------------------------


def test_a_repository_of_another_user(tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git's own switch for its tests plays the other user, so that this runs without being root."""
    repo.commit({"a": "1\n"})
    repo.git("remote", "add", "origin", "x")
    wrapped_git(tmp_path, monkeypatch, "export GIT_TEST_ASSUME_DIFFERENT_OWNER=$TEST_OWNER")
    monkeypatch.setenv("TEST_OWNER", "1")
    read = seen(repo)
    refused = Unavailable(
        Why.DENIED, f"git refuses: owned by another user; git config --global --add safe.directory {repo.root}"
    )
    for fact in ("head", "dirty", "tree_id", "patch", "changed[a].blob", "remote[origin].url", "describe"):
        assert read.why(fact) == refused
    assert read["branch"] == "main"
    monkeypatch.setenv("TEST_OWNER", "0")
    repo.git("config", "--global", "--add", "safe.directory", str(repo.root))
    monkeypatch.setenv("TEST_OWNER", "1")
    assert seen(repo)["dirty"] is False


def test_a_working_tree_that_is_said_to_lie_elsewhere(tmp_path: Path, repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "id_rsa").write_text("hunter2\n")
    repo.git("config", "core.worktree", str(secrets))
    read = seen(repo)
    assert read.why("dirty") == Unavailable(Why.NOT_SUPPORTED, f"core.worktree names another directory: {secrets}")
    assert "id_rsa" not in str(read.values)
    assert read["head"]


def test_a_working_tree_that_is_said_to_lie_where_it_does(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    repo.git("config", "core.worktree", "../../r")
    assert seen(repo)["dirty"] is False


def test_settings_that_never_end(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit({"a": "1\n"})
    os.mkfifo(repo.root / ".git/pipe")
    repo.git("config", "include.path", "pipe")
    monkeypatch.setattr(_git_run, "TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(_git_facts, "TIMEOUT_SECONDS", 0.3)
    read = seen(repo)
    assert read.why("head").why is Why.TIMEOUT
    assert read["branch"] == "main"


@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "/etc/passwd"])
@pytest.mark.parametrize("name", ["HEAD", "logs/HEAD", "shallow", "commondir", "index"])
def test_files_of_git_that_are_something_else(
    repo: Repo, name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "RUN_MEMORY", 64 << 20)
    monkeypatch.setattr(_git_run, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(_git_facts, "TIMEOUT_SECONDS", 0.5)
    repo.commit({"a": "1\n"})
    os.mkfifo(repo.root / "pipe")
    path = repo.root / ".git" / name
    path.unlink(missing_ok=True)
    path.symlink_to(target if target.startswith("/") else repo.root / "pipe")
    read = Seen(section(repo.root), "r")
    assert "root:" not in str(read.values)


@pytest.mark.parametrize("name", ["commondir", "objects/info/alternates"])
def test_files_that_never_end_cost_no_memory(repo: Repo, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git reads these whole: 5 GB in the five seconds that it is given."""
    monkeypatch.setattr(machine, "RUN_MEMORY", 64 << 20)
    repo.commit({"a": "1\n"})
    (repo.root / ".git" / name).symlink_to("/dev/zero")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    read = seen(repo)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 128 << 10)
    assert read.why("head").why is Why.NOT_SUPPORTED
    assert "memory" in read.why("head").detail.lower()


def test_a_patch_cannot_look_like_another_file(repo: Repo) -> None:
    repo.commit()
    repo.write({"a\n+++ b/etc/passwd\n": "1\n", "b": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n"})
    read = seen(repo)
    headers = [line for line in read["patch"].split("\n") if line.startswith("+++ ")]
    assert headers == ['+++ "b/a\\n+++ b/etc/passwd\\n"\t', "+++ b/b"]
