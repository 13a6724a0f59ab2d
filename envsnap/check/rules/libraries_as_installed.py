"""A worker has mapped another library than is installed, two of a kind, or one that was replaced since.

What pip lists, what torch was built with and what a rank runs can be three versions; after an upgrade under a running
server the file is gone and the old one still runs. Fix: start the server anew; LD_PRELOAD, LD_LIBRARY_PATH,
SGLANG_NCCL_SO_PATH.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem
from envsnap.check.rules import AFTER
from envsnap.fold import listed
from envsnap.keys import path_of

CODE = "libraries_as_installed"
SEVERITY = ERROR
NEEDS = ("worker[].library[].version",)
USES = ("worker[].library[].replaced", "worker[].library[].path", "library[].version")
WHEN = AFTER

_KINDS = ("nccl", "cudnn", "cublas")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    mapped: dict[tuple[str, str], list[str]] = {}
    for (role, library), _, version in facts.each("worker[].library[].version"):
        mapped.setdefault((library, str(version)), []).append(role)
    for (library, version), roles in mapped.items():
        kind, _, number = library.partition("/")
        installed = facts.value(f"library[{kind}/0].version")
        paths = tuple(path_of("worker[].library[].version", role, library) for role in roles)
        if kind == "nccl" and number not in ("", "0"):
            yield Problem(f"{listed(roles)}: a second NCCL is loaded ({version})", paths, severity=WARNING)
        elif kind in _KINDS and installed and not _agree(version, str(installed)):
            yield Problem(f"{listed(roles)}: {kind} {version} is loaded, {installed} is installed", paths)
    replaced: dict[str, list[str]] = {}
    for (role, library), _, gone in facts.each("worker[].library[].replaced"):
        if gone:
            replaced.setdefault(library, []).append(role)
    for library, roles in replaced.items():
        yield Problem(f"{listed(roles)}: {library} was replaced since it was loaded",
                      tuple(path_of("worker[].library[].replaced", role, library) for role in roles),
                      "Start the server anew.")  # fmt: skip


def _agree(one: str, other: str) -> bool:
    """Versions of which one may be longer: 9.10.2 and 9.10.2.21."""
    a, b = one.split("+")[0].split("."), other.split("+")[0].split(".")
    return all(x == y for x, y in zip(a, b))
