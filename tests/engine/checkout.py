"""A git checkout of the installed engine in a temporary folder: the lever of commits.

The installed package is copied and committed once; every change below is a commit of its own on top of that, or a local
patch, made by replacing one text in one file. What is put first on the import path is what runs: the environment that
the engine is installed in is only read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BASE = "base"
_DATE = "2026-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class Edit:
    """One text in one file of the package, and what stands in its place.

    The text stands there once, or `first` says that its first place is meant. `also` is another pair of texts, and
    `committed` is false for a local patch.
    """

    message: str
    file: str
    old: str
    new: str
    first: bool = False
    also: tuple[str, str] | None = None
    committed: bool = True


class Moved(Exception):
    """The engine does not hold the text that an edit replaces: it is another version."""


class Checkout:
    """The repository. `path` goes first on PYTHONPATH."""

    def __init__(self, folder: Path, package: Path, edits: Mapping[str, Edit]) -> None:
        """Make it, unless it is there. Raises: Moved."""
        self.folder, self.edits = folder, edits
        self.path = folder / "python"
        if (folder / "complete").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        self.path.mkdir(parents=True)
        shutil.copytree(package, self.path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / ".gitignore").write_text("__pycache__/\n*.pyc\ncomplete\n")
        self._git("init", "--quiet", f"--initial-branch={BASE}")
        self._commit("The engine as it is installed")
        for name, edit in edits.items():
            if edit.committed:
                self._git("checkout", "--quiet", "-b", name, BASE)
                self._apply(edit)
                self._commit(edit.message)
        self._git("checkout", "--quiet", BASE)
        (folder / "complete").touch()

    def put(self, name: str = BASE) -> None:
        """Stand at a commit, or at the base with a local patch; nothing else is changed in the folder."""
        edit = self.edits.get(name)
        target = name if edit is None or edit.committed else BASE
        self._git("checkout", "--quiet", "--force", target)
        if edit is not None and not edit.committed:
            self._apply(edit)

    def _apply(self, edit: Edit) -> None:
        path = self.path / edit.file
        text = path.read_text(encoding="utf-8")
        for old, new in ((edit.old, edit.new), *((edit.also,) if edit.also else ())):
            count = text.count(old)
            if count == 0 or (count > 1 and not edit.first):
                raise Moved(f"{edit.file} holds {count} times what {edit.message!r} replaces")
            text = text.replace(old, new, 1)
        path.write_text(text, encoding="utf-8")

    def _commit(self, message: str) -> None:
        self._git("add", "--all")
        self._git("commit", "--quiet", "-m", message)

    def _git(self, *arguments: str) -> None:
        # NOTE: fixed dates, so that the same engine makes the same commits on every machine.
        dates = {"GIT_AUTHOR_DATE": _DATE, "GIT_COMMITTER_DATE": _DATE}
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false",
                    "-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null"]  # fmt: skip
        subprocess.run(
            ["git", *identity, "-C", str(self.folder), *arguments], check=True, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=600, env={**os.environ, **dates},
        )  # fmt: skip
