"""Which git repositories matter, and where their parts lie."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from envsnap.collectors._dists import installed
from envsnap.host import Host, Request, value_of
from envsnap.reading import Found, Unavailable, Value, Why, attempt
from envsnap.scope import Scope

MAX_REPOSITORIES = 32
_MAX_DEPTH = 64


@dataclass(frozen=True)
class Place:
    """Where a repository lies. `git_dir` is this working tree's own, `common_dir` what all its worktrees share."""

    root: str
    git_dir: str
    common_dir: str
    head: str
    """The text of its file HEAD."""
    bare: bool = False

    @property
    def reftable(self) -> bool:
        """Whether its branches and logs are not files; HEAD then names a branch that cannot exist."""
        return self.head == "ref: refs/heads/.invalid"

    @property
    def branch(self) -> str:
        """The branch that is checked out, as far as the file HEAD tells; empty where none is."""
        return "" if self.reftable else self.head.partition("ref: refs/heads/")[2]


@dataclass(frozen=True)
class Repository:
    """A repository that matters, its instance name, and what led to it (see `repo[].found_by`)."""

    name: str
    place: Place
    found_by: tuple[str, ...]


def repositories(host: Host, scope: Scope) -> tuple[list[Repository], dict[str, Unavailable]]:
    """The repositories that matter, and for each that was asked for and is none: its instance name and why."""
    working_directory = str(host.self()["cwd"])
    given = [posixpath.join(working_directory, path) for path in scope.repos]
    starts = [("given", path) for path in given]
    starts += [("working_directory", working_directory)]
    starts += [("pythonpath", path) for path in host.environ().get("PYTHONPATH", "").split(":") if path.startswith("/")]
    starts += [(f"editable:{name}", path) for name, path in sorted(_editable_trees(host, scope).items())]
    real = host.found([["realpath", path] for _, path in starts])
    paths = [found.value if isinstance(found, Value) else path for found, (_, path) in zip(real, starts)]
    tops = enclosing(host, paths, may_be_bare=set(paths[: len(given)]))
    led: dict[str, set[str]] = {}
    places: dict[str, Place] = {}
    strangers: dict[str, Unavailable] = {}
    for (why, _), path in zip(starts, paths):
        place = tops.get(path)
        if place:
            places[place.root] = place
            led.setdefault(place.root, set()).add(why)
        elif why == "given":
            strangers[path] = Unavailable(Why.ABSENT, f"not in a git repository: {path}")
    names = instance_names([*places, *strangers])
    return (
        [Repository(names[root], place, tuple(sorted(led[root]))) for root, place in places.items()],
        {names[path]: why for path, why in strangers.items()},
    )


def enclosing(host: Host, paths: Iterable[str], may_be_bare: Iterable[str] = ()) -> dict[str, Place]:
    """The innermost repository around each path, as git finds it: by walking up to something named .git."""
    chains = {path: _ancestors(path) for path in paths}
    places = places_at(host, dict.fromkeys(top for chain in chains.values() for top in chain), may_be_bare)
    return {path: places[top] for path, chain in chains.items() if (top := next((t for t in chain if t in places), ""))}


def places_at(host: Host, tops: Iterable[str], may_be_bare: Iterable[str] = ()) -> dict[str, Place]:
    """Those directories that are the top of a working tree, and those of `may_be_bare` that are bare repositories."""
    tops, bare = list(tops), list(may_be_bare)
    requests: list[Request] = []
    for top in tops:
        requests += [["read", f"{top.rstrip('/')}/.git", 4096], ["read", f"{top.rstrip('/')}/.git/HEAD", 4096]]
    for path in bare:
        requests += [["stat", f"{path}/objects"], ["read", f"{path}/HEAD", 4096]]
    answers = iter(host.found(requests))
    pointers: dict[str, str] = {}
    places: dict[str, Place] = {}
    for top in tops:
        pointer, head = next(answers), next(answers)
        inner = f"{top.rstrip('/')}/.git"
        if _is_text(pointer) and value_of(pointer).startswith("gitdir:"):
            pointers[top] = posixpath.normpath(posixpath.join(top, value_of(pointer)[7:].strip()))
        elif _is_text(head):
            places[top] = Place(top, inner, inner, _line(head))
        elif isinstance(head, Unavailable) and head.why is Why.DENIED:
            places[top] = Place(top, inner, inner, "")
    for path in bare:
        objects, head = next(answers), next(answers)
        if isinstance(objects, Value) and _is_text(head) and path not in places and path not in pointers:
            places[path] = Place(path, path, path, _line(head), bare=True)
    return places | _linked(host, pointers)


def _linked(host: Host, pointers: dict[str, str]) -> dict[str, Place]:
    """Working trees whose .git is a file that names the directory: linked worktrees and submodules."""
    if not pointers:
        return {}
    requests: list[Request] = []
    for git_dir in pointers.values():
        requests += [["read", f"{git_dir}/HEAD", 4096], ["read", f"{git_dir}/commondir", 4096]]
    answers = iter(host.found(requests))
    places = {}
    for top, git_dir in pointers.items():
        head, common = next(answers), next(answers)
        shared = posixpath.normpath(posixpath.join(git_dir, value_of(common).strip())) if _is_text(common) else git_dir
        if _is_text(head):
            places[top] = Place(top, git_dir, shared, _line(head))
    return places


def _line(found: Found) -> str:
    """The first line of a text; a NUL ends it too, since it can stand in no name."""
    return re.split(r"[\n\0]", str(value_of(found)))[0].strip()


def _is_text(found: Found) -> bool:
    return isinstance(found, Value) and isinstance(found.value, str)


def _ancestors(path: str) -> list[str]:
    """The path itself and all above it, innermost first."""
    chain = [path]
    while len(chain) < _MAX_DEPTH and (path := posixpath.dirname(chain[-1])) != chain[-1]:
        chain.append(path)
    return chain


def instance_names(roots: Iterable[str]) -> dict[str, str]:
    """Each directory's base name, with as many of its parents as it takes to tell them apart."""
    names: dict[str, str] = {}
    pending = list(roots)
    for length in range(1, _MAX_DEPTH):
        short = {root: "/".join(root.strip("/").split("/")[-length:]) or "/" for root in pending}
        seen = list(short.values())
        longest = {root for root in pending if short[root] == root.strip("/")}
        for root in pending:
            if seen.count(short[root]) == 1 or root in longest:
                names[root] = short[root]
        pending = [root for root in pending if root not in names]
    return names


def _editable_trees(host: Host, scope: Scope) -> dict[str, str]:
    """Distribution -> source tree of what is installed in place; none where that cannot be told."""
    found = attempt(installed, host, scope)
    copies = found.value.first.values() if isinstance(found, Value) else ()
    return {dist.name: dist.editable_path for dist in copies if dist.editable_path}
