"""The engine is imported from elsewhere than the source tree that stands here.

The working directory is a checkout of it, but Python takes an installed copy or another checkout: editing, pulling or
reverting here changes nothing of what runs. Fix: `pip install -e` this tree, or go to the one that is imported.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "imported_elsewhere"
SEVERITY = WARNING
NEEDS = ("repo[].found_by", "package[].version")
USES = ("repo[].root", "repo[].remote[].url", "package[].editable_path", "package[].origin")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    here = next((name for (name,), _, by in facts.each("repo[].found_by") if "working_directory" in by), None)
    if here is None:
        raise NotApplicable("the working directory is in no repository")
    root = str(facts.value(f"repo[{here}].root"))
    for package in _names(facts, here) & {name for (name,), *_ in facts.each("package[].version")}:
        tree = facts.value(f"package[{package}].editable_path")
        if tree is None:
            origin = facts.value(f"package[{package}].origin") or "elsewhere"
            yield Problem(f"this is a checkout of {package}, and Python imports the one installed from {origin}",
                          (f"package[{package}].origin",), "pip install -e .")  # fmt: skip
        elif not f"{posixpath.normpath(str(tree))}/".startswith(f"{posixpath.normpath(root)}/"):
            yield Problem(f"this is a checkout of {package}, and Python imports {tree}",
                          (f"package[{package}].editable_path",), f"cd {tree}")  # fmt: skip


def _names(facts: Facts, repo: str) -> set[str]:
    """What the repository could be the source of: by its directory and by where it was cloned from."""
    urls = [str(url) for (name, _), _, url in facts.each("repo[].remote[].url") if name == repo]
    names = [repo, *(url.rstrip("/").rpartition("/")[2].removesuffix(".git") for url in urls)]
    return {name.lower().replace("_", "-") for name in names}
