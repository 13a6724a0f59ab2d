"""Code as a side had it, in a folder of its own: a revision with that side's local changes, or a package's version.

The user's working tree is only read, by `git archive`; nothing is checked out, stashed or locked in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from envsnap.keys import path_of
from envsnap.redact import HASH
from envsnap.snapshot import Snapshot

_SECONDS = 300


@dataclass(frozen=True)
class Tree:
    """A repository's folder, a commit in it, and the patch that was on top."""

    root: str
    commit: str
    patch: str


def tree_of(snapshot: Snapshot, name: str) -> Tree | str:
    """The code of a repository in a snapshot, or why it cannot be made again."""
    root, head, patch, cut = (
        snapshot.values.get(path_of(f"repo[].{what}", name)) for what in ("root", "head", "patch", "patch_truncated")
    )
    if not isinstance(root, str) or not isinstance(head, str):
        return f"the commit of {name} was not recorded on both sides"
    if cut:
        return f"the local changes of {name} were not recorded whole"
    if isinstance(patch, str) and HASH.search(patch):
        return f"the local changes of {name} hold a secret, of which only the hash was kept"
    return Tree(root, head, patch if isinstance(patch, str) else "")


def missing(tree: Tree) -> str:
    """Why the tree cannot be unpacked here; empty where it can."""
    done = _git(["-C", tree.root, "cat-file", "-e", f"{tree.commit}^{{commit}}"])
    return f"commit {tree.commit[:10]} is not in {tree.root} any more" if done is None or done.returncode else ""


def unpack(tree: Tree, target: Path) -> str:
    """Make the tree in `target`, unless it is there; why that failed, or nothing."""
    if target.exists():
        return ""
    if problem := missing(tree):
        return problem
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700)
    command = ["git", "-C", tree.root, "archive", "--format=tar", tree.commit]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=_environment()) as git:  # fmt: skip
        assert git.stdout is not None
        try:
            with tarfile.open(fileobj=git.stdout, mode="r|") as archive:
                if hasattr(tarfile, "data_filter"):
                    archive.extractall(part, filter="data")
                else:
                    archive.extractall(part)
        except tarfile.TarError as error:
            return f"git cannot unpack {tree.commit[:10]}: {error}"
        except OSError as error:
            return f"{tree.commit[:10]} cannot be unpacked: {error.strerror}"
    if git.returncode:
        return f"git cannot unpack {tree.commit[:10]}"
    if tree.patch.strip():
        # NOTE: below another repository, git would apply nothing to what that one does not track, and say nothing.
        ceiling = {**_environment(), "GIT_CEILING_DIRECTORIES": str(part.resolve().parent)}
        done = _git(["apply", "--whitespace=nowarn", "-"], cwd=part, stdin=tree.patch, environment=ceiling)
        if done is None or done.returncode:
            return f"the local changes on {tree.commit[:10]} cannot be applied again"
    part.rename(target)
    return ""


def import_paths(target: Path) -> tuple[str, ...]:
    """The folders of a tree from which Python imports: `python`, `src`, itself."""
    return tuple(str(p) for p in (target / "python", target / "src", target) if p.is_dir() or p == target)


def python_of(snapshot: Snapshot) -> str:
    """The interpreter that the server ran in, else this one."""
    for path, value in snapshot.values.items():
        if path.startswith("worker[") and path.endswith("].executable") and "python" in str(value):
            return str(value)
    return sys.executable


def install(name: str, version: str, wheels: str, target: Path, python: str, write: bool) -> str:
    """Install one package alone into a folder, from wheels that are at hand; why that failed, or nothing."""
    if not wheels:
        return f"no folder of wheels was given to take {name} {version} from (--wheels)"
    if target.exists() or not write:
        return ""
    command = [python, "-m", "pip", "install", "--no-index", "--no-deps", "--find-links", wheels,
               "--target", str(target), f"{name}=={version}"]  # fmt: skip
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    if done is None or done.returncode:
        shutil.rmtree(target, ignore_errors=True)
        return f"{name} {version} could not be installed from {wheels}"
    return ""


def _git(
    arguments: list[str], cwd: Path | None = None, stdin: str = "", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes] | None:
    """Run git; None where there is none or it hangs."""
    try:
        return subprocess.run(
            ["git", *arguments], cwd=cwd, input=stdin.encode(errors="surrogateescape"), capture_output=True,
            timeout=_SECONDS, env=environment or _environment(),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")}
    return {**kept, "GIT_OPTIONAL_LOCKS": "0"}
