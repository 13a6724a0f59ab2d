"""pip freeze.

Seen: pip 23.2 on this kind of machine, with versions, local parts and editable trees; direct references are described
after the packaging standard that pip follows.

Untested: uv's, conda's `list --export`, hashes and markers of requirements files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers import _packages
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_TREE = re.compile(rf"# Editable [\w ]*\(([A-Za-z0-9][\w.-]{{0,100}})==({_packages.VERSION})\)\Z")
"""What pip says of a tree without a remote, above the line that says where it is."""
ENOUGH = 3
"""Lines in a row that make it a dump rather than a remark."""


def recognise(text: Text) -> Iterator[range]:
    """Lines in a row of the form NAME==VERSION, NAME @ URL, or -e URL."""
    start = 0
    count = 0
    for number, line in enumerate([*text.lines, "end"]):
        plain = line.strip()
        if ("=" in plain or "@" in plain or plain.startswith("-e ")) and (
            _packages.requirement(plain) is not None or _TREE.match(plain)
        ):
            start = start if count else number
            count += 1
            continue
        if count >= ENOUGH:
            yield range(start, number)
        count = 0


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `package[]`."""
    tree = ""
    for number in lines:
        plain = text.lines[number].strip()
        if remark := _TREE.match(plain):
            tree = _packages.name_of(remark[1])
            for path, value in _packages.version(remark[1], remark[2]):
                sheet.value(number, path, value)
            sheet.value(number, path_of("package[].origin", tree), "editable")
            continue
        if tree and plain.startswith("-e /"):
            sheet.value(number, path_of("package[].editable_path", tree), plain[3:])
        tree = ""
        for path, value in _packages.requirement(plain) or ():
            sheet.value(number, path, value)
        if plain and number not in sheet.taken:
            sheet.drop(number)
