"""Snapshots made of others: with readings changed, left out, renamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from envsnap.collectors import section_of
from envsnap.keys import parents_of
from envsnap.reading import Json
from envsnap.snapshot import Section, Snapshot

Readings = Mapping[str, Json]
"""Readings by path; None stands for unset."""


def changed(snapshot: Snapshot, readings: Readings) -> Snapshot:
    """The snapshot with other readings; what was unavailable there is read."""
    touched: dict[str, Section] = {}
    for path, value in readings.items():
        name = section_of(path)
        section = touched.get(name)
        if section is None:
            old = snapshot.sections.get(name) or Section("ok", True, 0.0, "")
            section = touched[name] = replace(old, values=dict(old.values), unavailable=dict(old.unavailable))
        if value is None:
            section.values.pop(path, None)
        else:
            section.values[path] = value
        for covering in (path, *parents_of(path)):
            section.unavailable.pop(covering, None)
    return replace(snapshot, sections={**snapshot.sections, **touched})


def without(snapshot: Snapshot, name: str, *beginnings: str) -> Snapshot:
    """The snapshot without the paths of one section that begin so."""
    section = snapshot.sections.get(name)
    if section is None or not beginnings:
        return snapshot
    values = {p: v for p, v in section.values.items() if not p.startswith(beginnings)}
    unavailable = {p: u for p, u in section.unavailable.items() if not p.startswith(beginnings)}
    return replace(
        snapshot,
        sections={**snapshot.sections, name: replace(section, values=values, unavailable=unavailable)},
    )


def renamed(snapshot: Snapshot, names: Mapping[str, str]) -> Snapshot:
    """The snapshot with parts of its paths replaced, the first that stands in a path."""

    def new(path: str) -> str:
        for old, new in names.items():
            if old in path:
                return path.replace(old, new)
        return path

    sections = {
        name: replace(
            section,
            values={new(p): v for p, v in section.values.items()},
            unavailable={new(p): u for p, u in section.unavailable.items()},
        )
        for name, section in snapshot.sections.items()
    }
    return replace(snapshot, sections=sections)
