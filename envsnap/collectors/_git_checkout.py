"""A repository and its submodules, read with the fewest runs of git."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from envsnap.cache import Cache
from envsnap.collectors._git_clean import Config
from envsnap.collectors._git_find import Place, places_at
from envsnap.collectors._git_history import HISTORY, history
from envsnap.collectors._git_index import WorkingTree, compare
from envsnap.collectors._git_listing import LISTING
from envsnap.collectors._git_run import Git, git_in, output_of
from envsnap.collectors._git_tree import STAGED, Listings, Submodule, Tree, read_tree
from envsnap.host import Host, Request, value_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt

MAX_SUBMODULES = 16
"""How many of a repository's submodules are looked into."""
MAX_LISTED_SUBMODULES = 256


@dataclass(frozen=True)
class Checkout:
    """What git says of a repository. Values: settings, a list of `Commit`, newest first, a `Tree`."""

    config: Found
    commits: Found
    tree: Found


def requests(git: Git, commits: int) -> list[Request]:
    """What to ask git for `Reader.read`."""
    asked = [git.request("config", "-z", "--list"), git.request(HISTORY[0], f"--max-count={commits}", *HISTORY[1:])]
    return asked if git.bare else [*asked, git.request(*LISTING), git.request(*STAGED)]


@dataclass
class Reader:
    """Reads one repository with all that is in it. `held` remembers which files were found to be unchanged."""

    host: Host
    held: Cache
    submodules_left: int = field(default_factory=lambda: MAX_SUBMODULES)

    def read(self, git: Git, place: Place, answers: Sequence[Found], index_mtime_ns: int) -> Checkout:
        """What the answers to `requests` say. `index_mtime_ns` is from before they were asked."""
        config = attempt(lambda: _config(output_of(answers[0], git.directory)))
        commits = attempt(lambda: history(output_of(answers[1], git.directory)))
        if isinstance(config, Value) and isinstance(commits, Unavailable) and not _is_of_repository(config.value):
            config = commits
        tree = attempt(lambda: self._tree(git, place, config, commits, answers[2:], index_mtime_ns))
        return Checkout(config, commits, tree)

    def _tree(
        self, git: Git, place: Place, config: Found, commits: Found, answers: Sequence[Found], index_mtime_ns: int
    ) -> Tree:
        if git.bare:
            raise Missing(Why.NOT_SUPPORTED, "a bare repository has no working files")
        settings: Config = value_of(config)
        _check_worktree(self.host, place, settings)
        index = output_of(answers[0], git.directory)
        born = not (isinstance(commits, Unavailable) and commits.why is Why.ABSENT)
        told = Listings(
            settings,
            head_tree=value_of(commits)[0].tree if born else "",
            index=index,
            staged=output_of(answers[1], git.directory) if born else "",
        )
        working = compare(self.host, git.directory, index, index_mtime_ns, told.file_modes, told.algorithm, self.held)
        return read_tree(self.host, git, told, working, self._submodules(git, working))

    def _submodules(self, git: Git, working: WorkingTree) -> dict[str, Submodule | None]:
        """The state of each submodule, None where it is not checked out."""
        if len(working.submodules) > MAX_LISTED_SUBMODULES:
            raise Missing(Why.TOO_LARGE, f"the repository has {len(working.submodules)} submodules")
        roots = {path: f"{git.directory.rstrip('/')}/{path}" for path in sorted(working.submodules)}
        places = places_at(self.host, roots.values()) if roots else {}
        chosen = [path for path, root in roots.items() if root in places][: self.submodules_left]
        self.submodules_left -= len(chosen)
        inner = {path: git_in(self.host, roots[path]) for path in chosen}
        asked = {
            path: [["stat", f"{places[roots[path]].git_dir}/index"], *requests(inner[path], commits=1)]
            for path in chosen
        }
        # NOTE: not side by side: each index's time has to be from before git read it.
        answers = iter(self.host.found([request for path in chosen for request in asked[path]]))
        found = {path: _not_chosen(places.get(root)) for path, root in roots.items() if path not in inner}
        for path in chosen:
            index, *told = [next(answers) for _ in asked[path]]
            mtime_ns = index.value["mtime_ns"] if isinstance(index, Value) else 0
            found[path] = _submodule(self.read(inner[path], places[roots[path]], told, mtime_ns))
        return found


def _check_worktree(host: Host, place: Place, settings: Config) -> None:
    """Raises: Missing where the repository says that its working tree is another directory."""
    other = settings.get("core.worktree", [""])[-1]
    if not other or place.git_dir != place.common_dir:  # git ignores it in linked worktrees
        return
    if host.realpath(posixpath.join(place.git_dir, other)) != host.realpath(place.root):
        raise Missing(Why.NOT_SUPPORTED, f"core.worktree names another directory: {other}")


def _not_chosen(place: Place | None) -> Submodule | None:
    if place is None:
        return None
    why = Unavailable(Why.OFF, f"not among the first {MAX_SUBMODULES} submodules")
    detached = re.fullmatch(r"[0-9a-f]{40,64}", place.head)
    return Submodule(Value(place.head) if detached else why, why, why)


def _submodule(checkout: Checkout) -> Submodule:
    def of_tree(name: str) -> Found:
        return attempt(lambda: value_of(getattr(value_of(checkout.tree), name)))

    return Submodule(attempt(lambda: value_of(checkout.commits)[0].commit), of_tree("dirty"), of_tree("tree_id"))


def _is_of_repository(config: Config) -> bool:
    """Whether the settings are a repository's: where git refuses it, `git config` gives the user's alone."""
    return "core.repositoryformatversion" in config


def _config(output: str) -> Config:
    """Setting -> its values, in order. One without a value is true."""
    settings: dict[str, list[str]] = {}
    for item in output.split("\0")[:-1]:
        name, newline, value = item.partition("\n")
        settings.setdefault(name, []).append(value if newline else "true")
    return settings
