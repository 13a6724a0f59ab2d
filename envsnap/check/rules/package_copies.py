"""A package that computes is installed twice, or an installation was interrupted.

Which copy is imported depends on the order of the path, and pip shows only one of them. Fix: `pip uninstall` until none
is left, then install it once; entries that begin with ~ can be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem
from envsnap.collectors import key_for

CODE = "package_copies"
SEVERITY = WARNING
NEEDS = ("package[].version", "packages.broken")
USES = ("package[].copies_count", "package[].copy_versions")

_MATTERS = 0.3


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (name,), path, versions in facts.each("package[].copy_versions"):
        if len(set(versions)) > 1 and key_for(path).prior >= _MATTERS:
            yield Problem(f"{name} is installed as {' and '.join(versions)}", (path,), f"pip uninstall {name}, twice")
    broken = facts.value("packages.broken")
    if broken:
        yield Problem(f"{len(broken)} interrupted or unreadable installations: {', '.join(broken[:4])}",
                      ("packages.broken",), "Delete what begins with ~.")  # fmt: skip
