"""A library from elsewhere takes the place of the one that torch came with.

LD_LIBRARY_PATH or LD_PRELOAD leads to a cuDNN or cuBLAS of another version than the wheel's: kernels are then others,
or fail. Fix: take that directory out of LD_LIBRARY_PATH for this command.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "shadowed_library"
SEVERITY = WARNING
NEEDS = ("library[].found_by",)
USES = ("library[].version", "library[].path")

_BY = ("LD_LIBRARY_PATH", "LD_PRELOAD")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for kind in ("cudnn", "cublas"):
        first, version = f"library[{kind}/0]", facts.value(f"library[{kind}/0].version")
        by = [name for name in facts.value(f"{first}.found_by") or () if name in _BY]
        others = (role for (role,), _, found in facts.each("library[].found_by")
                  if role.startswith(f"{kind}/") and "site_packages" in found)  # fmt: skip
        own = facts.value(f"library[{next(others, kind)}].version")
        if by and version and own and version != own:
            yield Problem(f"{kind} {version} of {by[0]} takes the place of {own} of the wheel",
                          (f"{first}.version", f"{first}.path"))  # fmt: skip
