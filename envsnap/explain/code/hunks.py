"""Hunks: what a recorded patch changes in each file, with the line numbers of both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_LINES = 200_000
"""Lines of a patch that are read."""

_HEAD = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(r'\\([0-7]{3}|["\\abfnrtv])')
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", '"': '"', "\\": "\\"}


@dataclass(frozen=True)
class Hunk:
    """A stretch of lines: `old` and `new` number its first line on each side, `lines` begin with `-`, `+` or a blank.

    Where a side has no line, its number is that of the line before, as in a patch.
    """

    old: int
    new: int
    lines: tuple[str, ...]

    @property
    def removed(self) -> dict[int, str]:
        """The lines that only the old side has, by number."""
        return dict(self._side("-", self.old))

    @property
    def added(self) -> dict[int, str]:
        """The lines that only the new side has, by number."""
        return dict(self._side("+", self.new))

    @property
    def spans(self) -> tuple[range, range]:
        """The lines of the old and of the new side, what did not change around them included."""
        counts = [sum(line[:1] in (" ", sign) for line in self.lines) for sign in "-+"]
        return range(self.old, self.old + counts[0]), range(self.new, self.new + counts[1])

    def _side(self, sign: str, number: int) -> Iterator[tuple[int, str]]:
        for line in self.lines:
            if line[:1] == sign:
                yield number, line[1:]
            number += line[:1] in (" ", sign)


@dataclass(frozen=True)
class FilePatch:
    """What a patch does to one file. `added` or `deleted`: the whole file; `binary`: there are no hunks to see."""

    path: str
    hunks: tuple[Hunk, ...]
    added: bool = False
    deleted: bool = False
    binary: bool = False

    def applied(self, base: str) -> str | None:
        """The file after the patch, of the file before; None where the patch does not fit or shows nothing.

        NOTE: lines are counted and not compared, since a redacted patch holds no longer what stood there.
        """
        if self.binary:
            return None
        if self.added:
            base = ""
        old = base.split("\n")
        found: list[str] = []
        at = 0
        for hunk in self.hunks:
            span, _ = hunk.spans
            start = hunk.old - 1 if len(span) else hunk.old
            if start < at or start + len(span) > len(old):
                return None
            found += old[at:start]
            at = start
            for line in hunk.lines:
                if line[:1] == "+":
                    found.append(line[1:])
                else:
                    found += old[at : at + 1] if line[:1] == " " else []
                    at += 1
        found += old[at:]
        return "\n".join(found)


def read(patch: str) -> dict[str, FilePatch]:
    """Each file of a patch as `git apply` takes it, by its path (the new one). Never raises for its content."""
    found: dict[str, FilePatch] = {}
    lines = patch.split("\n")[:MAX_LINES]
    starts = [i for i, line in enumerate(lines) if line.startswith("diff --git ")]
    for start, end in zip(starts, [*starts[1:], len(lines)]):
        file = _file(lines[start:end])
        if file.path:
            found[file.path] = file
    return found


def _file(lines: Sequence[str]) -> FilePatch:
    head = next((i for i, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    names = dict.fromkeys(("---", "+++"), "")
    added = deleted = binary = False
    for line in lines[:head]:
        added |= line.startswith("new file mode")
        deleted |= line.startswith("deleted file mode")
        binary |= line.startswith(("Binary files ", "GIT binary patch"))
        if line[:4] in ("--- ", "+++ "):
            names[line[:3]] = _name(line[4:])
    path = names["+++"] or names["---"] or _named_in(lines[0])
    return FilePatch(path, tuple(_hunks(lines[head:])), added, deleted, binary)


def _name(text: str) -> str:
    """The path in `a/PATH` or `"b/PATH"`; empty for /dev/null."""
    text = text.partition("\t")[0]
    if text.startswith('"'):
        # NOTE: octal numbers are bytes of UTF-8, beside which letters may stand as they are.
        data = b"".join(_unquoted(part, i % 2 == 1) for i, part in enumerate(_ESCAPE.split(text[1:].removesuffix('"'))))
        text = data.decode("utf-8", "replace")
    return text[2:] if text[:2] in ("a/", "b/") else ""


def _unquoted(part: str, escape: bool) -> bytes:
    if escape and part.isdigit():
        return bytes([int(part, 8) & 0xFF])
    return (_ESCAPED[part] if escape else part).encode("utf-8", "replace")


def _named_in(line: str) -> str:
    """The path of a file without hunks: both names in the first line are the same then."""
    text = line.removeprefix("diff --git ")
    half = text[: len(text) // 2]
    return _name(half) if text[len(half) :] == f" {half.replace('a/', 'b/', 1)}" else ""


def _hunks(lines: Sequence[str]) -> Iterator[Hunk]:
    at = 0
    while at < len(lines):
        match = _HEAD.match(lines[at])
        at += 1
        if not match:
            continue
        left = [1 if count is None else int(count) for count in (match[2], match[4])]
        body = []
        while at < len(lines) and max(left) > 0:
            sign = lines[at][:1]
            if sign not in ("", " ", "-", "+"):
                break
            body.append(lines[at] or " ")
            left[0] -= sign != "+"
            left[1] -= sign != "-"
            at += 1
            if at < len(lines) and lines[at].startswith("\\"):
                at += 1
        yield Hunk(int(match[1]), int(match[3]), tuple(body))
