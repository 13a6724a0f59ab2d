"""Why is the same benchmark slow today? Record the state that can matter, compare two records, check a machine."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from envsnap.capture import capture
    from envsnap.change import Change, Diff
    from envsnap.check import check
    from envsnap.diff import diff
    from envsnap.jsonfile import SnapshotError
    from envsnap.keys import Effect, Key, Kind
    from envsnap.reading import Error, Missing, Reading, Unavailable, Unknown, Unset, Value, Why
    from envsnap.scope import Scope
    from envsnap.snapshot import Section, Snapshot, load, write

__all__ = [
    "Change",
    "Diff",
    "Effect",
    "Error",
    "Key",
    "Kind",
    "Missing",
    "Reading",
    "Scope",
    "Section",
    "Snapshot",
    "SnapshotError",
    "Unavailable",
    "Unknown",
    "Unset",
    "Value",
    "Why",
    "capture",
    "check",
    "diff",
    "load",
    "write",
]

# The module of each public name. They are imported at first use: the plug-ins in envsnap.integrations are loaded by
# every worker of an engine, and must cost it nothing while they have nothing to do.
_HOME = {
    **dict.fromkeys(("Change", "Diff"), "change"),
    **dict.fromkeys(("Effect", "Key", "Kind"), "keys"),
    **dict.fromkeys(("Error", "Missing", "Reading", "Unavailable", "Unknown", "Unset", "Value", "Why"), "reading"),
    **dict.fromkeys(("Section", "Snapshot", "load", "write"), "snapshot"),
    "Scope": "scope",
    "SnapshotError": "jsonfile",
    "capture": "capture",
    "check": "check",
    "diff": "diff",
}


class _Package(ModuleType):
    """This package, in which some functions have the name of their module."""

    def __getattr__(self, name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # NOTE: importing a submodule binds it in its package. `envsnap.diff` has to stay the function of that name; the
        # module is reached by `from envsnap.diff import ...`.
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
