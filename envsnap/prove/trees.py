"""Code as a side had it, in a folder of its own: a revision with that side's local changes, or a package's version.

The user's working tree is only read, by an index of our own; nothing is checked out, stashed or locked in it.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envsnap.keys import path_of
from envsnap.redact import HASH
from envsnap.snapshot import Snapshot
from envsnap.wording import clip

_SECONDS = 300
_MAX_BUILT = 2000


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


def unpack(tree: Tree, target: Path, patches: Sequence[tuple[str, bool]] = ()) -> str:
    """Make the tree in `target`, unless it is there; why that failed, or nothing.

    `patches` go on top in their order, those that are true backwards. Raises: OSError where the disk is full.
    """
    if target.exists():
        return ""
    if problem := missing(tree):
        return problem
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(mode=0o700)
        problem = _check_out(tree, part) or _apply([*([(tree.patch, False)] if tree.patch.strip() else []), *patches],
                                                   part, tree.commit)  # fmt: skip
        if not problem:
            _link_built(tree, part)
            part.rename(target)
    except OSError as error:
        problem = f"{tree.commit[:10]} cannot be unpacked: {error.strerror}"
    if problem:
        shutil.rmtree(part, ignore_errors=True)
    if os.strerror(errno.ENOSPC) in problem:  # says nothing about the code, and is no reason to go on without it
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target.parent))
    return problem


def _check_out(tree: Tree, part: Path) -> str:
    """Write a commit's files, by an index of our own: that of the user's tree is neither read nor locked."""
    index = part.with_name(f"{part.name}.index")
    environment = {**_environment(), "GIT_INDEX_FILE": str(index.absolute())}
    try:
        for command in (["read-tree", tree.commit], ["checkout-index", "--all", f"--prefix={part.absolute()}/"]):
            done = _git(["-C", tree.root, *command], environment=environment)
            if done is None or done.returncode:
                told = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] if done else "it hangs"
                return f"git cannot unpack {tree.commit[:10]}: {clip(told, 200)}"
    finally:
        index.unlink(missing_ok=True)
    return ""


def _apply(patches: Sequence[tuple[str, bool]], part: Path, commit: str) -> str:
    # NOTE: below another repository, git would apply nothing to what that one does not track, and say nothing.
    ceiling = {**_environment(), "GIT_CEILING_DIRECTORIES": str(part.resolve().parent)}
    for text, backwards in patches:
        command = ["apply", "--whitespace=nowarn", *(["--reverse"] if backwards else []), "-"]
        done = _git(command, cwd=part, stdin=text, environment=ceiling)
        if done is None or done.returncode:
            told = done.stderr.decode(errors="replace").strip().partition("\n")[0] if done else "it hangs"
            return f"the changes on {commit[:10]} cannot be put together: {clip(told, 200)}"
    return ""


def _link_built(tree: Tree, part: Path) -> None:
    """What was built inside the user's tree, and git ignores: without it a package with extensions cannot be imported.

    Links to what stands there now, so that both sides run the same build.
    """
    told = ask(tree.root, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", "*.so", "*.so.*",
               "*/_version.py", "_version.py")  # fmt: skip
    for name in (told or "").split("\0")[:_MAX_BUILT]:
        place = part / name
        if name and place.parent.is_dir() and not place.exists():
            place.symlink_to(Path(tree.root) / name)


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


def ask(root: str, *arguments: str) -> str | None:
    """What git says of a repository; None where it cannot."""
    done = _git(["-C", root, *arguments])
    return done.stdout.decode(errors="surrogateescape") if done is not None and not done.returncode else None


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
