"""What the ranks imported of a package or repository is the same source as before, or another.

A commit or a release is a change of many files, and ranks import some of them. Where the digest of the source that
they had loaded is the same, no Python code of it can be the cause, whatever else was committed. Another digest alone
says little, since it differs where other modules were loaded, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.stories._look import package_changes
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import STRONG, WEAK
from envsnap.keys import instances_of, path_of

CODE = "imported_source"
NEEDS = ("record[].package_hash[]",)

_CONTENT = ("repo[].head", "repo[].tree_id", "repo[].patch", "repo[].changed[].blob")
_MODULES = {"sglang-kernel": "sgl_kernel", "flashinfer-python": "flashinfer"}
"""Distribution -> the module that it brings, where that is called otherwise."""


def tell(view: View) -> Iterator[Finding]:
    """Yield repositories and packages of which the ranks hold the same source, or other source."""
    repositories: dict[str, list[Change]] = {}
    for change in view.changed(*_CONTENT):
        repositories.setdefault(instances_of(change.path)[0], []).append(change)
    for name, changes in repositories.items():
        told = {same for module in _modules(view, name) if (same := _same(view, module)) is not None}
        if False in told:
            yield Clue(f"The ranks imported other source of {name}.", WEAK, tuple(changes))
        elif told:
            text = f"The source that the ranks imported of {name} is the same on both sides."
            yield Clue(text, -STRONG, tuple(changes))
    for change in package_changes(view, "*"):
        name = instances_of(change.path)[0]
        # NOTE: compiled code of it may be another all the same.
        if change.path.endswith("].version") and _same(view, _MODULES.get(name, name)):
            yield Clue(f"The source that the ranks imported of {name} is the same on both sides.", -WEAK, (change,))


def _modules(view: View, repository: str) -> set[str]:
    """The packages that the ranks imported from a repository on either side; by its name where no place is known."""
    found = set()
    for facts in view.sides:
        root = facts.get(path_of("repo[].root", repository))
        for path, origin in facts.values("record[].package_origin[]").items():
            if isinstance(root, str) and f"{origin}/".startswith(f"{root}/"):
                found.add(instances_of(path)[1])
    return found or {repository.rsplit("/", 1)[-1]}


def _same(view: View, name: str) -> bool | None:
    """Whether every rank that tells of a module on both sides had loaded the same of it; None where none tells."""
    module = name.lower().replace("-", "_")
    fast, slow = (_digests(facts, module) for facts in view.sides)
    both = fast.keys() & slow.keys()
    return all(fast[path] == slow[path] for path in both) if both else None


def _digests(facts: Facts, module: str) -> dict[str, str]:
    held = facts.values("record[].package_hash[]")
    return {path: str(value) for path, value in held.items() if instances_of(path)[1] == module}
