"""Reach: which of the code that differs between two states of a repository a worker ran.

Each edit of each file is joined with what the workers of both runs imported and ran. In question is what would be
otherwise if it were undone: code that no worker of the slow run came to has no effect there, and code of which the same
statements ran as before has none either. Where nobody watched, conditions around an edit may still settle it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from envsnap.explain.code.contents import Outcome, Sides, compare
from envsnap.explain.code.ran import Ran
from envsnap.explain.code.revisions import Commit, Recorded, Revisions
from envsnap.explain.code.spent import Spent
from envsnap.explain.code.tree_files import WITHOUT_EFFECT, Role, package_of, role_of, tuned_for
from envsnap.explain.code.verdicts import Judged, Verdict, combined
from envsnap.explain.story import Facts
from envsnap.host import Host
from envsnap.keys import instances_of, path_of
from envsnap.reading import Json

MAX_FILES = 120
"""Files of a repository whose content is compared, those that ran while serving first. It takes 2 ms a file."""

__all__ = ["CommitReach", "FileReach", "Judged", "RepositoryReach", "Verdict", "repositories"]


@dataclass(frozen=True)
class FileReach:
    """What differs in one file. `innocent`: undoing it would change nothing, by `reason`.

    `committed`: (also) by commits between the two states, rather than beside them.
    """

    path: str
    verdict: Verdict
    innocent: bool
    reason: str
    edits: tuple[Judged, ...] = ()
    committed: bool = False

    @property
    def quiet(self) -> bool:
        """Whether nothing of it ran while the slow run served."""
        return bool(self.edits) and all(e.innocent or e.quiet for e in self.edits)


@dataclass(frozen=True)
class CommitReach:
    """A commit between the two states, judged by the files that it changed; no verdict where those are not known."""

    commit: Commit
    verdict: Verdict | None
    innocent: bool
    reason: str


@dataclass(frozen=True)
class RepositoryReach:
    """A repository that differs. `whole`: all that differs is among `files`, so that they can acquit all of it.

    `notes` say what is not known. `watched`: what the slow run came to while it served is known. `looks`: how often it
    was looked at where each of its workers was.
    """

    name: str
    files: tuple[FileReach, ...]
    commits: tuple[CommitReach, ...]
    whole: bool
    notes: tuple[str, ...] = ()
    watched: bool = False
    looks: int = 0

    @property
    def innocent(self) -> bool:
        """Whether nothing that differs can be a cause."""
        return self.whole and all(file.innocent for file in self.files)


def repositories(fast: Facts, slow: Facts, host: Host | None = None) -> list[RepositoryReach]:
    """The repositories that both sides recorded and that differ; `host` is where they may be at hand."""
    names = {instances_of(path)[0]: None for path in slow.values("repo[].head")}
    both = [name for name in names if fast.get(path_of("repo[].head", name)) is not None]
    return [found for name in both if (found := _Repository(fast, slow, name, host).reach()) is not None]


class _Repository:
    """The work on one repository."""

    def __init__(self, fast: Facts, slow: Facts, name: str, host: Host | None) -> None:
        self.name = name
        recorded = Recorded.of(fast, name), Recorded.of(slow, name)
        spent = Spent(fast), Spent(slow)
        self.sides = Sides((fast, slow), recorded, (Ran(fast), Ran(slow)), spent, Revisions(*recorded, host))
        self.revisions = self.sides.revisions

    def reach(self) -> RepositoryReach | None:
        if not self.revisions.paths and self.sides.one_base:
            return None
        files = self._files()
        notes = tuple(self._notes())
        ordered = sorted(files.values(), key=lambda f: (f.innocent, f.path))
        watched = not self.sides.ran[1].why
        looks = self.sides.spent[1].looks
        commits = tuple(self._commits(files))
        return RepositoryReach(self.name, tuple(ordered), commits, not notes, notes, watched, looks)

    def _files(self) -> dict[str, FileReach]:
        settled = {path: self._by_name(path) for path in sorted(self.revisions.paths)}
        found = {path: outcome for path, outcome in settled.items() if outcome is not None}
        close = sorted((p for p, outcome in settled.items() if outcome is None), key=lambda p: not self._served(p))
        found |= compare(self.sides, close[:MAX_FILES])
        found |= {path: Outcome(Verdict.UNKNOWN, "too many files differ") for path in close[MAX_FILES:]}
        committed = self.revisions.committed or frozenset()
        if self.revisions.committed is None:
            reason = "its content differs; the repository, which would show by what, is not at hand"
            more = self._imported_otherwise() - found.keys()
            found |= {path: Outcome(Verdict.UNKNOWN, reason) for path in more}
            committed = frozenset(more)
        return {p: FileReach(p, o.verdict, o.innocent, o.reason, o.edits, p in committed) for p, o in found.items()}

    def _served(self, path: str) -> bool:
        """Whether some line of a file ran while a run served."""
        found = (ran.lines(r.root, path) for ran, r in zip(self.sides.ran, self.sides.recorded))
        return any(lines is not None and lines.serving for lines in found)

    # -- what a name settles ----------------------------------------------------------------------------------

    def _by_name(self, path: str) -> Outcome | None:
        """What can be said of a file by its name and the workers' records alone."""
        role = role_of(path)
        if role in WITHOUT_EFFECT:
            return Outcome(Verdict.NEVER, WITHOUT_EFFECT[role], innocent=True)
        if role is Role.TUNING and self._is_for_another_gpu(path):
            return Outcome(Verdict.NEVER, f"it is for another GPU, {tuned_for(path)}", innocent=True)
        if role in (Role.KERNEL, Role.LIBRARY):
            return self._compiled(path)
        if role not in (Role.PYTHON, Role.CLIENT):
            return Outcome(Verdict.UNKNOWN, "it is no Python code: whether something reads it is not known")
        then, now = (ran.imported(r.root, path) for ran, r in zip(self.sides.ran, self.sides.recorded))
        if now is not False:
            return None
        if role is Role.CLIENT:
            return Outcome(Verdict.UNKNOWN, "no worker imported it; the benchmark itself may have run it")
        if then:
            return Outcome(Verdict.FAST, "no worker of the slow run imported it any more")
        elsewhere = self.sides.ran[1].elsewhere(self.sides.recorded[1].root)
        reason = f"the workers imported from {elsewhere}, not from this tree" if elsewhere else "no worker imported it"
        return Outcome(Verdict.NEVER, reason, innocent=True)

    def _is_for_another_gpu(self, path: str) -> bool:
        models = {str(v) for facts in self.sides.facts for v in facts.values("gpu[].name").values()}
        return bool(models) and not any(tuned_for(path) in model or model in tuned_for(path) for model in models)

    def _compiled(self, path: str) -> Outcome:
        """Kernels act once they are compiled: by the build of what the workers have mapped or installed."""
        builds = [_build_of(f, f"{r.root}/{path}") for f, r in zip(self.sides.facts, self.sides.recorded)]
        if None not in builds:
            if builds[0] == builds[1]:
                return Outcome(Verdict.BOTH, "the same build of it is mapped on both sides", innocent=True)
            return Outcome(Verdict.BOTH, "the workers have mapped another build of it")
        for package in package_of(path):
            sums = [facts.get(path_of("package[].record_sha256", package)) for facts in self.sides.facts]
            if sums[0] is not None and sums[0] == sums[1]:
                reason = f"the installed {package} is the same build on both sides, so that it is not in there"
                return Outcome(Verdict.NEVER, reason, innocent=True)
        return Outcome(Verdict.UNKNOWN, "it acts once it is compiled; whether it was is not known")

    def _imported_otherwise(self) -> set[str]:
        """Files that the workers of both sides imported, with other content."""
        held = []
        for ran, recorded in zip(self.sides.ran, self.sides.recorded):
            prefix = f"{recorded.root}/"
            held.append({f.removeprefix(prefix): blob for f, blob in ran.blobs.items() if f.startswith(prefix)})
        return {path for path in held[0].keys() & held[1].keys() if held[0][path] != held[1][path]}

    # -- the whole --------------------------------------------------------------------------------------------

    def _commits(self, files: Mapping[str, FileReach]) -> Iterable[CommitReach]:
        for commit in self.revisions.commits:
            if commit.paths is None:
                yield CommitReach(commit, None, False, "the repository, which would show its files, is not at hand")
                continue
            held = [self._as_committed(files[path]) for path in sorted(commit.paths) if path in files]
            if not held:
                reason = "nothing of what it changed differs between the two states"
                yield CommitReach(commit, Verdict.NEVER, True, reason)
                continue
            guilty = sorted((f for f in held if not f.innocent), key=lambda f: f.quiet)
            told = list(dict.fromkeys(f.reason for f in held))
            # NOTE: of two files one may say no more than the other does, and its condition beside.
            told = [one for one in told if not any(other != one and other.startswith(one) for other in told)]
            reasons = [f"{f.path}: {f.reason}" for f in guilty[:1]] or told
            yield CommitReach(commit, combined([f.verdict for f in held]), not guilty, "; ".join(reasons[:2]))

    def _as_committed(self, file: FileReach) -> FileReach:
        """A file by its committed changes: without the edits of which the working tree alone holds every line."""
        patch = self.sides.recorded[1].patches.get(file.path)
        beside = {number for hunk in patch.hunks for number in hunk.added} if patch else set()
        kept = tuple(
            e for e in file.edits if not (e.new_lines and {*range(e.new_lines[0], e.new_lines[1] + 1)} <= beside)
        )
        if not kept or len(kept) == len(file.edits):
            return file
        guilty = sorted((e for e in kept if not e.innocent), key=lambda e: e.quiet)
        reasons = [e.reason for e in guilty[:1]] or list(dict.fromkeys(e.reason for e in kept))
        verdict = combined([e.verdict for e in kept])
        return replace(file, verdict=verdict, innocent=not guilty, reason="; ".join(reasons[:2]), edits=kept)

    def _notes(self) -> Iterable[str]:
        recorded = self.sides.recorded
        if not all(r.head for r in recorded):
            yield "a commit was not recorded"
        if self.revisions.committed is None:
            alike = "; every source file that the workers imported is the same" if self._imports_alike() else ""
            yield f"the repository with both commits is not at hand, so that not all they changed is known{alike}"
        if any(r.cut for r in recorded):
            yield "a recorded patch lacks changes that were too large, binary or unreadable"
        submodules = [self._submodules(facts) for facts in self.sides.facts]
        if submodules[0] != submodules[1]:
            yield "a submodule differs, which was not looked into"

    def _imports_alike(self) -> bool:
        """Whether the workers imported the same content as before, whatever else was committed."""
        return bool(self.sides.ran[0].blobs) and self.sides.ran[0].blobs == self.sides.ran[1].blobs

    def _submodules(self, facts: Facts) -> dict[str, Json]:
        trees = facts.values("repo[].submodule[].tree_id")
        return {path: tree for path, tree in trees.items() if instances_of(path)[0] == self.name}


def _build_of(facts: Facts, file: str) -> str | None:
    for path, mapped in facts.values("worker[].library[].path").items():
        if mapped == file:
            return str(facts.get(path.removesuffix(".path") + ".build_id") or "") or None
    return None
