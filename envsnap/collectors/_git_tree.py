"""What the working tree holds that HEAD does not, and one hash for all of its content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from envsnap.collectors._git_clean import Config, is_true
from envsnap.collectors._git_contents import Current, Stored, as_stored, read_blobs
from envsnap.collectors._git_index import WorkingTree
from envsnap.collectors._git_listing import SUBMODULE, Version, tracked, tree_name
from envsnap.collectors._git_patch import Side, file_patch
from envsnap.collectors._git_run import Git
from envsnap.host import Host, HostError
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt

STAGED = ("diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--ignore-submodules=none",
          "--ita-visible-in-index", "HEAD", "--")  # fmt: skip
"""The git command that compares the index with HEAD; it does not look at working files."""

MAX_CHANGES = 1000
MAX_PATCH_BYTES = 1 << 20
MAX_STEPS = 2_000_000
"""Steps of comparing lines, about half a second, that all files of a repository may take together."""

_STAGED = re.compile(r":([0-7]{6}) ([0-7]{6}) ([0-9a-f]+) ([0-9a-f]+) [A-Z]\d*\0([^\0]+)\0")
_NOT_COMPARED = Unavailable(Why.OFF, "no difference was made of it")


@dataclass(frozen=True)
class Listings:
    """What git said of a working tree. `head_tree` is the hash of HEAD's tree, empty where there is no commit yet."""

    config: Config
    head_tree: str
    index: str
    staged: str

    @property
    def algorithm(self) -> str:
        """That of the repository's hashes."""
        return "sha256" if self.config.get("extensions.objectformat", ["sha1"])[-1] == "sha256" else "sha1"

    @property
    def file_modes(self) -> bool:
        """Whether the executable bit counts."""
        return is_true(self.config, "core.filemode", default=True)


@dataclass(frozen=True)
class Submodule:
    """A submodule that is checked out: its commit, whether it is dirty, and its content."""

    commit: Found
    dirty: Found
    tree_id: Found


@dataclass
class Change:
    """A path at which the working tree differs from HEAD, or may."""

    path: str
    head: Version | None
    current: Current
    status: Found
    blob: Found | None
    """Hash of the working file as it is, before any conversion; None where there is no file."""
    added_lines: Found = _NOT_COMPARED
    deleted_lines: Found = _NOT_COMPARED


@dataclass(frozen=True)
class Tree:
    """A working tree against HEAD. `changes` has at most `MAX_CHANGES`, tracked files first; counts are exact."""

    changes: list[Change]
    left_out_count: int
    staged_count: int
    unstaged_count: Found
    untracked_count: int
    assume_unchanged_count: int
    skip_worktree_count: int
    patch: str
    patch_truncated: bool
    dirty: Found
    tree_id: Found
    submodules: dict[str, Submodule | None]
    """None where it is not checked out."""


def read_tree(
    host: Host, git: Git, told: Listings, working: WorkingTree, submodules: dict[str, Submodule | None]
) -> Tree:
    """The working tree against HEAD. Raises: Missing."""
    staged = _staged(told)
    versions = [v for pair in staged.values() for v in pair] + list(working.indexed.values())
    wanted = {v.blob for v in versions if v and v.mode != SUBMODULE}
    found = attempt(read_blobs, host, git, wanted)
    blobs: dict[str, bytes] = found.value if isinstance(found, Value) else {}
    stored = as_stored(host, git, told.config, working, blobs, told.algorithm)
    _add_submodules(stored, working, submodules)
    current = {**{path: new for path, (_, new) in staged.items()}, **stored.current}
    changes = list(_changes(staged, working, current))
    unstaged = [v for p, v in stored.current.items() if p not in working.untracked and v != working.indexed.get(p)]
    unknown = next((v for v in unstaged if isinstance(v, Unavailable)), None)
    unseen = working.untracked_count - len(working.untracked)
    patch, truncated = _patch(changes[:MAX_CHANGES], blobs, stored)
    return Tree(
        changes=changes[:MAX_CHANGES],
        left_out_count=max(0, len(changes) - MAX_CHANGES) + unseen,
        staged_count=len(staged),
        unstaged_count=unknown or Value(len(unstaged)),
        untracked_count=working.untracked_count,
        assume_unchanged_count=working.assume_unchanged_count,
        skip_worktree_count=working.skip_worktree_count,
        patch=patch,
        patch_truncated=truncated or len(changes) > MAX_CHANGES or unseen > 0,
        dirty=_dirty(changes, submodules),
        tree_id=attempt(_tree_id, told, bool(changes), current, unseen, submodules),
        submodules=submodules,
    )


def _staged(told: Listings) -> dict[str, tuple[Version | None, Version | None]]:
    """Path -> what HEAD has and what the index has, where they differ."""
    if not told.head_tree:
        return {e.path: (None, Version(e.mode, e.blob)) for e in tracked(told.index)}
    if _STAGED.sub("", told.staged):
        raise HostError("git's comparison of the index with HEAD has an unknown form")
    return {
        path: (_version(old_mode, old_blob), _version(new_mode, new_blob))
        for old_mode, new_mode, old_blob, new_blob, path in _STAGED.findall(told.staged)
    }


def _version(mode: str, blob: str) -> Version | None:
    return Version(mode, blob) if int(mode) else None


def _add_submodules(stored: Stored, working: WorkingTree, submodules: Mapping[str, Submodule | None]) -> None:
    """Put submodules at another commit than the index has among what differs."""
    for path, submodule in submodules.items():
        if submodule is None:
            continue
        commit = submodule.commit
        now: Current = commit if isinstance(commit, Unavailable) else Unavailable(Why.NOT_SUPPORTED, str(commit))
        if isinstance(commit, Value):
            now = Version(SUBMODULE, commit.value)
        working.indexed[path] = Version(SUBMODULE, working.submodules[path])
        if now != working.indexed[path]:
            stored.current[path] = now


def _changes(
    staged: Mapping[str, tuple[Version | None, Version | None]], working: WorkingTree, current: Mapping[str, Current]
) -> Iterable[Change]:
    for path in sorted(current, key=lambda path: (path in working.untracked, path)):
        now = current[path]
        if path in staged:
            head = staged[path][0]
        elif path in working.untracked:
            head = None
        else:
            head = working.indexed[path]
        if now == head:
            continue
        raw = working.differs.get(path) or working.untracked.get(path) or now
        blob = Value(raw.blob) if isinstance(raw, Version) else raw
        yield Change(path, head, now, _status(path, head, now, working), blob)


def _status(path: str, head: Version | None, current: Current, working: WorkingTree) -> Found:
    if path in working.unmerged:
        return Value("unmerged")
    if head is None:
        return Value("untracked" if path in working.untracked else "added")
    if current is None:
        return Value("deleted")
    if isinstance(current, Unavailable):
        return current
    return Value("modified" if head.mode[:3] == current.mode[:3] else "type_changed")


def _dirty(changes: Iterable[Change], submodules: Mapping[str, Submodule | None]) -> Found:
    """True if anything certainly differs, else unavailable if anything may."""
    said = [Value(True) if isinstance(change.status, Value) else change.status for change in changes]
    said += [submodule.dirty for submodule in submodules.values() if submodule]
    if any(found == Value(True) for found in said):
        return Value(True)
    return next((found for found in said if not isinstance(found, Value)), Value(False))


def _patch(changes: Iterable[Change], blobs: Mapping[str, bytes], stored: Stored) -> tuple[str, bool]:
    """The patch of all changes, and whether it lacks any; fills in the changes' counts of lines."""
    parts = []
    room, steps = MAX_PATCH_BYTES, MAX_STEPS
    truncated = False
    for change in changes:
        try:
            old = _side(change.head, blobs)
            new = _side(change.current, blobs, stored.contents.get(change.path))
        except Missing as missing:
            change.added_lines = change.deleted_lines = Unavailable(missing.why, missing.detail)
            truncated = True
            continue
        made = file_patch(change.path, old, new, steps)
        steps -= made.steps
        binary = Unavailable(Why.NOT_SUPPORTED, "a binary file")
        change.added_lines = binary if made.added_lines is None else Value(made.added_lines)
        change.deleted_lines = binary if made.deleted_lines is None else Value(made.deleted_lines)
        # A file's part stands whole or not at all, so that what there is can be applied.
        if made.added_lines is None or len(made.text) > room:
            truncated = True
        else:
            room -= len(made.text)
            parts.append(made.text)
    return "".join(parts), truncated


def _side(version: Current, blobs: Mapping[str, bytes], data: bytes | None = None) -> Side | None:
    """One side of a difference. Raises: Missing where its content was not read."""
    if version is None:
        return None
    if isinstance(version, Unavailable):
        raise Missing(version.why, version.detail)
    if version.mode == SUBMODULE:
        return Side(*version, f"Subproject commit {version.blob}\n".encode("ascii"))
    data = blobs.get(version.blob) if data is None else data
    if data is None:
        raise Missing(Why.TOO_LARGE, "too large to compare, or not in the repository")
    return Side(*version, data)


def _tree_id(
    told: Listings,
    changed: bool,
    current: Mapping[str, Current],
    unseen: int,
    submodules: Mapping[str, Submodule | None],
) -> str:
    """The tree that `git add --all && git write-tree` would write: equal for equal content, however it came about.

    A dirty submodule stands in it by its own such hash. Raises: Missing where the content of any file is not known.
    """
    inner = {path: sub for path, sub in submodules.items() if sub and sub.dirty != Value(False)}
    if not changed and not inner and told.head_tree:
        return told.head_tree
    if unseen:
        raise Missing(Why.TOO_LARGE, f"{unseen} untracked files were not looked at")
    files = {e.path: Version(e.mode, e.blob) for e in tracked(told.index)}
    for path, now in current.items():
        if isinstance(now, Version):
            files[path] = now
        elif now is None:
            files.pop(path, None)
        elif not path.endswith("/"):  # else a repository inside this one, which is no part of it
            raise Missing(now.why, f"{path}: {now.detail}")
    for path, submodule in inner.items():
        if not isinstance(submodule.tree_id, Value):
            raise Missing(Why.NOT_SUPPORTED, f"the content of the submodule {path} is not known")
        files[path] = Version(SUBMODULE, submodule.tree_id.value)
    return tree_name(files, told.algorithm)
