"""From pasted texts to a partial snapshot, and to the runs that their figures make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envsnap import __version__
from envsnap.capture import has_type
from envsnap.collectors import key_for, keys, section_of
from envsnap.importers import importer, names, tool_of
from envsnap.importers._figures import runs
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.jsonfile import SnapshotError
from envsnap.keys import Kind, is_path, pattern_of
from envsnap.reading import Json, describe
from envsnap.redact import Redactor
from envsnap.runs.run import Run
from envsnap.snapshot import Section, Snapshot
from envsnap.wording import plural, printable

EXAMPLES = 20
"""Lines that were not understood, kept to be shown."""
IMPORTED = "imported"
"""The entry of a snapshot's scope that says where it comes from."""

_LOGS = ("sglang_log", "vllm_log")
_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_MAX_PATH = 400


@dataclass(frozen=True)
class Source:
    """One dump: the `kind` of its importer and its tool, where it stands (`first` and `last` line, from 1), its lines
    that say anything, those of them that nothing understood; how many readings and figures it gave, and how many values
    were left out.
    """

    file: str
    kind: str
    tool: str
    version: str
    date: str
    first: int
    last: int
    lines: int
    not_understood: int
    readings: int
    dropped: int
    figures: int
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Its form in a snapshot's scope and in reports."""
        return {
            "file": self.file,
            "kind": self.kind,
            "tool": self.tool,
            "version": self.version,
            "date": self.date,
            "first_line": self.first,
            "last_line": self.last,
            "lines": self.lines,
            "not_understood": self.not_understood,
            "readings": self.readings,
            "dropped": self.dropped,
            "figures": self.figures,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Imported:
    """What some texts gave. `unknown` are examples of lines that nothing understood, with their file and number."""

    snapshot: Snapshot
    runs: tuple[Run, ...]
    sources: tuple[Source, ...]
    lines: int
    not_understood: int
    unknown: tuple[tuple[str, int, str], ...]


@dataclass
class _Found:
    """A dump while it is read."""

    text: Text
    kind: str
    lines: range
    sheet: Sheet
    kept: int = 0


def imported(texts: Sequence[Text], redactor: Redactor) -> Imported:
    """Read every dump in the texts. Raises: SnapshotError where there is none that is known."""
    found = [dump for text in texts for dump in _dumps(text)]
    if not found:
        raise SnapshotError(
            f"{' and '.join(text.name for text in texts)}: no snapshot, no run, and no dump of a kind that is known; "
            "`envsnap import --list` names those that are."
        )
    values, disputed = _agreed(found, redactor)
    understood = {id(text): _understood(text, found) for text in texts}
    sources = tuple(_source(dump, understood[id(dump.text)], redactor) for dump in found)
    unknown = [(t, n) for t in texts for n in sorted(t.filled - understood[id(t)])]
    lines = sum(len(text.filled) for text in texts)
    snapshot = _snapshot(values, disputed, sources, (lines, len(unknown)), found, redactor)
    return Imported(
        snapshot=snapshot,
        runs=_runs(snapshot, found, redactor),
        sources=sources,
        lines=lines,
        not_understood=len(unknown),
        unknown=tuple((t.name, n + 1, _shown(t, n, redactor)) for t, n in unknown[:EXAMPLES]),
    )


def _dumps(text: Text) -> Iterator[_Found]:
    """Every dump in a text, in order. What an importer does not foresee costs its own dump alone."""
    places = [(lines, name) for name in names() for lines in importer(name).recognise(text)]
    for lines, name in sorted(places, key=lambda place: (place[0].start, -place[0].stop)):
        sheet = Sheet()
        try:
            importer(name).read(text, lines, sheet)
        except Exception as error:
            sheet = Sheet(notes=[f"it could not be read ({describe(error)})"])
        yield _Found(text, name, lines, sheet)


def _understood(text: Text, found: Iterable[_Found]) -> set[int]:
    return {n for dump in found if dump.text is text for n in dump.sheet.taken | dump.sheet.passed} & text.filled


def _shown(text: Text, number: int, redactor: Redactor) -> str:
    line = text.lines[number] if number != text.cut else "(the last line has no end and may be cut: not read)"
    return str(redactor.sweep(redactor.clean_text(line[:400])))


# -- readings --------------------------------------------------------------------------------------------------------


def _agreed(found: Sequence[_Found], redactor: Redactor) -> tuple[dict[str, Json], dict[str, str]]:
    """Each path's value, and for those on which the dumps disagree what they say: which of them holds is not known.

    What moves by itself may differ between two dumps of one machine: of counters the largest counts, else the first.
    """
    values: dict[str, Json] = {}
    said_by: dict[str, str] = {}
    disputed: dict[str, str] = {}
    for dump in found:
        for entry in dump.sheet.entries:
            if not _has_a_place(entry.path, entry.value):
                dump.sheet.dropped += 1
                continue
            path = redactor.clean_path(entry.path)
            value = redactor.clean_value(path, entry.value)
            dump.kept += 1
            tool = tool_of(dump.kind)
            if path not in values:
                values[path], said_by[path] = value, tool
                continue
            key = key_for(path)
            if key.kind is Kind.COUNTER and isinstance(value, (int, float)):
                values[path] = max(values[path], value)
            elif key.kind not in (Kind.VOLATILE, Kind.CONDITION) and not key.same(values[path], value):
                disputed.setdefault(
                    path, f"the dumps disagree: {_brief(values[path])} ({said_by[path]}), {_brief(value)} ({tool})"
                )
    return {path: value for path, value in values.items() if path not in disputed}, disputed


def _has_a_place(path: str, value: Json) -> bool:
    key = keys().get(pattern_of(path)) if len(path) <= _MAX_PATH and is_path(path) else None
    return key is not None and has_type(value, key.type)


def _brief(value: Json) -> str:
    text = printable(str(value))
    return text if len(text) <= 60 else f"{text[:59]}…"


def _snapshot(
    values: Mapping[str, Json],
    disputed: Mapping[str, str],
    sources: Sequence[Source],
    counts: tuple[int, int],
    found: Sequence[_Found],
    redactor: Redactor,
) -> Snapshot:
    swept = {redactor.sweep_path(path): redactor.sweep(value) for path, value in values.items()}
    errors = {redactor.sweep_path(path): redactor.sweep(message) for path, message in disputed.items()}
    methods: dict[str, dict[str, None]] = {}
    for dump in found:
        for entry in dump.sheet.entries:
            methods.setdefault(section_of(entry.path), {})[tool_of(dump.kind)] = None
    sections = {}
    for name in sorted({section_of(path) for path in (*swept, *errors)}):
        sections[name] = Section(
            status="partial",
            complete=False,
            seconds=0.0,
            method=", ".join(methods.get(name, ())),
            reason="imported",
            values={path: value for path, value in swept.items() if section_of(path) == name},
            errors={path: message for path, message in errors.items() if section_of(path) == name},
        )
    return Snapshot(
        captured_at=_moment(found),
        sections=sections,
        envsnap=__version__,
        scope={IMPORTED: [source.as_json() for source in sources]},
        redaction=redactor.summary(),
        note=_note(sources, counts),
    )


def _moment(found: Sequence[_Found]) -> str:
    """When the latest dump was made, by its own word; empty where none says. Without a zone it has none."""
    exact = [dump.sheet.moment for dump in found if dump.sheet.moment]
    told = [dump.sheet.date[:19].replace(" ", "T") for dump in found if _DATE.match(dump.sheet.date)]
    return max(exact or told or [""])


def _note(sources: Sequence[Source], counts: tuple[int, int]) -> str:
    tools = dict.fromkeys(f"{s.tool} {s.version}".rstrip() for s in sources)
    missed = f"; {counts[1]:,} of {plural(counts[0], 'line')} not understood" if counts[1] else ""
    return f"Imported, partial: {', '.join(tools)}{missed}."


def _source(dump: _Found, understood: set[int], redactor: Redactor) -> Source:
    sheet, own = dump.sheet, dump.text.filled & set(dump.lines)

    def clean(word: str) -> str:
        return str(redactor.sweep(redactor.clean_text(printable(word[:200]))))

    return Source(
        file=dump.text.name,
        kind=dump.kind,
        tool=tool_of(dump.kind),
        version=clean(sheet.version),
        date=clean(sheet.date),
        first=dump.lines.start + 1,
        last=dump.lines.stop,
        lines=len(own),
        not_understood=len(own - understood),
        readings=dump.kept,
        dropped=sheet.dropped,
        figures=sum(len(measured.metrics) for measured in sheet.measured),
        notes=tuple(map(clean, dict.fromkeys(sheet.notes))),
    )


def _runs(snapshot: Snapshot, found: Sequence[_Found], redactor: Redactor) -> tuple[Run, ...]:
    """The runs that were measured, by a benchmark or by the server's log."""
    results = [m for dump in found if dump.kind not in _LOGS for m in dump.sheet.measured]
    logged = [m for dump in found if dump.kind in _LOGS for m in dump.sheet.measured]
    failure = next((dump.sheet.failure for dump in found if dump.sheet.failure), "")
    return runs(snapshot, results, logged, failure, redactor)
