"""Folding of paths that say the same: `gpu[0-7].driver` for eight paths. For display alone; ids stay unfolded."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from envsnap.change import Change
from envsnap.collectors import keys
from envsnap.keys import instance, instances_of, pattern_of
from envsnap.reading import Reading, Value

_NUMBERED = re.compile(r"(.*?)(\d{1,9})(\D*)\Z", re.DOTALL)
_LISTED = 6


def fold(paths: Iterable[str], by_name: bool = True) -> list[tuple[str, list[str]]]:
    """Fold paths over their instances: (title, paths) pairs, in the order of their first paths.

    A title stands for every combination of the instances in it, so it never claims a path that was not given.
    Without `by_name` the last instance is a fact's own name (`env[NCCL_PROTO]`) and stays unfolded.
    """
    by_pattern: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for path in paths:
        by_pattern.setdefault(pattern_of(path), []).append((tuple(instances_of(path)), path))
    folded = []
    for pattern, members in by_pattern.items():
        for axes, held in _merge(members, by_name):
            folded.append((_fill(pattern, axes), held))
    return folded


_Row = tuple[tuple[tuple[str, ...], ...], list[str]]


def _merge(members: Sequence[tuple[tuple[str, ...], str]], by_name: bool) -> list[_Row]:
    rows: list[_Row] = [(tuple((name,) for name in names), [path]) for names, path in members]
    depth = len(members[0][0])
    for position in range(depth if by_name else depth - 1):
        alike: dict[tuple[tuple[str, ...], ...], list[_Row]] = {}
        for row in rows:
            alike.setdefault((*row[0][:position], *row[0][position + 1 :]), []).append(row)
        rows = []
        for group in alike.values():
            names = tuple(name for axes, _ in group for name in axes[position])
            axes = group[0][0]
            held = [path for _, paths in group for path in paths]
            rows.append(((*axes[:position], names, *axes[position + 1 :]), held))
    return rows


def _fill(pattern: str, axes: Sequence[Sequence[str]]) -> str:
    parts = pattern.split("[]")
    return parts[0] + "".join(f"[{listed(names)}]{part}" for names, part in zip(axes, parts[1:]))


def listed(names: Sequence[str]) -> str:
    """Instances in short: `0-3,6` or `scheduler_TP0-7,detokenizer`, at most a few of them spelled out."""
    if len(names) == 1:
        return instance(names[0])
    series: dict[tuple[str, str], list[int]] = {}
    plain = []
    for name in names:
        match = _NUMBERED.match(name)
        if match and str(int(match[2])) == match[2]:
            series.setdefault((match[1], match[3]), []).append(int(match[2]))
        else:
            plain.append(instance(name))
    found = [instance(f"{a}{span}{z}") for (a, z), numbers in series.items() for span in _spans(sorted(numbers))]
    found += sorted(plain)
    more = len(found) - _LISTED
    return ",".join(found) if more <= 1 else ",".join(found[:_LISTED]) + f",… {more} more"


def _spans(numbers: Sequence[int]) -> list[str]:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return [str(a) if a == z else f"{a}-{z}" for a, z in spans]


@dataclass(frozen=True)
class Group:
    """Changes of one key with the same readings before and after, under a folded title."""

    title: str
    changes: tuple[Change, ...]

    @property
    def first(self) -> Change:
        """One of them, for what they have in common."""
        return self.changes[0]


def grouped(changes: Iterable[Change]) -> list[Group]:
    """Fold changes that say the same, the likeliest causes of a slowdown first."""
    alike: dict[Hashable, dict[str, Change]] = {}
    for change in changes:
        same = change.key, change.leaf, _signature(change.before), _signature(change.after)
        alike.setdefault(same, {})[change.path] = change
    groups = []
    for members in alike.values():
        some = next(iter(members.values()))
        declared = keys().get(some.key.pattern)
        for title, paths in fold(members, by_name=not (declared and declared.at)):
            groups.append(Group(title + some.leaf, tuple(members[path] for path in paths)))
    return sorted(groups, key=lambda group: (-group.first.key.prior, group.title))


def _signature(reading: Reading) -> str:
    if isinstance(reading, Value):
        return json.dumps(reading.value, sort_keys=True)
    return repr(reading)
