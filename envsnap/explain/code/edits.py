"""Edits: what differs between two versions of a Python file, cut to statements of functions.

Trees are compared, not lines: comments, docstrings, white space and annotations are no difference, and a statement that
moved with its function is none either. Each edit knows the conditions that it stands behind.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from enum import Enum

from envsnap.explain.code.syntax import DEFINITIONS, Definition, blocks_of, header, statements_in, terminates


class Where(str, Enum):
    """When an edit can take effect."""

    BODY = "body"
    """When a function runs it."""
    SIGNATURE = "signature"
    """When a function is called: its parameters, their defaults, its decorators; or a class's bases."""
    IMPORT = "import"
    """When the module is imported: statements outside functions."""


@dataclass(frozen=True)
class Guard:
    """A condition that has to have this truth for what stands behind it to run."""

    test: ast.expr
    truth: bool


@dataclass(frozen=True)
class Part:
    """One side of an edit: its statements (none where it is missing here), its guards, and what stands beside it.

    `scopes` are the module, classes and functions around it, outermost first.
    """

    statements: tuple[ast.stmt, ...] = ()
    guards: tuple[Guard, ...] = ()
    neighbours: tuple[ast.stmt, ...] = ()
    scopes: tuple[ast.AST, ...] = ()

    @property
    def lines(self) -> tuple[int, int] | None:
        """First and last line, None where there is nothing."""
        if not self.statements:
            return None
        return self.statements[0].lineno, max(s.end_lineno or s.lineno for s in self.statements)


@dataclass(frozen=True)
class Edit:
    """Statements that became others. `function` is the qualified name around them, empty at the top of a module."""

    function: str
    where: Where
    old: Part
    new: Part


@dataclass(frozen=True)
class _At:
    """Where the comparison is: the name so far, whether inside a function, and guards and scopes of both sides."""

    texts: tuple[list[str], list[str]]
    name: str = ""
    in_function: bool = False
    old: Part = field(default_factory=Part)
    new: Part = field(default_factory=Part)

    @property
    def where(self) -> Where:
        return Where.BODY if self.in_function else Where.IMPORT

    @property
    def in_class(self) -> bool:
        return bool(self.new.scopes) and isinstance(self.new.scopes[-1], ast.ClassDef)

    def behind(self, old: Sequence[Guard], new: Sequence[Guard]) -> _At:
        return replace(self, old=_behind(self.old, old), new=_behind(self.new, new))

    def inside(self, old: Definition, new: Definition) -> _At:
        return _At(
            self.texts,
            f"{self.name}.{new.name}" if self.name else new.name,
            self.in_function or not isinstance(new, ast.ClassDef),
            replace(self.old, scopes=(*self.old.scopes, old)),
            replace(self.new, scopes=(*self.new.scopes, new)),
        )


def _behind(part: Part, guards: Sequence[Guard]) -> Part:
    return replace(part, guards=(*part.guards, *guards))


@dataclass(frozen=True)
class Source:
    """A version of a Python file."""

    text: str
    tree: ast.Module


def edits(old: Source, new: Source) -> list[Edit]:
    """Every edit that makes `new` of `old`, in the order of the new file."""
    lines = old.text.split("\n"), new.text.split("\n")
    at = _At(lines, old=Part(scopes=(old.tree,)), new=Part(scopes=(new.tree,)))
    return list(_block(old.tree.body, new.tree.body, at))


def parsed(text: str) -> Source | None:
    """A source text with its tree, None where it is not Python (or of a newer one)."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in somebody's source
            return Source(text, ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _block(old: Sequence[ast.stmt], new: Sequence[ast.stmt], at: _At) -> Iterator[Edit]:
    olds, news = statements_in(old, at.in_class), statements_in(new, at.in_class)
    pairs = _same_names(olds, news)
    keys = _keys(olds, pairs), _keys(news, pairs)
    early = _early_exits(olds), _early_exits(news)
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for what, i1, i2, j1, j2 in matcher.get_opcodes():
        if what == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2)):
                yield from _aligned(olds[i], news[j], at.behind(early[0][i], early[1][j]))
            continue
        gone, come = _apart(olds[i1:i2], pairs), _apart(news[j1:j2], pairs)
        here = at.behind(early[0][i1], early[1][j1])
        if gone or come:
            beside = _beside(olds, i1, i2), _beside(news, j1, j2)
            yield Edit(at.name, at.where, _part(here.old, gone, beside[0]), _part(here.new, come, beside[1]))
        # Definitions that have moved past something else.
        for j in range(j1, j2):
            if (partner := pairs.get(id(news[j]))) is not None:
                yield from _aligned(partner, news[j], here)


def _keys(statements: Sequence[ast.stmt], pairs: dict[int, ast.stmt]) -> list[str]:
    """What makes statements of both sides partners: a definition's name, a compound's head, all of a simple one."""
    return [f"{type(s).__name__} {s.name}" if id(s) in pairs and isinstance(s, DEFINITIONS) else header(s)
            for s in statements]  # fmt: skip


def _same_names(olds: Sequence[ast.stmt], news: Sequence[ast.stmt]) -> dict[int, ast.stmt]:
    """Definitions of one kind and name, by the id of either: the other; the n-th with the n-th."""
    sides: list[dict[tuple[str, str], list[ast.stmt]]] = [{}, {}]
    for held, statements in zip(sides, (olds, news)):
        for s in statements:
            if isinstance(s, DEFINITIONS):
                held.setdefault((type(s).__name__, s.name), []).append(s)
    found: dict[int, ast.stmt] = {}
    for name, gone in sides[0].items():
        for x, y in zip(gone, sides[1].get(name, ())):
            found[id(x)], found[id(y)] = y, x
    return found


def _apart(statements: Sequence[ast.stmt], pairs: dict[int, ast.stmt]) -> tuple[ast.stmt, ...]:
    return tuple(s for s in statements if id(s) not in pairs)


def _part(around: Part, statements: tuple[ast.stmt, ...], neighbours: tuple[ast.stmt, ...]) -> Part:
    return replace(around, statements=statements, neighbours=neighbours)


def _beside(statements: Sequence[ast.stmt], start: int, end: int) -> tuple[ast.stmt, ...]:
    return (*statements[max(0, start - 1) : start], *statements[end : end + 1])


def _aligned(old: ast.stmt, new: ast.stmt, at: _At) -> Iterator[Edit]:
    """The edits within two statements that stand for each other."""
    if _text(at.texts[0], old) == _text(at.texts[1], new):
        return
    if isinstance(old, DEFINITIONS) and isinstance(new, DEFINITIONS):
        inside = at.inside(old, new)
        if header(old) != header(new):
            yield Edit(inside.name, Where.SIGNATURE, _part(at.old, (old,), ()), _part(at.new, (new,), ()))
        yield from _block(old.body, new.body, inside)
        return
    for (old_guards, old_block), (new_guards, new_block) in zip(blocks_of(old), blocks_of(new)):
        if old_block or new_block:
            truths = [[Guard(test, truth) for test, truth in guards] for guards in (old_guards, new_guards)]
            yield from _block(old_block, new_block, at.behind(*truths))


def _text(lines: Sequence[str], s: ast.stmt) -> Sequence[str]:
    """The lines of a statement, decorators included: equal ones need no closer look."""
    first = min([s.lineno, *(d.lineno for d in getattr(s, "decorator_list", ()))])
    return lines[first - 1 : s.end_lineno or s.lineno]


def _early_exits(statements: Sequence[ast.stmt]) -> list[list[Guard]]:
    """For each position, the conditions that have left the block before, had they been true; one more for the end."""
    found: list[list[Guard]] = [[]]
    for s in statements:
        leaves = isinstance(s, ast.If) and not s.orelse and terminates(s.body)
        found.append([*found[-1], Guard(s.test, False)] if leaves and isinstance(s, ast.If) else found[-1])
    return found
