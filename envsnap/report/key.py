"""What a key means, for people and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from envsnap.collectors import collector, section_of
from envsnap.keys import Key, Kind, Lever
from envsnap.reading import Json
from envsnap.report.lines import Line

_PATTERN_COLUMN = 48

_COMPARED = {
    Kind.IDENTITY: "always",
    Kind.TUNABLE: "always",
    Kind.CONDITION: "only between snapshots taken under load",
    Kind.COUNTER: "its growth over a run; as it stands with --counters",
    Kind.VOLATILE: "with --volatile, within its tolerance",
    Kind.LABEL: "with --labels",
}

_LEVERS = {
    Lever.ENV: "an environment variable",
    Lever.ARGUMENT: "an argument of the server",
    Lever.GIT: "a git revision",
    Lever.PACKAGE: "a package's version",
    Lever.FILE: "a file",
    Lever.CACHE: "a cache",
    Lever.AFFINITY: "CPU or NUMA placement",
    Lever.ROOT: "needs root; envsnap prints the command and never runs it",
}


def text(key: Key, path: str, width: int) -> list[Line]:
    """One key in full; `path` is what the user asked for."""
    facts = [
        ("type", " ".join(filter(None, [key.type.value, f"in {key.unit}" if key.unit else ""]))),
        ("kind", key.kind.value),
        ("compared", _COMPARED[key.kind]),
        ("acts on", ", ".join(e.value.replace("_", " ") for e in key.effects) or "nothing known"),
        ("prior", f"{key.prior:g} (0 cosmetic, 1 the first thing to look at)"),
        ("tolerance", _tolerance(key)),
        ("set by", _LEVERS[key.lever] if key.lever else ""),
        ("read by", _source(key)),
    ]
    lines: list[Line] = [[(path, "title")]]
    lines += _wrapped(key.meaning, width)
    lines += [[(f"  {name:<10}", "dim"), (words, "")] for name, words in facts if words]
    if key.advice:
        lines.append([("  what to do", "dim")])
        lines += _wrapped(key.advice, width, "    ")
    if key.at:
        lines.append([("  some instances differ (ask for one to see it)", "dim")])
        lines += [[(f"    {at.instance}", "path"), (f"  {at.meaning or ''}", "")] for at in key.at]
    return lines


def _wrapped(words: str, width: int, indent: str = "  ") -> list[Line]:
    return [[(line, "")] for line in textwrap.wrap(words, width, initial_indent=indent, subsequent_indent=indent)]


def _tolerance(key: Key) -> str:
    parts = [f"{key.rel_tol:.3g} of the value" if key.rel_tol else "", f"{key.abs_tol:g}" if key.abs_tol else ""]
    return " or ".join(filter(None, parts))


def _source(key: Key) -> str:
    name = section_of(key.pattern)
    return f"section {name}: {collector(name).METHOD}"


def listing(keys: Sequence[Key]) -> list[Line]:
    """Many keys, one line each, by section."""
    lines: list[Line] = []
    column = min(_PATTERN_COLUMN, max((len(key.pattern) for key in keys), default=0))
    by_section: dict[str, list[Key]] = {}
    for key in sorted(keys, key=lambda k: k.pattern):
        by_section.setdefault(section_of(key.pattern), []).append(key)
    for name, members in sorted(by_section.items()):
        lines += [*([[]] if lines else []), [(name, "title")]]
        lines += [[(f"  {key.pattern:<{column}}  ", "path"), (key.meaning, "")] for key in members]
    return lines


def as_json(key: Key) -> dict[str, Json]:
    """A key's JSON form."""
    name = section_of(key.pattern)
    return {
        "key": key.pattern,
        "type": key.type.value,
        "unit": key.unit,
        "kind": key.kind.value,
        "meaning": key.meaning,
        "effects": [effect.value for effect in key.effects],
        "prior": key.prior,
        "lever": key.lever.value if key.lever else None,
        "advice": key.advice,
        "instances": [
            {
                "instance": at.instance,
                "kind": at.kind.value if at.kind else None,
                "effects": None if at.effects is None else [effect.value for effect in at.effects],
                "prior": at.prior,
                "meaning": at.meaning,
                "advice": at.advice,
            }
            for at in key.at
        ],
        "section": name,
        "method": collector(name).METHOD,
    }
