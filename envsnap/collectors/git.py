"""Git: the source trees that a benchmark runs from, to the last changed line."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress

from envsnap import cache
from envsnap.cache import Cache
from envsnap.collectors import Partial
from envsnap.collectors._git_facts import RECENT_COMMITS, ask
from envsnap.collectors._git_find import MAX_REPOSITORIES, Repository, repositories
from envsnap.host import Host
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Value, attempt
from envsnap.scope import Scope

METHOD = "git plumbing that runs no program of the repository, .git files, own hashes of working files"

_THREADS = 4

_CODE = (Effect.COMMUNICATION, Effect.VERIFY, Effect.DRAFT, Effect.ACCEPTANCE, Effect.HOST_LAUNCH, Effect.COMPUTE,
         Effect.PREFILL)  # fmt: skip
_BACK = "Check the older commit out in a second worktree (git worktree add) and run the benchmark from there."
_NOT_RUN = tuple(
    At(pattern, prior=0.02)
    for pattern in ("*.md", "*.rst", "*.ipynb", "*.log", "*.jsonl", "docs/*", "test/*", "tests/*", "*/tests/*")
)

KEYS = (
    Key("repo[].root", Type.STRING, Kind.LABEL,
        "Top directory of the repository's working tree, or the bare repository."),
    Key("repo[].found_by", Type.STRINGS, Kind.LABEL,
        "What led to this repository: given, working_directory, pythonpath, or editable:DISTRIBUTION."),
    Key("repo[].remote[].url", Type.STRING, Kind.IDENTITY, "Where a remote lies, without user name and password.",
        _CODE, 0.1, Lever.GIT),
    Key("repo[].head", Type.STRING, Kind.IDENTITY, "Commit that is checked out.", _CODE, 0.5, Lever.GIT, _BACK),
    Key("repo[].head_time", Type.STRING, Kind.LABEL, "When that commit was made (committer's clock, UTC)."),
    Key("repo[].branch", Type.STRING, Kind.IDENTITY, "Branch that is checked out; unset where HEAD is detached.",
        (), 0.02, Lever.GIT),
    Key("repo[].detached", Type.BOOLEAN, Kind.IDENTITY, "Whether HEAD names a commit instead of a branch.", (), 0.02),
    Key("repo[].describe", Type.STRING, Kind.IDENTITY,
        "The commit by the nearest tag before it, as `git describe --tags` gives it; unset where there is no tag.",
        (), 0.02),
    Key("repo[].upstream", Type.STRING, Kind.IDENTITY, "Branch that the checked-out one follows.", (), 0.02),
    Key("repo[].ahead_count", Type.INTEGER, Kind.VOLATILE,
        "Commits that the upstream, as last fetched, does not have."),
    Key("repo[].behind_count", Type.INTEGER, Kind.VOLATILE,
        "Commits of the upstream, as last fetched, that are not checked out."),
    Key("repo[].last_move.time", Type.STRING, Kind.LABEL, "When HEAD last moved, by the reflog (UTC)."),
    Key("repo[].last_move.message", Type.STRING, Kind.LABEL, "What last moved HEAD: a checkout, pull, rebase, commit."),
    Key("repo[].last_pull.time", Type.STRING, Kind.LABEL, "When a pull last moved HEAD, by the reflog (UTC)."),
    Key("repo[].last_pull.message", Type.STRING, Kind.LABEL, "The reflog's words on that pull."),
    Key("repo[].dirty", Type.BOOLEAN, Kind.IDENTITY,
        "Whether the working tree holds anything else than HEAD, untracked files and dirty submodules included.",
        _CODE, 0.2, Lever.GIT),
    Key("repo[].tree_id", Type.STRING, Kind.IDENTITY,
        "Hash of everything in the working tree that git does not ignore: equal for equal content, committed or not.",
        _CODE, 0.5, Lever.GIT, _BACK),
    Key("repo[].staged_count", Type.INTEGER, Kind.IDENTITY,
        "Paths whose staged version differs from HEAD's.", (), 0.02),
    Key("repo[].unstaged_count", Type.INTEGER, Kind.IDENTITY,
        "Tracked paths whose working file differs from the staged version.", _CODE, 0.1),
    Key("repo[].untracked_count", Type.INTEGER, Kind.IDENTITY,
        "Files that are neither tracked nor ignored, without envsnap's own.", _CODE, 0.05),
    Key("repo[].changed[].status", Type.STRING, Kind.IDENTITY,
        "How a path differs from HEAD: modified, added, deleted, untracked, type_changed or unmerged.",
        _CODE, 0.3, Lever.GIT, _BACK, at=_NOT_RUN),
    Key("repo[].changed[].blob", Type.STRING, Kind.IDENTITY,
        "Git's hash of a changed file's content as it lies in the working tree; unset where the file is gone.",
        _CODE, 0.5, Lever.GIT, _BACK, at=_NOT_RUN),
    Key("repo[].changed[].added_lines", Type.INTEGER, Kind.IDENTITY,
        "Lines that a changed file has and HEAD's has not.",
        (), 0.02),
    Key("repo[].changed[].deleted_lines", Type.INTEGER, Kind.IDENTITY,
        "Lines that HEAD's version of a changed file has and the file has not.", (), 0.02),
    Key("repo[].patch", Type.TEXT, Kind.IDENTITY,
        "The difference between HEAD and the working tree, untracked files included, as `git apply` takes it.",
        _CODE, 0.1, Lever.GIT),
    Key("repo[].patch_truncated", Type.BOOLEAN, Kind.IDENTITY,
        "Whether the patch lacks changes that are binary, too large, too many or unreadable.",
        (Effect.VALIDITY,), 0.02),
    Key("repo[].submodule[].commit", Type.STRING, Kind.IDENTITY, "Commit that is checked out in a submodule.",
        _CODE, 0.4, Lever.GIT),
    Key("repo[].submodule[].dirty", Type.BOOLEAN, Kind.IDENTITY,
        "Whether a submodule's working tree holds anything else than its HEAD.", _CODE, 0.2, Lever.GIT),
    Key("repo[].submodule[].tree_id", Type.STRING, Kind.IDENTITY,
        "Hash of everything in a submodule's working tree that git does not ignore.", _CODE, 0.4, Lever.GIT),
    Key("repo[].in_progress", Type.STRINGS, Kind.IDENTITY,
        "Operations under way: bisect, cherry_pick, merge, rebase, revert.", (Effect.VALIDITY,), 0.1),
    Key("repo[].assume_unchanged_count", Type.INTEGER, Kind.IDENTITY,
        "Files that git was told to take for unchanged; `git status` hides their changes, envsnap does not.", (), 0.02),
    Key("repo[].skip_worktree_count", Type.INTEGER, Kind.IDENTITY,
        "Files that git was told to leave out of the working tree; `git status` hides their changes, envsnap does not.",
        (), 0.02),
    Key("repo[].sparse_checkout", Type.BOOLEAN, Kind.IDENTITY,
        "Whether only part of the tree is checked out.", (), 0.05),
    Key("repo[].shallow", Type.BOOLEAN, Kind.IDENTITY,
        "Whether the history was cut off when it was fetched.", (), 0.01),
    Key("repo[].worktree_count", Type.INTEGER, Kind.IDENTITY,
        "Working trees of the repository, this one included: each is a place that could be the one imported.",
        (), 0.02),
    Key("repo[].stash_count", Type.INTEGER, Kind.VOLATILE, "Changes that were put aside with `git stash`."),
    Key("repo[].stash[].commit", Type.STRING, Kind.LABEL, "Commit that holds a stash, the newest first."),
    Key("repo[].stash[].message", Type.STRING, Kind.LABEL, "What was put aside in a stash."),
    Key("repo[].recent_commits", Type.STRINGS, Kind.LABEL,
        f"The last {RECENT_COMMITS} commits up to HEAD, newest first."),
    Key("repo[].commit[].subject", Type.STRING, Kind.LABEL, "First line of a recent commit's message."),
    Key("repo[].commit[].time", Type.STRING, Kind.LABEL, "When a recent commit was made (committer's clock, UTC)."),
)  # fmt: skip

Readings = list[tuple[str, Found]]


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings of each repository that matters, as they come."""
    found, strangers = repositories(host, scope)
    for name, why in strangers.items():
        yield path_of("repo[]", name), why
    cut = [f"{len(found) - MAX_REPOSITORIES} repositories were left out"] if len(found) > MAX_REPOSITORIES else []
    with cache.opened(host, scope, "git") as held:
        for readings, left_out_count, name in _side_by_side(host, found[:MAX_REPOSITORIES], held):
            yield from readings
            if left_out_count:
                cut.append(f"{name}: {left_out_count} changed paths were left out")
    if cut:
        raise Partial("; ".join(sorted(cut)))


def _side_by_side(host: Host, found: list[Repository], held: Cache) -> Iterator[tuple[Readings, int, str]]:
    """Each repository's readings, how many of its changes are not among them, and its name; the quickest first."""
    if len(found) == 1:
        yield _read(host, found[0], held)
        return
    waiting: queue.SimpleQueue[Repository] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Readings, int, str]] = queue.SimpleQueue()
    for repository in found:
        waiting.put(repository)

    def work() -> None:
        with suppress(queue.Empty):
            while True:
                done.put(_read(host, waiting.get_nowait(), held))

    for _ in range(min(_THREADS, len(found))):
        threading.Thread(target=work, daemon=True).start()
    for _ in found:
        yield done.get()


def _read(host: Host, repository: Repository, held: Cache) -> tuple[Readings, int, str]:
    """All readings of one repository. Never raises: what goes wrong is a reading of the whole repository."""
    name = repository.name
    pairs: Readings = [
        (path_of("repo[].root", name), Value(repository.place.root)),
        (path_of("repo[].found_by", name), Value(list(repository.found_by))),
    ]

    def fill() -> int:
        checkout, facts = ask(host, repository.place, held)
        for key, instances, found in facts:
            pairs.append((path_of(f"repo[].{key}", name, *instances), found))
        return checkout.tree.value.left_out_count if isinstance(checkout.tree, Value) else 0

    left_out = attempt(fill)
    if isinstance(left_out, Value):
        return pairs, left_out.value, name
    return [*pairs, (path_of("repo[]", name), left_out)], 0, name
