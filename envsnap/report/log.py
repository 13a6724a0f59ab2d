"""The list of runs as text and JSON: one line a group and arm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median

from envsnap.reading import Json
from envsnap.report.lines import Line, cut
from envsnap.store import Entry
from envsnap.wording import shorten

ROWS = 30


def text(entries: Sequence[Entry], everything: bool = False, changed: str = "") -> list[Line]:
    """One line a group and arm, newest first. `changed`: they are those with which that reading changed."""
    if not entries and changed:
        return [[(f"{changed} never changed.", "dim")]]
    if not entries:
        return [[("No runs yet: envsnap run -- BENCHMARK", "dim")]]
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.group, entry.arm), []).append(entry)
    shown = list(groups.values()) if everything else list(groups.values())[:ROWS]
    lines = [_row(members) for members in shown]
    return [*lines, *filter(None, [cut(len(groups), len(shown))])]


def _row(members: Sequence[Entry]) -> Line:
    newest = members[0]
    good = [m for m in members if m.status == "ok"]
    figure = "no figures"
    for metric, _, unit in newest.metrics[:1]:
        values = [value for m in good if (value := m.value(metric)) is not None]
        figure = f"{metric} {median(values):.4g} {unit}" if values else figure
    name = newest.group + (f"/{newest.arm}" if newest.arm else "")
    return [
        (f"{newest.started_at[:19].replace('T', ' ')}  ", "dim"),
        (f"{name:15}", "path"),
        (f"{newest.label[:16]:17}", "title"),
        (f"{len(good)}/{len(members)} ok  ", "" if len(good) == len(members) else "warn"),
        (f"{figure:38}", ""),
        (shorten(" ".join(json.loads(newest.command)), 40), "dim"),
    ]


def as_json(entries: Sequence[Entry]) -> dict[str, Json]:
    """The list's JSON form, one entry a run."""
    return {"format": "envsnap.log", "version": 1, "runs": [_entry(entry) for entry in entries]}


def _entry(entry: Entry) -> dict[str, Json]:
    fields = entry._asdict()
    return {
        **{name: fields[name] for name in fields if name not in ("command", "metrics_json")},
        "command": json.loads(entry.command),
        "metrics": [{"name": name, "value": value, "unit": unit} for name, value, unit in entry.metrics],
    }
