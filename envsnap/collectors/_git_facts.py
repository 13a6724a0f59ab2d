"""The facts about one repository, each with its key and instances."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from envsnap.cache import Cache
from envsnap.collectors._git_checkout import Checkout, Reader, requests
from envsnap.collectors._git_clean import is_true
from envsnap.collectors._git_find import Place
from envsnap.collectors._git_history import Commit, Logs, Move, logs, without_user
from envsnap.collectors._git_run import TIMEOUT_SECONDS, Git, git_in, output_of
from envsnap.collectors._git_tree import Tree
from envsnap.host import Host, value_of
from envsnap.reading import Error, Found, Unavailable, Value, Why, attempt

RECENT_COMMITS = 20
RECENT_STASHES = 10
MAX_REMOTES = 50

Fact = tuple[str, tuple[str | int, ...], Found]
"""A key below `repo[]`, the instances it takes, and the reading."""


def ask(host: Host, place: Place, held: Cache) -> tuple[Checkout, Iterator[Fact]]:
    """Read a repository; the facts about it. Raises: Missing where it cannot even be asked."""
    git = git_in(host, place.root, place.bare)
    branch = _branch(host, git, place)
    noted = logs(host, place)
    extra = [git.request("describe", "--tags", "--abbrev=12", "HEAD")]
    if branch:
        extra.append(git.request("for-each-ref", f"--format={_UPSTREAM}", f"refs/heads/{branch}"))
    answers = host.within(host.left(TIMEOUT_SECONDS + 1), [*extra, *requests(git, RECENT_COMMITS)])
    describe, *upstream = answers[: len(extra)]
    checkout = Reader(host, held).read(git, place, answers[len(extra) :], noted.index_mtime_ns)
    return checkout, chain(
        _of_head(branch, checkout.commits),
        _of_describe(attempt(output_of, describe, git.directory)),
        _of_upstream(attempt(output_of, upstream[0], git.directory) if upstream else Value("")),
        _of_config(checkout.config),
        _of_logs(noted),
        _of_tree(checkout.tree),
    )


def _branch(host: Host, git: Git, place: Place) -> str:
    """The branch that is checked out, empty where HEAD is detached."""
    if not place.reftable:
        return place.branch
    [answer] = host.found([git.request("symbolic-ref", "--quiet", "HEAD")])
    if value_of(answer)["code"] == 1:  # its way to say that HEAD is no symbolic reference
        return ""
    return output_of(answer, git.directory).strip().removeprefix("refs/heads/")


def _of_head(branch: str, commits: Found) -> Iterator[Fact]:
    if branch:
        yield "branch", (), Value(branch)
    yield "detached", (), Value(not branch)
    if not isinstance(commits, Value):
        for key in ("head", "head_time", "recent_commits", "commit"):
            yield key, (), commits
        return
    recent: list[Commit] = commits.value
    yield "head", (), Value(recent[0].commit)
    yield "head_time", (), Value(recent[0].time)
    yield "recent_commits", (), Value([c.commit for c in recent])
    for c in recent:
        yield "commit[].subject", (c.commit,), Value(c.subject)
        yield "commit[].time", (c.commit,), Value(c.time)


def _of_describe(described: Found) -> Iterator[Fact]:
    if isinstance(described, Value):
        yield "describe", (), Value(described.value.strip())
    elif not (
        isinstance(described, Unavailable) and re.match(r"git: No (names found|tags can describe)", described.detail)
    ):
        yield "describe", (), described


_UPSTREAM = "%(upstream:short)%00%(upstream:track,nobracket)"


def _of_upstream(told: Found) -> Iterator[Fact]:
    if not isinstance(told, Value):
        for key in ("upstream", "ahead_count", "behind_count"):
            yield key, (), told
        return
    name, _, track = told.value.strip("\n").partition("\0")
    if not name:
        return
    yield "upstream", (), Value(name)
    for word in ("ahead", "behind"):
        count = re.search(rf"\b{word} (\d+)", track)
        known = Value(int(count.group(1)) if count else 0)
        yield f"{word}_count", (), Unavailable(Why.ABSENT, "the upstream branch is gone") if track == "gone" else known


def _of_config(config: Found) -> Iterator[Fact]:
    if not isinstance(config, Value):
        yield "remote", (), config
        yield "sparse_checkout", (), config
        return
    remotes = [name for name in config.value if name.startswith("remote.") and name.endswith(".url") and len(name) > 11]
    for name in remotes[:MAX_REMOTES]:
        yield "remote[].url", (name[7:-4],), Value(without_user(config.value[name][0]))
    yield "sparse_checkout", (), Value(is_true(config.value, "core.sparsecheckout"))


def _of_logs(noted: Logs) -> Iterator[Fact]:
    yield "in_progress", (), noted.in_progress
    yield "shallow", (), noted.shallow
    yield "worktree_count", (), noted.worktree_count
    if isinstance(noted.head, Value):
        moves: list[Move] = noted.head.value
        for key, kept in (("last_move", moves), ("last_pull", [m for m in moves if m.message.startswith("pull")])):
            if kept:
                yield f"{key}.time", (), Value(kept[-1].time)
                yield f"{key}.message", (), Value(kept[-1].message)
    else:
        yield "last_move", (), noted.head
        yield "last_pull", (), noted.head
    if isinstance(noted.stashes, Value):
        stashes: list[Move] = noted.stashes.value[::-1]
        yield "stash_count", (), Value(len(stashes))
        for i, stash in enumerate(stashes[:RECENT_STASHES]):
            yield "stash[].commit", (i,), Value(stash.commit)
            yield "stash[].message", (i,), Value(stash.message)
    else:
        yield "stash_count", (), noted.stashes
        yield "stash", (), noted.stashes


_OF_TREE = ("dirty", "tree_id", "staged_count", "unstaged_count", "untracked_count", "assume_unchanged_count",
            "skip_worktree_count", "patch", "patch_truncated")  # fmt: skip


def _of_tree(found: Found) -> Iterator[Fact]:
    if not isinstance(found, Value):
        for key in (*_OF_TREE, "changed", "submodule"):
            yield key, (), found
        return
    tree: Tree = found.value
    for key in _OF_TREE:
        value = getattr(tree, key)
        yield key, (), value if isinstance(value, (Value, Unavailable, Error)) else Value(value)
    for change in tree.changes:
        yield "changed[].status", (change.path,), change.status
        if change.blob:
            yield "changed[].blob", (change.path,), change.blob
        yield "changed[].added_lines", (change.path,), change.added_lines
        yield "changed[].deleted_lines", (change.path,), change.deleted_lines
    for path, submodule in tree.submodules.items():
        if submodule is None:
            yield "submodule[]", (path,), Unavailable(Why.ABSENT, "not checked out")
            continue
        yield "submodule[].commit", (path,), submodule.commit
        yield "submodule[].dirty", (path,), submodule.dirty
        yield "submodule[].tree_id", (path,), submodule.tree_id
