"""A snapshot's readings, by section."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from envsnap.collectors import collector, key_for, keys, sections
from envsnap.fold import fold
from envsnap.keys import instances_of, matches, pattern_of
from envsnap.reading import Json
from envsnap.report.lines import Line
from envsnap.snapshot import Section, Snapshot
from envsnap.wording import clip, printable, reading_json, shorten, value_text

_PATH_COLUMN = 44


def text(snapshot: Snapshot, patterns: Sequence[str], width: int, everything: bool = False) -> list[Line]:
    """The readings for people, those that are alike folded, long values cut unless `everything`."""
    lines: list[Line] = []
    for name, section in sorted(snapshot.sections.items()):
        rows = _values(section, patterns) + absent_rows(section, patterns)
        if not rows and (patterns or section.status == "ok"):
            continue
        state = "" if section.status == "ok" else f"  {section.status}: {section.reason}"
        if not section.complete and section.status == "ok":
            state = "  incomplete"
        lines += [[]] if lines else []
        lines.append([(name, "title"), (f"  {section_title(name)}", "dim"), (state, "warn")])
        column = min(_PATH_COLUMN, max((len(title) for title, _, _ in rows), default=0))
        for title, words, style in rows:
            lines += _row(title, words, style, column, 1 << 20 if everything else width)
    return lines


def section_title(name: str) -> str:
    """What a section is about, in a few words."""
    if name not in sections():
        return "not known to this version of envsnap"
    return (collector(name).__doc__ or "").split("\n")[0]


def _row(title: str, words: str, style: str, column: int, width: int) -> Iterator[Line]:
    title = printable(title)
    cut = clip if style else shorten  # reasons are sentences
    if len(title) <= column:
        yield [("  " + title.ljust(column + 2), "path"), (cut(words, width - column - 4), style)]
    else:
        yield [("  " + shorten(title, width - 2), "path")]
        yield [(" " * (column + 4), ""), (cut(words, width - column - 4), style)]


def _wanted(path: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(matches(path, pattern) for pattern in patterns)


def _values(section: Section, patterns: Sequence[str]) -> list[tuple[str, str, str]]:
    return [(*row, "") for row in folded({p: v for p, v in section.values.items() if _wanted(p, patterns)})]


def folded(values: Mapping[str, Json]) -> list[tuple[str, str]]:
    """Values by path in words, in order, alike ones under one title: (title, words) pairs."""
    alike: dict[tuple[str, str], list[str]] = {}
    for path in sorted(values, key=order):
        alike.setdefault((pattern_of(path), json.dumps(values[path], sort_keys=True)), []).append(path)
    rows = []
    for (pattern, _), paths in alike.items():
        declared = keys().get(pattern)
        for title, members in fold(paths, by_name=not (declared and declared.at)):
            rows.append((title, value_text(key_for(members[0]), values[members[0]])))
    return rows


def absent_rows(section: Section, patterns: Sequence[str] = ()) -> list[tuple[str, str, str]]:
    """What a section could not read and why, alike ones folded: (title, words, style)."""
    alike: dict[str, list[str]] = {}
    for path, unavailable in section.unavailable.items():
        alike.setdefault(f"unavailable ({unavailable})", []).append(path)
    for path, message in section.errors.items():
        alike.setdefault(f"error ({message})", []).append(path)
    return [
        (title, printable(words), "warn")
        for words, paths in alike.items()
        for title, _ in fold(sorted((p for p in paths if _wanted(p, patterns)), key=order))
    ]


def order(path: str) -> tuple[str, list[tuple[int, str]]]:
    """Sorting by name, then by instances, numbers as numbers."""
    return pattern_of(path), [
        (int(i), "") if i.isdecimal() and len(i) < 10 else (1 << 30, i) for i in instances_of(path)
    ]


def as_json(snapshot: Snapshot, name: str, patterns: Sequence[str]) -> dict[str, Json]:
    """The readings' JSON form, by path."""
    readings = {
        path: {**reading_json(snapshot_reading), **({"unit": unit} if (unit := key_for(path).unit) else {})}
        for section in snapshot.sections.values()
        for path in sorted({*section.values, *section.unavailable, *section.errors}, key=order)
        if _wanted(path, patterns)
        for snapshot_reading in [section.reading(path)]
    }
    return {
        "format": "envsnap.readings",
        "version": 1,
        "name": name,
        "captured_at": snapshot.captured_at,
        "readings": readings,
    }
