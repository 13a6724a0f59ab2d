"""Fragments: edits made of a patch's hunks alone, where the files that it belongs to are not at hand.

Each stretch of changed lines is parsed for itself. One that is no whole statement stands for all lines around it.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envsnap.explain.code.edits import Edit, Part, Where, parsed
from envsnap.explain.code.hunks import FilePatch, Hunk
from envsnap.explain.code.syntax import statements_in

_QUOTES = ('"""', "'''")


@dataclass(frozen=True)
class Fragment:
    """An edit as a hunk shows it. `blind` is the side, fast or slow, on which it is not known where it stands."""

    edit: Edit
    blind: str = ""


Move = Callable[[int], int]
"""From a line of the common base to that of a side."""


def fragments(fast: FilePatch | None, slow: FilePatch | None, one_base: bool) -> list[Fragment]:
    """The edits by which the slow side's file differs from the fast side's, of the patches that made both.

    `one_base`: both patches are on top of the same commit, so that lines of one side can be found on the other.
    """
    ours, theirs = (slow.hunks if slow else ()), (fast.hunks if fast else ())
    shared = {hunk.lines for hunk in ours} & {hunk.lines for hunk in theirs}
    found = []
    for hunk in ours:
        if hunk.lines not in shared:
            found += [Fragment(edit, "" if one_base else "fast") for edit in _edits(hunk, _shift(theirs))]
    for hunk in theirs:
        if hunk.lines not in shared:
            found += [Fragment(_reversed(edit), "" if one_base else "slow") for edit in _edits(hunk, _shift(ours))]
    return found


def _shift(hunks: Sequence[Hunk]) -> Move:
    def moved(line: int) -> int:
        before = [h for h in hunks if h.old + len(h.spans[0]) <= line]
        return line + sum(len(h.added) - len(h.removed) for h in before)

    return moved


def _reversed(edit: Edit) -> Edit:
    return Edit(edit.function, edit.where, edit.new, edit.old)


def _edits(hunk: Hunk, shift: Move) -> Iterator[Edit]:
    """Each stretch of changed lines as an edit; `shift` numbers the old side's lines."""
    in_text = any(quotes in line for line in hunk.lines for quotes in _QUOTES)
    old_at, new_at = hunk.old, hunk.new
    removed: dict[int, str] = {}
    added: dict[int, str] = {}
    for line in (*hunk.lines, " "):
        sign = line[:1]
        if sign == " " and (removed or added):
            yield from _stretch(hunk, removed, added, (old_at, new_at), shift, in_text)
            removed, added = {}, {}
        if sign == "-":
            removed[old_at] = line[1:]
        elif sign == "+":
            added[new_at] = line[1:]
        old_at += sign != "+"
        new_at += sign != "-"


def _stretch(
    hunk: Hunk,
    removed: Mapping[int, str],
    added: Mapping[int, str],
    end: tuple[int, int],
    shift: Move,
    in_text: bool,
) -> Iterator[Edit]:
    sides = [_statements(lines) for lines in (removed, added)]
    beside = _neighbours(hunk, added, end[1])
    if in_text or None in sides:
        spans = hunk.spans
        old = _whole(removed, spans[0], shift)
        new = _whole(added, spans[1], int)
        yield Edit("", Where.BODY, Part(old), Part(new, neighbours=beside))
        return
    old, new = (tuple(s or ()) for s in sides)
    if not old and not new:
        return  # comments and blank lines
    top = any(s.col_offset == 0 for s in (*old, *new)) and not _indented({**removed, **added})
    where = Where.IMPORT if top else Where.BODY
    for s in old:
        _move(s, shift)
    yield Edit("", where, Part(old, scopes=_scope(old)), Part(new, neighbours=beside, scopes=_scope(new)))


def _statements(lines: Mapping[int, str]) -> list[ast.stmt] | None:
    """The statements of consecutive lines, numbered as in their file; None where they are not whole ones."""
    if not lines:
        return []
    source = parsed(textwrap.dedent("\n".join(lines.values())))
    if source is None:
        return None
    ast.increment_lineno(source.tree, next(iter(lines)) - 1)
    found = statements_in(source.tree.body)
    # A lone name or text is likelier a line of a longer expression or of a text.
    if any(isinstance(s, ast.Expr) and not isinstance(s.value, (ast.Call, ast.Await, ast.Yield)) for s in found):
        return None
    return found


def _whole(lines: Mapping[int, str], span: range, move: Move) -> tuple[ast.stmt, ...]:
    """Changed lines as one statement that ran if anything around it did."""
    if not any(line.strip() for line in lines.values()):
        return ()
    node = ast.Expr(ast.Name("\n".join(line.strip() for line in lines.values()), ast.Load()))
    node.lineno, node.end_lineno = span.start, max(span.start, span.stop - 1)
    node.value.lineno, node.value.end_lineno, node.col_offset = node.lineno, node.end_lineno, 0
    _move(node, move)
    return (node,)


def _neighbours(hunk: Hunk, added: Mapping[int, str], end: int) -> tuple[ast.stmt, ...]:
    """The lines around a stretch on the new side, as statements of one line."""
    span = hunk.spans[1]
    start = min(added, default=end)
    found = []
    for number in (start - 1, end):
        if number in span:
            node = ast.Pass()
            node.lineno = node.end_lineno = number
            found.append(node)
    return tuple(found)


def _move(node: ast.AST, to: Move) -> None:
    """Number a tree's lines as the other side does."""
    for inner in ast.walk(node):
        for name in ("lineno", "end_lineno"):
            if (line := getattr(inner, name, None)) is not None:
                setattr(inner, name, to(line))


def _indented(lines: Mapping[int, str]) -> bool:
    first = next((line for line in lines.values() if line.strip()), "")
    return first[:1] in (" ", "\t")


def _scope(statements: tuple[ast.stmt, ...]) -> tuple[ast.AST, ...]:
    return (ast.Module(list(statements), []),)
