"""Revisions: what differs between two recorded states of a repository, and the text of each file in both.

A state is a commit and a patch on top of it, both recorded. The files themselves come from the repository where it
stands on this machine and still holds both commits; nothing of it is run or written. Without it, what a patch shows is
what there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from envsnap.collectors._git_contents import read_blobs
from envsnap.collectors._git_history import HISTORY, history
from envsnap.collectors._git_run import Git, git_in, output_of
from envsnap.explain.code import hunks
from envsnap.explain.code.hunks import FilePatch
from envsnap.explain.story import Facts
from envsnap.host import Host, HostError
from envsnap.keys import instances_of, path_of
from envsnap.reading import Json, Missing

MAX_COMMITS = 200

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_RAW = re.compile(r":[0-7]{6} [0-7]{6} ([0-9a-f]+) ([0-9a-f]+) [A-Z]\d*\0([^\0]+)\0")
_OF_COMMIT = re.compile(r"([0-9a-f]{40,64})\0((?:(?![0-9a-f]{40}(?:[0-9a-f]{24})?\0)[^\0]+\0)*)")


@dataclass(frozen=True)
class Commit:
    """A commit between two states. `paths` are the files it changed, None where the repository is not at hand.

    `gone`: only the fast state has it.
    """

    commit: str
    subject: str
    paths: frozenset[str] | None
    gone: bool = False


@dataclass(frozen=True)
class Recorded:
    """One side's state: its commit, and what its working tree had beside that."""

    head: str
    root: str
    patches: Mapping[str, FilePatch]
    statuses: Mapping[str, str]
    blobs: Mapping[str, str]
    cut: bool
    """Whether the patch lacks some changes."""
    recent: tuple[tuple[str, str], ...]
    """The last commits and their subjects, newest first."""

    @classmethod
    def of(cls, facts: Facts, name: str) -> Recorded:
        """What a side recorded of a repository."""

        def get(key: str, *instances: str) -> Json:
            return facts.get(path_of(f"repo[].{key}", name, *instances))

        def changed(key: str) -> dict[str, str]:
            held = facts.values(f"repo[].changed[].{key}")
            named = {tuple(instances_of(path)): value for path, value in held.items()}
            return {path: str(value) for (owner, path), value in named.items() if owner == name}

        head, patch, recent = get("head"), get("patch"), get("recent_commits")
        return cls(
            head=head if isinstance(head, str) and _HASH.match(head) else "",
            root=str(get("root") or ""),
            patches=hunks.read(patch) if isinstance(patch, str) else {},
            statuses=changed("status"),
            blobs=changed("blob"),
            cut=bool(get("patch_truncated")) or not isinstance(patch, str),
            recent=tuple((c, str(get("commit[].subject", c) or "")) for c in recent if isinstance(c, str))
            if isinstance(recent, list)
            else (),
        )


@dataclass(frozen=True)
class Version:
    """A file's text on one side; empty where there is no such file, None where it cannot be had."""

    text: str | None
    blob: str = ""


class Revisions:
    """The difference of two states of one repository."""

    def __init__(self, fast: Recorded, slow: Recorded, host: Host | None) -> None:
        self.fast, self.slow = fast, slow
        self._live = _Live.found(fast, slow, host) if host else None

    @property
    def at_hand(self) -> bool:
        """Whether the repository itself can be asked."""
        return self._live is not None

    @cached_property
    def commits(self) -> tuple[Commit, ...]:
        """The commits that only one side has, newest first; without the repository, as far as they were recorded."""
        if self.fast.head == self.slow.head or not (self.fast.head and self.slow.head):
            return ()
        if self._live:
            return self._live.commits
        return (*_since(self.slow, self.fast.head, gone=False), *_since(self.fast, self.slow.head, gone=True))

    @property
    def commits_known(self) -> bool:
        """Whether `commits` are all of them."""
        if self.at_hand:
            return len(self.commits) < MAX_COMMITS
        return self.fast.head == self.slow.head or any(
            other.head in dict(side.recent) for side, other in ((self.fast, self.slow), (self.slow, self.fast))
        )

    @cached_property
    def committed(self) -> frozenset[str] | None:
        """The files in which the two commits differ; None where that is not known."""
        if self.fast.head == self.slow.head and self.fast.head:
            return frozenset()
        differing = self._live.differing if self._live else None
        return None if differing is None else frozenset(differing)

    @cached_property
    def uncommitted(self) -> frozenset[str]:
        """The files that some side had changed beside its commit, and not to the same content."""
        names = {*self.fast.statuses, *self.slow.statuses, *self.fast.patches, *self.slow.patches}
        return frozenset(p for p in names if not self._same_beside(p))

    def _same_beside(self, path: str) -> bool:
        """Whether both sides had changed a file to one content, whatever it was in their commits."""
        one, two = self.fast.blobs.get(path), self.slow.blobs.get(path)
        if one or two:
            return one == two
        return path in self.fast.statuses and self.fast.statuses.get(path) == self.slow.statuses.get(path) == "deleted"

    @cached_property
    def paths(self) -> frozenset[str]:
        """Every file that differs, as far as is known."""
        beside = {p for p in {*self.fast.blobs, *self.slow.blobs} if self._same_beside(p)}
        return frozenset(((self.committed or frozenset()) | self.uncommitted) - beside)

    def versions(self, paths: Iterable[str]) -> dict[str, tuple[Version, Version]]:
        """Both versions of files, the fast side's first. Read in one go: ask for all at once."""
        wanted = sorted(set(paths))
        bases = [self._bases(state, wanted) for state in (self.fast, self.slow)]
        return {
            path: (_version(self.fast, path, bases[0].get(path)), _version(self.slow, path, bases[1].get(path)))
            for path in wanted
        }

    def _bases(self, state: Recorded, paths: list[str]) -> dict[str, tuple[str, str]]:
        """Of each file that the commit has: its blob's name, and its text."""
        return self._live.at(state.head, paths) if self._live and state.head else {}


def _version(state: Recorded, path: str, base: tuple[str, str] | None) -> Version:
    """NOTE: without the repository only what a patch adds as a whole has a text; else it has hunks alone."""
    patch = state.patches.get(path)
    if patch is None:
        if state.statuses.get(path) == "deleted":
            return Version("")
        if path in state.statuses:
            return Version(None, state.blobs.get(path, ""))
        return Version(base[1], base[0]) if base else Version(None)
    blob = state.blobs.get(path, "")
    if patch.deleted:
        return Version("")
    if patch.added:
        return Version(patch.applied(""), blob)
    return Version(patch.applied(base[1]) if base else None, blob)


def _since(side: Recorded, other: str, gone: bool) -> list[Commit]:
    """The recorded commits of a side down to the other side's; none where that is not among them."""
    names = [commit for commit, _ in side.recent]
    if other not in names:
        return []
    return [Commit(c, subject, None, gone) for c, subject in side.recent[: names.index(other)]]


class _Live:
    """The repository, where it is at hand and holds both commits."""

    def __init__(self, host: Host, git: Git, fast: str, slow: str) -> None:
        self.host, self.git, self.fast, self.slow = host, git, fast, slow

    @classmethod
    def found(cls, fast: Recorded, slow: Recorded, host: Host) -> _Live | None:
        for root in dict.fromkeys((slow.root, fast.root)):
            if not (fast.head and slow.head and root.startswith("/")):
                continue
            try:
                host.stat(f"{root}/.git")
                live = cls(host, git_in(host, root), fast.head, slow.head)
                said = live.ask("cat-file", "--batch-check", stdin=f"{fast.head}\n{slow.head}\n")
            except (Missing, HostError):
                continue
            if [line.split()[1:2] for line in said.splitlines()] == [["commit"], ["commit"]]:
                return live
        return None

    def ask(self, *arguments: str, stdin: str = "") -> str:
        """Raises: Missing, HostError."""
        [answer] = self.host.found([self.git.request(*arguments, stdin=stdin)])
        return output_of(answer, self.git.directory)

    @cached_property
    def commits(self) -> tuple[Commit, ...]:
        found = []
        for ends, gone in (((self.fast, self.slow), False), ((self.slow, self.fast), True)):
            listed = self._told(*HISTORY[:-2], f"--max-count={MAX_COMMITS}", f"{ends[0]}..{ends[1]}", "--")
            try:
                known = history(listed)
            except HostError:
                continue  # none in this direction
            told = self._told(
                "diff-tree", "--stdin", "-r", "-z", "--name-only", "--no-renames", "--root", "--no-ext-diff",
                stdin="".join(f"{c.commit}\n" for c in known),
            )  # fmt: skip
            paths = {m[1]: frozenset(m[2].split("\0")[:-1]) for m in _OF_COMMIT.finditer(told)}
            # NOTE: a merge shows no files of its own here; what it brought stands under the merged commits.
            found += [Commit(c.commit, c.subject, paths.get(c.commit, frozenset()), gone) for c in known]
        return tuple(found)

    @cached_property
    def differing(self) -> tuple[str, ...] | None:
        how = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff")
        try:
            told = self.ask("diff-tree", *how, self.fast, self.slow, "--")
        except (Missing, HostError):
            return None
        return tuple(match[3] for match in _RAW.finditer(told))

    def at(self, commit: str, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Blob and text of files in a commit; those it has not, or that are too large, are left out."""
        names = [path for path in paths if "\n" not in path]
        told = self._told("cat-file", "--batch-check", stdin="".join(f"{commit}:{path}\n" for path in names))
        blobs = {}
        for path, line in zip(names, told.split("\n")):
            if match := re.fullmatch(r"([0-9a-f]{40,64}) blob \d+", line):
                blobs[path] = match[1]
        try:
            contents = read_blobs(self.host, self.git, blobs.values())
        except (Missing, HostError):
            return {}
        found = {path: (blob, contents[blob]) for path, blob in blobs.items() if blob in contents}
        absent = {path: ("", b"") for path in names if path not in blobs} if told else {}
        return {path: (blob, data.decode("utf-8", "replace")) for path, (blob, data) in {**absent, **found}.items()}

    def _told(self, *arguments: str, stdin: str = "") -> str:
        try:
            return self.ask(*arguments, stdin=stdin)
        except (Missing, HostError):
            return ""
