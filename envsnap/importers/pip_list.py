"""pip list.

Seen: pip 23.2 on this kind of machine, with the column of editable projects.

Untested: `pip list --format=json`, conda list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers import _packages
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_HEAD = re.compile(r"\s*Package +Version(?: +Editable project location)?\s*\Z")
_RULE = re.compile(r"\s*-{4,} -{4,}(?: -{4,})?\s*\Z")
_ROW = re.compile(rf"\s*([A-Za-z0-9][A-Za-z0-9._-]{{0,100}}) +({_packages.VERSION})(?: +(/\S.*))?\s*\Z")


def recognise(text: Text) -> Iterator[range]:
    """From the head over its rule to the last row."""
    for start, line in enumerate(text.lines[:-1]):
        if _HEAD.match(line) and _RULE.match(text.lines[start + 1]):
            stop = start + 2
            while stop < len(text.lines) and _ROW.match(text.lines[stop]):
                stop += 1
            yield range(start, stop)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `package[]`."""
    sheet.skip(lines.start, lines.start + 1)
    for number in lines[2:]:
        if row := _ROW.match(text.lines[number]):
            for path, value in _packages.version(row[1], row[2]):
                sheet.value(number, path, value)
            if row[3]:
                name = _packages.name_of(row[1])
                sheet.value(number, path_of("package[].origin", name), "editable")
                sheet.value(number, path_of("package[].editable_path", name), row[3].strip())
