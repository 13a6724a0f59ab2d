"""The engine's tree: one checkout, in which all servers of a lab run.

What the engine compiles at run time is found again by the path of its sources: a server that ran from elsewhere would
compile everything once more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.engine.checkout import BASE, Checkout
from tests.engine.plants import EDITS

_SETTLED = 1_767_225_600
"""Time of every file that a plant changes (2026): older than any server, so that none looks older than its code."""


class Installed(Checkout):
    """The engine as it lies in the kit, where there is no git: it stands at its base, and nowhere else."""

    def __init__(self, path: Path) -> None:
        """`path` goes first on PYTHONPATH."""
        self.folder = self.path = path
        self.edits = {}

    def put(self, name: str = BASE) -> None:
        """Raises: ValueError for anything but the base."""
        if name != BASE:
            raise ValueError(f"there is no git to make {name} with")


def has_git() -> bool:
    """Whether a checkout can be made here; without one the commits are left out, and the kit's own engine runs."""
    return shutil.which("git") is not None


def is_made(folder: Path) -> bool:
    """Whether the checkout is there."""
    return (folder / "complete").exists() or not has_git()


def tree_of(folder: Path, package: Path, python: str) -> Checkout:
    """The checkout in `folder` of an installed package, at its base; its files are compiled once for all servers.

    Raises: Moved, subprocess.SubprocessError.
    """
    if not has_git():
        return Installed(package.parent)
    made = Checkout(folder, package, EDITS)
    stand(made, BASE)
    command = [python, "-m", "compileall", "-q", "-j", "0", str(made.path)]
    subprocess.run(command, check=False, capture_output=True, timeout=120)
    return made


def stand(checkout: Checkout, code: str, moved: str = "") -> None:
    """Put the checkout at a commit. No file looks newer than it was, but that of a commit that it `moved` away from."""
    checkout.put(code)
    for edit in checkout.edits.values():
        if (path := checkout.path / edit.file).exists():
            os.utime(path, (_SETTLED, _SETTLED))
    if moved:
        os.utime(checkout.path / checkout.edits[moved].file)
