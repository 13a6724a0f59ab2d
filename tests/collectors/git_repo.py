"""Real git repositories in a temporary directory, and envsnap's view of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.host import Answer, LiveHost, Request
from envsnap.reading import Unavailable, Value
from envsnap.scope import Scope
from envsnap.snapshot import Section


def isolate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the settings and repositories of whoever runs the tests."""
    for name in [n for n in os.environ if n.startswith("GIT_")] + ["XDG_CONFIG_HOME", "PYTHONPATH"]:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home/cache"))


class Alone(LiveHost):
    """This machine with nothing installed, seen from a directory. Counts how often git is run."""

    def __init__(self, directory: Path, path: Sequence[str] = ()) -> None:
        super().__init__()
        self.directory = directory
        self.path = list(path)
        self.runs: list[list[str]] = []

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        for request in requests:
            for asked in request[2] if request[0] == "within" else [request]:
                if asked[0] == "run":
                    self.runs.append(asked[1])
        answers = super().ask(requests)
        for request, answer in zip(requests, answers):
            if request[0] == "self":
                answer[1].update(cwd=str(self.directory), path=self.path)
        return answers


class Repo:
    """A repository with a working tree, and git to work on it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def new(cls, root: Path, *options: str) -> Repo:
        root.mkdir(parents=True, exist_ok=True)
        repo = cls(root)
        repo.git("init", "-q", "-b", "main", *options)
        return repo

    def git(self, *arguments: str, ok: bool = True, **more: Any) -> str:
        """Run git in the repository; its output, without the last line feed."""
        if "input" not in more:
            more["stdin"] = subprocess.DEVNULL
        ran = subprocess.run(
            [
                "git",
                "-c",
                "user.name=A",
                "-c",
                "user.email=a@b.example",
                "-c",
                "protocol.file.allow=always",
                *arguments,
            ],
            cwd=self.root,
            capture_output=True,
            check=ok,
            timeout=30,
            **more,
        )
        return os.fsdecode(ran.stdout).rstrip("\n")

    def write(self, files: Mapping[str, str | bytes]) -> Repo:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        return self

    def commit(self, files: Mapping[str, str | bytes] | None = None, message: str = "a change") -> str:
        """Write files, commit everything; the commit's hash."""
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def settle(self) -> None:
        """Make git take every file for older than its index, so that times alone tell that it is unchanged."""
        for path in self.root.rglob("*"):
            if ".git" not in path.parts and path.is_file() and not path.is_symlink():
                os.utime(path, ns=(10**18, 10**18))
        self.git("update-index", "-q", "--refresh", ok=False)

    def tree_by_git(self) -> str:
        """The tree that git would write of all that is there, by way of an index of its own."""
        environment = {**os.environ, "GIT_INDEX_FILE": str(self.root.parent / "other-index")}
        self.git("read-tree", "HEAD", ok=False, env=environment)
        self.git("add", "--all", env=environment)
        return self.git("write-tree", env=environment)


def wrapped_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    """Put a `git` before the real one that runs a line of shell first."""
    real = shutil.which("git")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text(f'#!/bin/sh\n{shell}\nexec {real} "$@"\n')
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")


def section(root: Path, *, host: Alone | None = None, **scope: Any) -> Section:
    """What the collector reads of the repository at `root`; nothing may go wrong."""
    scope = {"repos": (str(root),), "cache": False, **scope}
    read = capture(Scope(**scope), host or Alone(root.parent), only=["git"]).sections["git"]
    assert read.errors == {}
    assert read.status != "error"
    return read


class Seen:
    """The readings of one repository, without the `repo[name].` before each."""

    def __init__(self, read: Section, name: str) -> None:
        prefix = f"repo[{name}]."
        self.section = read
        self.values = {p.removeprefix(prefix): v for p, v in read.values.items() if p.startswith(prefix)}
        self.prefix = prefix

    def __getitem__(self, path: str) -> Any:
        reading = self.section.reading(self.prefix + path)
        assert isinstance(reading, Value), f"{path}: {reading}"
        return reading.value

    def why(self, path: str) -> Unavailable:
        reading = self.section.reading(self.prefix + path)
        assert isinstance(reading, Unavailable), f"{path}: {reading}"
        return reading

    def changed(self) -> dict[str, str]:
        """Path -> status, of all changes whose status is known."""
        from envsnap.keys import instances_of

        return {
            instances_of(p)[-1]: v for p, v in self.values.items() if p.startswith("changed[") and p.endswith(".status")
        }


def seen(repo: Repo, **more: Any) -> Seen:
    """What the collector reads of one repository."""
    return Seen(section(repo.root, **more), repo.root.name)
