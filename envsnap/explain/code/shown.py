"""What differs between two states of a repository, as hunks to be shown: of each file what is known of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envsnap.explain.code.hunks import FilePatch, Hunk
from envsnap.explain.code.revisions import Recorded, Revisions
from envsnap.explain.story import Facts
from envsnap.host import Host

CONTEXT = 3
MAX_LINES = 6000
"""Lines of both versions of a file together, beyond which difflib takes seconds: its patches are shown instead."""


@dataclass(frozen=True)
class Difference:
    """Hunks of one file; `note` says between what, where that is not the fast and the slow state."""

    hunks: tuple[Hunk, ...]
    note: str = ""


def differences(
    fast: Facts, slow: Facts, name: str, paths: Iterable[str], host: Host | None
) -> dict[str, list[Difference]]:
    """The hunks of some files of a repository, from its fast to its slow state; of others than text there are none."""
    recorded = Recorded.of(fast, name), Recorded.of(slow, name)
    wanted = list(paths)
    texts = Revisions(*recorded, host).versions(wanted)
    one_base = bool(recorded[0].head) and recorded[0].head == recorded[1].head
    found = {}
    for path in wanted:
        old, new = texts[path]
        if old.text is not None and new.text is not None and _short(old.text, new.text):
            found[path] = [Difference(tuple(between(old.text, new.text)))]
        else:
            one, two = (r.patches.get(path) for r in recorded)
            found[path] = list(_recorded(one, two, one_base))
    return found


def _short(old: str, new: str) -> bool:
    return old.count("\n") + new.count("\n") <= MAX_LINES


def between(old: str, new: str) -> Iterator[Hunk]:
    """The hunks from one text to another."""
    a, b = old.removesuffix("\n").split("\n"), new.removesuffix("\n").split("\n")
    for group in difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(CONTEXT):
        lines: list[str] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in a[i1:i2]]
            else:
                lines += [f"-{line}" for line in a[i1:i2]]
                lines += [f"+{line}" for line in b[j1:j2]]
        yield Hunk(group[0][1] + 1, group[0][3] + 1, tuple(lines))


def _recorded(fast: FilePatch | None, slow: FilePatch | None, one_base: bool) -> Iterator[Difference]:
    """What the patches show where the texts are not at hand."""
    if one_base and slow and not fast:
        yield Difference(slow.hunks)
    elif one_base and fast and not slow:
        yield Difference(tuple(_reversed(hunk) for hunk in fast.hunks))
    else:
        for patch, side in ((fast, "fast"), (slow, "slow")):
            if patch:
                yield Difference(patch.hunks, f"beside its commit on the {side} side")


def _reversed(hunk: Hunk) -> Hunk:
    turned = {"-": "+", "+": "-"}
    return Hunk(hunk.new, hunk.old, tuple(turned.get(line[:1], line[:1]) + line[1:] for line in hunk.lines))
