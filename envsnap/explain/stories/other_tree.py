"""A package is imported from another place than before.

An editable install, a path put first, a leftover checkout or a wheel beside it: what is imported is the first of
its name, whatever was changed in the tree that somebody looks at. The workers themselves say where each package
came from.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.explanation import Evidence
from envsnap.explain.stories._look import variable_changes
from envsnap.explain.story import Finding, Together, View, after, before
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of

CODE = "other_tree"
NEEDS = ("record[].package_origin[]", "package[].editable_path", "python.path")

_WAYS = ("python.path", "python.pth[].sha256", "python.pth[].imports", "python.sitecustomize[].path",
         "python.user_site.enabled", "python.user_site.present", "python.prefix", "python.executable")  # fmt: skip
_INSTALLED = ("package[].editable_path", "package[].origin", "package[].copies_count", "package[].copy_versions")


def tell(view: View) -> Iterator[Finding]:
    """Yield packages that came from elsewhere."""
    origins = [c for c in view.changed("record[].package_origin[]") if before(c) is not None and after(c) is not None]
    by_package: dict[str, list[Change]] = {}
    for change in origins:
        by_package.setdefault(instances_of(change.path)[1], []).append(change)
    for package, changes in sorted(by_package.items()):
        if before(changes[0]) == after(changes[0]):
            continue
        same = [
            c
            for c in view.changed("record[].package_hash[]", "record[].module_elsewhere[]")
            if instances_of(c.path)[1].partition(".")[0] == package
        ]
        ways = [*variable_changes(view, "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"), *view.changed(*_WAYS)]
        installed = [
            c for c in view.changed(*_INSTALLED) if instances_of(c.path)[0].replace("-", "_").startswith(package)
        ]
        evidence = [Evidence(f"{package} is imported from {after(changes[0])}, not from {before(changes[0])}.", STRONG)]
        if ways or installed:
            evidence.append(Evidence("What leads to it changed too.", FAIR, tuple(c.path for c in (*ways, *installed))))
        yield Together(
            f"{package} imported from {after(changes[0])}",
            "Other code runs than before, whatever stands in the tree that was looked at.",
            (*changes, *same, *ways, *installed),
            changes[0].key.effects,
            tuple(evidence),
            prior=0.6,
        )
