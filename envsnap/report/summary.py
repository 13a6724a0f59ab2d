"""What a capture got, what it could not get and why, and what it cost; on one screen."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter

from envsnap.fold import fold
from envsnap.reading import Json
from envsnap.report.lines import Line
from envsnap.snapshot import Section, Snapshot
from envsnap.views import host_prefix, unseen
from envsnap.wording import clip, plural, printable, shorten

_GAPS = 10
_SLOWEST = 3
_NO_PREFIX = "''"


def text(snapshot: Snapshot, file: str, width: int) -> list[Line]:
    """The summary for people."""
    sections = snapshot.sections
    whole = [name for name, s in sections.items() if s.status == "ok"]
    head = f"{plural(len(snapshot.values), 'reading')} in {_cost(snapshot)}"
    lines: list[Line] = [[(head, "title"), (f"  →  {file}", "")]]
    lines += _via(snapshot, width)
    for i, words in enumerate(textwrap.wrap(", ".join(whole), width - 6)):
        lines.append([("  ok  " if i == 0 else "      ", "good"), (words, "")])
    for name, section in sections.items():
        if section.status != "ok":
            held = f", {plural(len(section.values), 'reading')}" if section.values else ""
            words = printable(f"{section.status}{held}: {section.reason}")
            lines.append([(f"  {name}  ", "warn"), (clip(words, width - len(name) - 4), "")])
    gaps = _gaps(snapshot)
    if gaps:
        lines.append([("not read", "title")])
        for name, title, words in gaps[:_GAPS]:
            lines.append([(f"  {name}  ", "warn"), (clip(printable(f"{title}: {words}"), width - len(name) - 4), "")])
        if len(gaps) > _GAPS:
            lines.append([(f"  … and {plural(len(gaps) - _GAPS, 'more reason')} (envsnap show)", "dim")])
    # Collectors run side by side, each on its own clock: these add up to more than the whole.
    slow = sorted(sections.items(), key=lambda item: -item[1].seconds)[:_SLOWEST]
    lines.append([("  slowest: " + ", ".join(f"{name} {s.seconds:.2f} s" for name, s in slow), "dim")])
    return lines


def _via(snapshot: Snapshot, width: int) -> list[Line]:
    """How another machine was reached, what cannot be seen from there, and how it could be."""
    via = snapshot.via
    if not via:
        return []
    away = via.get("round_trip_seconds")
    parts = [
        f"Python {via.get('python', '?')}",
        *([f"{away * 1e3:.0f} ms away"] if isinstance(away, float) else []),
        f"{via.get('sent_bytes', 0) / 1e3:.0f} kB sent",
    ]
    prefix = str(via.get("prefix", ""))
    told = printable(f"  ({', '.join(parts)})")
    lines: list[Line] = [
        [("  via ", "key"), (shorten(printable(prefix or _NO_PREFIX), width - 6 - len(told)) + told, "")]
    ]
    host = via.get("host_view")
    if isinstance(host, dict):
        count = plural(len(host.get("paths", [])), "reading")
        words = f"{count} that only its host can see, via {host.get('prefix') or _NO_PREFIX}"
        return [*lines, [("  host ", "key"), (clip(printable(words), width - 7), "")]]
    hidden = unseen(snapshot)
    if hidden:
        kind = snapshot.values.get("container.kind")
        inside = "a container" if kind == "other" else f"a container ({kind})"
        lines += [
            [("  ! " if i == 0 else "    ", "warn"), (words, "")]
            for i, words in enumerate(
                textwrap.wrap(f"From inside {inside} nobody sees {'; '.join(hidden)}.", width - 4)
            )
        ]
        lines.append([("    ", ""), (clip(printable(_offer(prefix)), width - 4), "dim")])
    return lines


def _offer(prefix: str) -> str:
    host = host_prefix(shlex.split(prefix))
    if host is None:
        return "The host's view too: add --via with a prefix that leads to its host."
    return f"The host's view too: add --via {shlex.quote(shlex.join(host))}"


def _cost(snapshot: Snapshot) -> str:
    cost = snapshot.cost
    parts = [f"{cost['wall_seconds']:.2f} s" if "wall_seconds" in cost else "unknown time"]
    if "cpu_seconds" in cost:
        parts.append(f"{cost['cpu_seconds']:.2f} s CPU")
    if "peak_rss_bytes" in cost:
        parts.append(f"{cost['peak_rss_bytes'] / 1e6:.0f} MB")
    return ", ".join(parts)


def _gaps(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """What was not read, folded: (section, paths, reason), errors first."""
    found = []
    for name, section in snapshot.sections.items():
        alike: dict[tuple[bool, str], list[str]] = {}
        for path, message in section.errors.items():
            alike.setdefault((False, f"error, {message}"), []).append(path)
        for path, unavailable in section.unavailable.items():
            # NOTE: by the reason without its detail, which often names the path and would keep them apart.
            alike.setdefault((True, unavailable.why.value.replace("_", " ")), []).append(path)
        for (order, words), paths in alike.items():
            titles = [title for title, _ in fold(paths)]
            more = f" and {len(titles) - 3} more" if len(titles) > 3 else ""
            found.append((order, name, ", ".join(titles[:3]) + more, words))
    return [(name, title, words) for _, name, title, words in sorted(found)]


def as_json(snapshot: Snapshot, file: str) -> dict[str, Json]:
    """The summary's JSON form."""
    return {
        "format": "envsnap.summary",
        "version": 1,
        "file": file,
        **({"via": snapshot.via} if snapshot.via else {}),
        "captured_at": snapshot.captured_at,
        "configuration": snapshot.configuration_hash,
        "readings": len(snapshot.values),
        "sections": {name: _section(section) for name, section in snapshot.sections.items()},
        "cost": snapshot.cost,
        "redaction": snapshot.redaction,
        "next": [["envsnap", "show", file]],
    }


def several(summaries: list[dict[str, Json]], troubles: list[str]) -> dict[str, Json]:
    """The JSON form of many captures at once; `troubles` are sentences about machines that could not be captured."""
    return {"format": "envsnap.summaries", "version": 1, "summaries": summaries, "troubles": troubles}


def _section(section: Section) -> dict[str, Json]:
    return {
        "status": section.status,
        "reason": section.reason,
        "readings": len(section.values),
        "unavailable": dict(Counter(u.why.value for u in section.unavailable.values())),
        "errors": len(section.errors),
        "seconds": round(section.seconds, 4),
    }
