"""Requirements that nothing could meet together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envsnap.check.comparators import satisfiable
from envsnap.check.policy import Requirement
from envsnap.check.selectors import Selector, overlap
from envsnap.collectors import keys
from envsnap.keys import Key


def contradictions(requirements: Sequence[Requirement]) -> list[str]:
    """A sentence for each two requirements under the same conditions, or one by itself, that nothing could meet."""
    return [
        _sentence(one, other)
        for one, other in ((requirements[a], requirements[b]) for a, b in sorted(set(_pairs(requirements))))
        if one.applies_when == other.applies_when and overlap(one.selector, other.selector) and _clash(one, other)
    ]


def _pairs(requirements: Sequence[Requirement]) -> Iterator[tuple[int, int]]:
    """Places of requirements that can speak of one path: they name it both, or one names a pattern of its key."""
    by_path: dict[str, list[int]] = {}
    by_key: dict[str, list[int]] = {}
    for number, one in enumerate(requirements):
        same = by_path.setdefault(one.selector.path or one.selector.text, [])
        same.append(number)
        yield from ((earlier, number) for earlier in same)
        for pattern in one.selector.patterns:
            by_key.setdefault(pattern, []).append(number)
    for members in by_key.values():
        wild = [n for n in members if requirements[n].selector.path is None]
        yield from ((min(w, n), max(w, n)) for w in wild for n in members)


def _clash(one: Requirement, other: Requirement) -> bool:
    if one.absent or other.absent:
        return any(r.tests or r.present or r.same_as_baseline for r in (one, other))
    return not satisfiable(_key(one.selector), [one.tests] if one is other else [one.tests, other.tests])


def _sentence(one: Requirement, other: Requirement) -> str:
    if one is other:
        return f"{one.origin}: {one.selector.text} contradicts itself: nothing can meet all of its tests."
    elsewhere = "" if other.origin == one.origin else f" in {other.origin}"
    return f"{one.origin}: {one.selector.text} and {other.selector.text}{elsewhere} contradict each other."


def _key(selector: Selector) -> Key:
    return keys()[selector.patterns[0]].for_path(selector.path or selector.patterns[0].replace("[]", "[x]"))
