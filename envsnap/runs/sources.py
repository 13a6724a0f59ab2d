"""Where a run's figures come from: files that the benchmark writes, its output, patterns in it, the server.

A file that grows by a line a run (JSONL) is marked before the benchmark starts, so that only what this run appended is
read; a file that was there before and did not change holds another run's figures, and is refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Measured, Metric, NoMetrics, positive
from envsnap.runs.readers import last_document, read_text

MAX_BYTES = 256 << 20

FILE_OPTIONS = ("--output-file", "--result-filename", "--export-json", "--output-json")
"""Options by which benchmarks are told where to write their figures."""


@dataclass(frozen=True)
class Pattern:
    """A figure picked by a regular expression (its first group), or by a path into JSON: `a.b.0.c`."""

    name: str
    expression: str = ""
    json_path: str = ""
    unit: str = ""
    better: Better = Better.HIGHER

    def __str__(self) -> str:
        """As `pattern_of` takes it."""
        direction = "" if self.better is _usual(self.unit) else f",{self.better.value}"
        head = f"{self.name}[{self.unit}{direction}]" if self.unit or direction else self.name
        return f"{head}={f'json:{self.json_path}' if self.json_path else self.expression}"


@dataclass(frozen=True)
class Wanted:
    """`files` to read, `output` to read standard output, `patterns` picked from whichever of the two is there."""

    files: tuple[str, ...] = ()
    output: bool = False
    patterns: tuple[Pattern, ...] = ()

    @property
    def needs_output(self) -> bool:
        """Whether standard output has to be kept for a reader."""
        return self.output or (bool(self.patterns) and not self.files)


@dataclass(frozen=True)
class Mark:
    """How the files stood before the benchmark: path -> (size, time of change in ns), None where there was none."""

    files: dict[str, tuple[int, int] | None]


def mark(wanted: Wanted, argv: Sequence[str]) -> Mark:
    """Note how the files stand that the benchmark will write to."""
    return Mark({path: _state(path) for path in _files(wanted, argv)})


def read(wanted: Wanted, argv: Sequence[str], before: Mark, output: Path | None) -> Measured:
    """What the benchmark measured. Nothing asked for and nothing known: no metrics. Raises: NoMetrics."""
    texts = [(path, _fresh(path, before)) for path in _files(wanted, argv)]
    if output is not None:
        texts.append(("standard output", _text(output)))
    if not texts:
        return Measured(())
    if wanted.patterns:
        return Measured(tuple(_pick(pattern, texts) for pattern in wanted.patterns))
    parts = [read_text(text, name) for name, text in texts]
    return Measured(
        tuple(m for part in parts for m in part.metrics),
        {k: v for part in parts for k, v in part.request.items()},
        next((part.window for part in parts if part.window), None),
        tuple(w for part in parts for w in part.warnings),
    )


def pattern_of(text: str) -> Pattern:
    """`NAME=REGEX` or `NAME=json:PATH`, NAME with an optional unit and direction: `latency[ms,lower]=…`.

    Without a direction less is better of what has a unit of time, and more of anything else.

    Raises: ValueError, in a sentence.
    """
    head, equals, expression = text.partition("=")
    match = re.fullmatch(r"([A-Za-z_]\w*)(?:\[([^,\]]*)(?:,(higher|lower|neither))?\])?", head.strip())
    if not equals or not match or not expression:
        raise ValueError(f"{text!r} is not NAME=REGEX, NAME[unit,lower]=REGEX or NAME=json:PATH.")
    better = Better(match[3]) if match[3] else _usual(match[2] or "")
    if expression.startswith("json:"):
        return Pattern(match[1], json_path=expression[5:], unit=match[2] or "", better=better)
    try:
        compiled = re.compile(expression)
    except re.error as error:
        raise ValueError(f"{expression!r} is not a regular expression: {error}.") from error
    if compiled.groups < 1:
        raise ValueError(f"{expression!r} has no group; put the figure in parentheses.")
    return Pattern(match[1], expression, unit=match[2] or "", better=better)


_TIME = re.compile(r"(?:[nuµμm]?s|sec|min|h|(?:nano|micro|milli)?seconds?|msec|usec|minutes?|hours?)(?:/\w+)?")
"""Units of time, also by piece: `ms/token`."""


def _usual(unit: str) -> Better:
    return Better.LOWER if _TIME.fullmatch(unit.strip()) else Better.HIGHER


def _files(wanted: Wanted, argv: Sequence[str]) -> tuple[str, ...]:
    if wanted.files or wanted.output or wanted.patterns:
        return wanted.files
    found = []
    for option, value in zip(argv, [*argv[1:], ""]):
        name, equals, inline = option.partition("=")
        if name in FILE_OPTIONS and (inline if equals else value):
            found.append(inline if equals else value)
    return tuple(found)


def _state(path: str) -> tuple[int, int] | None:
    try:
        s = os.stat(path)
    except OSError:
        return None
    return s.st_size, s.st_mtime_ns


def _fresh(path: str, before: Mark) -> str:
    """What this run wrote to a file: all of a new or rewritten one, the end of one that grew by lines."""
    old, new = before.files.get(path), _state(path)
    if new is None:
        raise NoMetrics(f"The benchmark did not write {path}.")
    if old == new:
        raise NoMetrics(f"{path} did not change: what it holds is of an earlier run.")
    text = _text(Path(path))
    if old and old[0] and len(text.encode(errors="surrogateescape")) > old[0]:
        data = text.encode(errors="surrogateescape")
        if data[old[0] - 1 : old[0]] == b"\n" and data[old[0] : old[0] + 1] == b"{":
            return data[old[0] :].decode(errors="surrogateescape")
    return text


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise NoMetrics(f"{path} is not a regular file.")
        if path.stat().st_size > MAX_BYTES:
            raise NoMetrics(f"{path} is larger than {MAX_BYTES >> 20} MiB.")
        return path.read_text(errors="surrogateescape")
    except OSError as error:
        raise NoMetrics(f"Cannot read {path}: {error.strerror}.") from error


def _pick(pattern: Pattern, texts: Sequence[tuple[str, str]]) -> Metric:
    """The last match in the first text that has one."""
    for name, text in texts:
        found = (
            _by_path(last_document(text), pattern.json_path)
            if pattern.json_path
            else _by_regex(text, pattern.expression)
        )
        if found is None:
            continue
        try:
            return Metric(pattern.name, positive(found), pattern.unit, pattern.better, name)
        except (TypeError, ValueError) as error:
            raise NoMetrics(
                f"{pattern.name} in {name} is {json.dumps(found)[:60]}, which is no positive figure."
            ) from error
    raise NoMetrics(f"{pattern.name} was not found in {', '.join(name for name, _ in texts)}.")


def _by_regex(text: str, expression: str) -> str | None:
    last = None
    for last in re.finditer(expression, text):  # noqa: B007 (the last match is what is wanted)
        pass
    return last[1] if last else None


def _by_path(document: Json, path: str) -> Json:
    for step in path.split("."):
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list) and step.lstrip("-").isdigit() and abs(int(step)) < len(document):
            document = document[int(step)]
        else:
            return None
    return document
