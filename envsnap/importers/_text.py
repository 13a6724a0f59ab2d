"""A text that somebody pasted: read within bounds, without what mail, markdown, terminals and log drivers add to it."""

from __future__ import annotations

import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from envsnap.jsonfile import MAX_FILE_BYTES, SnapshotError, name_of, read_source
from envsnap.reading import Json

MAX_LINE = 1 << 20
"""A longer line is left out, unless it is part of a JSON document."""
MAX_LINES = 2_000_000
MAX_DOCUMENTS = 5_000

_BREAK = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_])")
_QUOTE = re.compile(r"(?:> ?){1,8}")
_STAMP = re.compile(
    r"(?:\[pod/[\w./-]{1,200}\] )?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)(?: |\Z)"
    r"|\[pod/[\w./-]{1,200}\](?: |\Z)"
)
"""What `kubectl logs --timestamps --prefix` and `docker logs -t` put before each line."""
_LABELS = (re.compile(r"[\w.-]{1,100} +\|(?: |\Z)"), re.compile(r"\d{1,5}: "))
"""What `docker compose logs` and `srun --label` do, which only all lines together tell from a table or a list."""
_LOOK_AT, _ENOUGH = 60, 0.9
_TAG = r"</?(?:details|summary|pre|code|p|br|div|hr|b|h[1-6])(?: [^<>]{0,100})?/?>"
_MARKUP = re.compile(rf"\s*(?:(?:```|~~~)[\w.+-]*|(?:{_TAG}\s*)+(?:[^<>]{{0,200}}(?:{_TAG}\s*)+)?)\s*\Z", re.I)
_OPENING = re.compile(r'\s*(?:\{\s*(?:"|\Z)|\[\s*(?:\{|\Z))')
_WHERE_IT_ENDS = 64
_PASSES = 4


@dataclass(frozen=True)
class Text:
    """`lines` are cleaned, one for each of the original; those of a JSON document and markup are empty.

    `documents` are JSON objects and arrays by the lines that they take up. `cut` is the number of the last line where
    that has no end, so that it may be cut short: it is not in `lines`, else None. `filled` are the numbers of lines
    that say anything.
    """

    name: str
    lines: list[str]
    documents: dict[range, Json] = field(default_factory=dict)
    filled: frozenset[int] = frozenset()
    cut: int | None = None


def read_bytes(source: str | Path) -> bytes:
    """The bytes of a regular file or of standard input (`-`), unpacked where they are gzip. Raises: SnapshotError.

    A gzip file that is cut short gives what it holds; neither form gives more than a snapshot may have.
    """
    name, data = name_of(source), read_source(source)
    if len(data) > MAX_FILE_BYTES:
        raise SnapshotError(f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB.")
    return _unpacked(data, name) if data[:2] == b"\x1f\x8b" else data


def _unpacked(data: bytes, name: str) -> bytes:
    """All members of a gzip file: nvidia-bug-report.sh appends one a section."""
    parts: list[bytes] = []
    left = MAX_FILE_BYTES + 1
    while data[:2] == b"\x1f\x8b" and left > 0:
        inflate = zlib.decompressobj(31)
        try:
            parts.append(inflate.decompress(data, left))
        except zlib.error as error:
            if not parts:
                raise SnapshotError(f"{name} is no gzip file that can be read.") from error
            break
        left -= len(parts[-1])
        data = inflate.unused_data
    if left <= 0:
        raise SnapshotError(f"{name} holds more than {MAX_FILE_BYTES >> 20} MiB when it is unpacked.")
    return b"".join(parts)


def text_of(data: bytes, name: str) -> Text:
    """What a file's bytes say. Never raises for its content."""
    return clean(_decoded(data), name)


def _decoded(data: bytes) -> str:
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "replace")


def clean(text: str, name: str = "text") -> Text:
    """A pasted text, line by line."""
    lines = _unlabelled([_cleaned(line) for line in _BREAK.split(text, MAX_LINES)[:MAX_LINES]])
    ended = not lines[-1]
    markup = {number for number, line in enumerate(lines) if line and _MARKUP.match(line)}
    kept = ["" if number in markup else line for number, line in enumerate(lines)]
    filled = frozenset(number for number, line in enumerate(kept) if line.strip())
    documents = dict(_documents(kept))
    for taken in documents:
        kept[taken.start : taken.stop] = [""] * len(taken)
    kept = ["" if len(line) > MAX_LINE else line for line in kept]
    last = len(kept) - 1
    cut = last if not ended and kept[last].strip() else None
    if cut is not None:
        kept[cut] = ""
    return Text(name, kept, documents, filled, cut)


def _unlabelled(lines: list[str]) -> list[str]:
    """The lines without the label that nearly all of them begin with."""
    some = [line for line in lines if line.strip()][:_LOOK_AT]
    for label in _LABELS:
        if len(some) > 1 and sum(label.match(line) is not None for line in some) >= _ENOUGH * len(some):
            return [label.sub("", line, count=1) if label.match(line) else line for line in lines]
    return lines


def _cleaned(line: str) -> str:
    if "\x1b" in line:
        line = _ESCAPE.sub("", line)
    if line.startswith(">") and (match := _QUOTE.match(line)):
        line = line[match.end() :]
    if match := _STAMP.match(line):
        line = line[match.end() :]
    return line


def _documents(lines: list[str]) -> Iterator[tuple[range, Json]]:
    """Each JSON object or array that begins at the start of a line and ends at the end of one.

    Bounded: what is tried and is none costs time, and all tries together no more than a few passes over the text.
    """
    decoder = json.JSONDecoder(parse_int=_integer)
    ends = _ends(lines)
    left = _PASSES * (sum(map(len, lines)) + len(lines))
    number, tried = 0, 0
    while number < len(lines) and tried < MAX_DOCUMENTS:
        if not _OPENING.match(lines[number][:_WHERE_IT_ENDS]):
            number += 1
            continue
        tried += 1
        found = _document(decoder, lines[number : number + 1], number)
        stop = _after(ends, lines[number], number)
        if found is None and stop and left > 0:
            block = lines[number:stop]
            left -= sum(map(len, block))
            found = _document(decoder, block, number)
        if found is None:
            number += 1
        else:
            yield found
            number = found[0].stop


def _ends(lines: list[str]) -> dict[str, list[int]]:
    """The numbers of the lines that consist of a closing bracket, by such a line."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if line.strip() in ("}", "]"):
            found.setdefault(line.rstrip(), []).append(number)
    return found


def _after(ends: dict[str, list[int]], opening: str, start: int) -> int | None:
    """One past the next line that closes what a line opened, by its indentation; None where there is none."""
    closing = opening[: len(opening) - len(opening.lstrip())] + {"{": "}", "[": "]"}[opening.lstrip()[0]]
    numbers = ends.get(closing, [])
    at = bisect_right(numbers, start)
    return numbers[at] + 1 if at < len(numbers) else None


def _document(decoder: json.JSONDecoder, block: list[str], start: int) -> tuple[range, Json] | None:
    text = "\n".join(block)
    try:
        document, end = decoder.raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return None
    if text[end:].partition("\n")[0].strip():
        return None
    return range(start, start + text.count("\n", 0, end) + 1), document


def _integer(text: str) -> int:
    """NOTE: turning a million digits into a number takes minutes, which not every Python refuses."""
    if len(text) > 400:
        raise ValueError("too large a number")
    return int(text)
