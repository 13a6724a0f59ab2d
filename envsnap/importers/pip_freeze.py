"""pip freeze.

Seen: pip 23 and uv's form of it on this kind of machine, with versions, local parts and direct references.

Untested: conda's `list --export`, hashes and markers of requirements files.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.importers import _packages
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text

ENOUGH = 3
"""Lines in a row that make it a dump rather than a remark."""


def recognise(text: Text) -> Iterator[range]:
    """Lines in a row of the form NAME==VERSION, NAME @ URL, or -e URL."""
    start = 0
    count = 0
    for number, line in enumerate([*text.lines, "end"]):
        plain = line.strip()
        if "=" in plain or "@" in plain or plain.startswith("-e "):
            if _packages.requirement(plain) is not None:
                start = start if count else number
                count += 1
                continue
        elif plain.startswith("# Editable"):  # pip says so of a tree without a remote
            continue
        if count >= ENOUGH:
            yield range(start, number)
        count = 0


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `package[]`."""
    for number in lines:
        plain = text.lines[number].strip()
        if plain.startswith("#"):
            sheet.skip(number)
            continue
        for path, value in _packages.requirement(plain) or ():
            sheet.value(number, path, value)
        if plain and number not in sheet.taken:
            sheet.drop(number)
