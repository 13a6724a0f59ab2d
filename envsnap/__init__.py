"""Why is the same benchmark slow today? Record the state that can matter, compare two records, check a machine."""

from __future__ import annotations

__version__ = "0.1.0"

# NOTE: some functions have the name of their module (capture, diff, check). Importing them here, at once, makes
# the package's attribute the function for good; the modules are reached with `from envsnap.diff import ...`.
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
