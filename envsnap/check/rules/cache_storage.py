"""Directories of compile caches and temporary files are full, read-only, not executable or on a network.

A cache that cannot be written compiles anew in each process; one whose libraries cannot be loaded (noexec) fails at the
first kernel; one on a network file system is shared with other hosts and slow. Fix: SGLANG_CACHE_DIR, TRITON_CACHE_DIR,
XDG_CACHE_HOME and TMPDIR on a local disk with room.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "cache_storage"
SEVERITY = WARNING
NEEDS = ("storage[].available_bytes", "storage[].options")
USES = ("storage[].path", "storage[].medium", "storage[].file_system", "storage[].available_files_count")

_PLACES = ("cache", "tmp")
_NONE, _LITTLE, _FILES = 512 << 20, 5 << 30, 1000


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for name in _PLACES:
        base = f"storage[{name}]"
        place = facts.value(f"{base}.path") or name
        room, files = facts.value(f"{base}.available_bytes"), facts.value(f"{base}.available_files_count")
        if room is not None and room < _LITTLE:
            yield Problem(f"{place} has {room / 2**30:.1f} GiB left", (f"{base}.available_bytes",),
                          f"df -h {place}", ERROR if room < _NONE else "")  # fmt: skip
        # NOTE: some file systems have no fixed number of files, and say 0.
        if files is not None and 0 < files < _FILES:
            yield Problem(f"{place} can hold {files} more files", (f"{base}.available_files_count",), f"df -i {place}")
        options = facts.value(f"{base}.options") or ()
        for option in ("ro", "noexec"):
            if option in options:
                yield Problem(f"{place} is mounted {option}", (f"{base}.options",), severity=ERROR)
        if name == "cache" and facts.value(f"{base}.medium") == "network":
            kind = facts.value(f"{base}.file_system")
            yield Problem(
                f"{place} is on a network ({kind})", (f"{base}.medium",), "Set XDG_CACHE_HOME to a local disk."
            )
