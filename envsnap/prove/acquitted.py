"""How readily each part of a repository is believed: what no worker ran hardly, the rest alike."""

from __future__ import annotations

from functools import cache

from envsnap.explain.explanation import Side
from envsnap.explain.reach import FileReach, RepositoryReach, repositories
from envsnap.explain.story import Facts
from envsnap.host import LiveHost
from envsnap.prove.levels import Weigh
from envsnap.prove.parts import Part

ACQUITTED = 0.02
"""Against 1 for a part that may be the cause. Never nothing: an experiment may find what reading has ruled out."""
QUIET = 0.2
"""Of one that did not run while serving."""
_LINES = 3
"""Of context around what a hunk changes."""


def weigher(fast: Side, slow: Side) -> Weigh:
    """How readily a part is believed, by what both sides' workers ran; looked up once it is asked for."""

    @cache
    def reaches() -> dict[str, RepositoryReach]:
        return {r.name: r for r in repositories(Facts(fast), Facts(slow), LiveHost())}

    def weigh(suspect: str, part: Part) -> float:
        reach = reaches().get(suspect.removeprefix("git:"))
        if reach is None:
            return 1.0
        if part.place:
            return _of_hunk(reach, part.place)
        if part.commit:
            innocent = any(c.innocent for c in reach.commits if c.commit.commit == part.commit)
            return ACQUITTED if innocent else 1.0
        beside = [f for f in reach.files if not f.committed]
        return ACQUITTED if beside and all(f.innocent for f in beside) else 1.0

    return weigh


def _of_hunk(reach: RepositoryReach, place: str) -> float:
    path, _, line = place.rpartition(":")
    name = path if line.isdigit() and path else place
    file = next((f for f in reach.files if f.path == name), None)
    if file is None:
        return 1.0
    if file.innocent:
        return ACQUITTED
    return _of_edits(file, int(line)) if line.isdigit() else QUIET if file.quiet else 1.0


def _of_edits(file: FileReach, line: int) -> float:
    """The edits that begin at a hunk's first line, or close by."""
    near = [e for e in file.edits if any(n and abs(n[0] - line) <= _LINES for n in (e.new_lines, e.old_lines))]
    if near and all(e.innocent for e in near):
        return ACQUITTED
    return QUIET if near and all(e.innocent or e.quiet for e in near) else 1.0
