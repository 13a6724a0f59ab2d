"""A patch that `git apply` understands, made here: git would run the diff programs that a repository configures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

CONTEXT = 3
MAX_STEPS = 300_000
"""Steps of comparing lines, about a tenth of a second, that one file may take."""


class Side(NamedTuple):
    """A file before or after."""

    mode: str
    blob: str
    data: bytes


class FilePatch(NamedTuple):
    """The patch of one file; no counts where it is binary. `steps` is the work that it took."""

    text: str
    added_lines: int | None
    deleted_lines: int | None
    steps: int = 0


def file_patch(path: str, old: Side | None, new: Side | None, steps: int = MAX_STEPS) -> FilePatch:
    """The patch that makes `new` of `old`; None stands for no file.

    After that many steps of looking for equal lines, what is left counts as replaced.
    """
    if old and new and old.mode[:3] != new.mode[:3]:
        # As git does it: a link that becomes a file is deleted and created.
        gone, made = file_patch(path, old, None), file_patch(path, None, new)
        return FilePatch(gone.text + made.text, made.added_lines, gone.deleted_lines)
    head = [f"diff --git {_quoted('a/' + path)} {_quoted('b/' + path)}"]
    if old is None and new:
        head.append(f"new file mode {new.mode}")
    elif new is None and old:
        head.append(f"deleted file mode {old.mode}")
    elif old and new and old.mode != new.mode:
        head += [f"old mode {old.mode}", f"new mode {new.mode}"]
    before, after = (old.data if old else b""), (new.data if new else b"")
    if before == after and old and new:
        return FilePatch("\n".join(head) + "\n", 0, 0)
    blobs = [side.blob if side else "0" * len((old or new or Side("", "", b"")).blob) for side in (old, new)]
    same_mode = f" {old.mode}" if old and new and old.mode == new.mode else ""
    head.append(f"index {blobs[0]}..{blobs[1]}{same_mode}")
    from_name = _quoted("a/" + path) if old else "/dev/null"
    to_name = _quoted("b/" + path) if new else "/dev/null"
    if is_binary(before) or is_binary(after):
        head.append(f"Binary files {from_name} and {to_name} differ")
        return FilePatch("\n".join(head) + "\n", None, None)
    if before == after:
        return FilePatch("\n".join(head) + "\n", 0, 0)
    # Git ends a name that holds blanks with a tab, so that it is seen where it ends.
    head += [f"{sign} {name}{chr(9) if ' ' in name else ''}" for sign, name in (("---", from_name), ("+++", to_name))]
    a, b = _lines(before), _lines(after)
    regions, taken = _changed_regions(a, b, min(steps, MAX_STEPS))
    return FilePatch(
        "\n".join(head) + "\n" + "".join(_hunks(a, b, regions)),
        sum(b_end - b_start for _, _, b_start, b_end in regions),
        sum(a_end - a_start for a_start, a_end, _, _ in regions),
        taken,
    )


def is_binary(data: bytes) -> bool:
    """As git sees it: a NUL near the beginning."""
    return b"\0" in data[:8000]


def _lines(data: bytes) -> list[str]:
    """Lines with their line feeds. Other line ends are content, as they are to git."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


Region = tuple[int, int, int, int]
"""Lines a[start:end] that became b[start:end]: a's start and end, b's start and end."""


def _changed_regions(a: list[str], b: list[str], steps: int) -> tuple[list[Region], int]:
    """Where the two differ, and how many steps it took to find out."""
    prefix = 0
    while prefix < min(len(a), len(b)) and a[prefix] == b[prefix]:
        prefix += 1
    suffix = 0
    while suffix < min(len(a), len(b)) - prefix and a[-1 - suffix] == b[-1 - suffix]:
        suffix += 1
    middle_a, middle_b = a[prefix : len(a) - suffix], b[prefix : len(b) - suffix]
    matches, taken = _matches(middle_a, middle_b, steps)
    regions = []
    at_a = at_b = 0
    for start_a, start_b, size in [*matches, (len(middle_a), len(middle_b), 0)]:
        if at_a < start_a or at_b < start_b:
            regions.append((prefix + at_a, prefix + start_a, prefix + at_b, prefix + start_b))
        at_a, at_b = start_a + size, start_b + size
    return regions, taken


def _matches(a: list[str], b: list[str], steps: int) -> tuple[list[tuple[int, int, int]], int]:
    """Runs of equal lines, in order (start in a, start in b, length), and the steps that it took to find them."""
    if not a or not b:
        return [], 0
    from collections import Counter
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, a, b)
    occurrences = Counter(b)
    # difflib does not start a match at a line that makes up more than a hundredth of a long file.
    most = len(b) // 100 + 1 if len(b) >= 200 else len(b)
    cost = [0]
    for line in a:
        cost.append(cost[-1] + 1 + min(most, occurrences[line]))
    found = []
    taken = 0
    pending = [(0, len(a), 0, len(b))]
    while pending:
        a_start, a_end, b_start, b_end = pending.pop()
        if taken + cost[a_end] - cost[a_start] > steps:
            break
        taken += cost[a_end] - cost[a_start]
        match = matcher.find_longest_match(a_start, a_end, b_start, b_end)
        if match.size:
            found.append((match.a, match.b, match.size))
            if a_start < match.a and b_start < match.b:
                pending.append((a_start, match.a, b_start, match.b))
            if match.a + match.size < a_end and match.b + match.size < b_end:
                pending.append((match.a + match.size, a_end, match.b + match.size, b_end))
    return sorted(found), taken


def _hunks(a: list[str], b: list[str], regions: list[Region]) -> Iterator[str]:
    group: list[Region] = []
    for region in regions:
        if group and region[0] - group[-1][1] > 2 * CONTEXT:
            yield _hunk(a, b, group)
            group = []
        group.append(region)
    if group:
        yield _hunk(a, b, group)


def _hunk(a: list[str], b: list[str], group: list[Region]) -> str:
    lead = min(CONTEXT, group[0][0])
    tail = min(CONTEXT, len(a) - group[-1][1])
    a_start, b_start = group[0][0] - lead, group[0][2] - lead
    a_end, b_end = group[-1][1] + tail, group[-1][3] + tail
    parts = [f"@@ -{_span(a_start, a_end)} +{_span(b_start, b_end)} @@\n"]
    position = a_start
    for from_a, to_a, from_b, to_b in group:
        parts += [_line(" ", line) for line in a[position:from_a]]
        parts += [_line("-", line) for line in a[from_a:to_a]]
        parts += [_line("+", line) for line in b[from_b:to_b]]
        position = to_a
    parts += [_line(" ", line) for line in a[position:a_end]]
    return "".join(parts)


def _span(start: int, end: int) -> str:
    """First line (from 1; the line before, where there is none) and count, which is left out where it is 1."""
    count = end - start
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def _line(sign: str, line: str) -> str:
    return sign + line if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def _quoted(name: str) -> str:
    """A name as git writes it in a patch: in C's quotes where it holds what would end it early."""
    if not any(char in _ESCAPES or char < " " or char == "\x7f" for char in name):
        return name
    return '"' + "".join(_ESCAPES.get(c) or (f"\\{ord(c):03o}" if c < " " or c == "\x7f" else c) for c in name) + '"'
