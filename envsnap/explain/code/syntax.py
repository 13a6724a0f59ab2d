"""Python's statements, as far as a comparison needs them: what they do, apart from how they are written."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Union

Definition = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef]
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)

_DECLARATIONS = (ast.Pass, ast.Global, ast.Nonlocal)
_SILENT = frozenset({"ctx", "kind", "type_comment", "returns", "annotation", "simple", "type_params"})
"""Fields that do not say what is done."""
_BLOCKS = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})

Conditions = list[tuple[ast.expr, bool]]


def statements_in(block: Sequence[ast.stmt], in_class: bool = False) -> list[ast.stmt]:
    """The statements of a block that do something: no docstring, `pass` or bare annotation.

    In a class an annotation may make a field, so it counts there.
    """
    return [s for s in block if not _is_idle(s, in_class)]


def _is_idle(s: ast.stmt, in_class: bool) -> bool:
    if isinstance(s, ast.Expr):
        return isinstance(s.value, ast.Constant)
    if isinstance(s, ast.AnnAssign):
        return s.value is None and not in_class
    return isinstance(s, _DECLARATIONS)


def fingerprint(node: ast.AST) -> str:
    """What a piece of code does, as text: equal for pieces that differ in comments, layout and annotations alone."""
    parts: list[str] = []
    _write(node, parts)
    return "".join(parts)


def header(s: ast.stmt) -> str:
    """The fingerprint of a statement without the blocks in it: of a simple one, all of it."""
    if not (isinstance(s, DEFINITIONS) or blocks_of(s)):
        return fingerprint(s)
    parts = [type(s).__name__]
    heads: list[ast.AST] = [s, *getattr(s, "handlers", ()), *getattr(s, "cases", ())]
    for head in heads:
        for name, value in ast.iter_fields(head):
            if name not in _BLOCKS and name not in _SILENT:
                parts.append(f" {name}=")
                _write(value, parts)
    return "".join(parts)


def _write(value: object, parts: list[str]) -> None:
    if isinstance(value, ast.AnnAssign):
        value = ast.Assign([value.target], value.value) if value.value is not None else value.target
    if isinstance(value, ast.AST):
        parts.append(type(value).__name__)
        parts.append("(")
        for name in value._fields:
            if name in _SILENT:
                continue
            inner = getattr(value, name, None)
            if isinstance(inner, list):
                held: Sequence[object] = inner
                if name in _BLOCKS and inner and isinstance(inner[0], ast.stmt):
                    held = statements_in(inner, isinstance(value, ast.ClassDef))
                parts.append(f"{name}[")
                for item in held:
                    _write(item, parts)
                    parts.append(",")
                parts.append("]")
            elif inner is not None:
                _write(inner, parts)
                parts.append(",")
        parts.append(")")
    elif isinstance(value, list):
        for item in value:
            _write(item, parts)
            parts.append(",")
    else:
        parts.append(f"{type(value).__name__}:{value!r}")


def blocks_of(s: ast.AST) -> list[tuple[Conditions, list[ast.stmt]]]:
    """The blocks of a compound statement, always the same ones for a kind, with the conditions that lead to each."""
    if isinstance(s, (ast.If, ast.While)):
        # NOTE: what stands after `else` of a loop runs when its condition has become false.
        return [([(s.test, True)], s.body), ([(s.test, False)], s.orelse)]
    if isinstance(s, (ast.For, ast.AsyncFor)):
        return [([], s.body), ([], s.orelse)]
    if isinstance(s, (ast.With, ast.AsyncWith)):
        return [([], s.body)]
    if isinstance(s, ast.Try) or type(s).__name__ == "TryStar":
        blocks = [*(getattr(s, name) for name in ("body", "orelse", "finalbody")), *(h.body for h in handlers_of(s))]
        return [([], block) for block in blocks]
    if isinstance(s, ast.Match):
        return [([], case.body) for case in s.cases]
    return []


def handlers_of(s: ast.AST) -> list[ast.ExceptHandler]:
    """The handlers of a `try` statement."""
    return list(getattr(s, "handlers", ()))


def head_lines(s: ast.stmt) -> range:
    """The lines of a compound statement before its first block, of any other all of its lines."""
    end = s.end_lineno or s.lineno
    inner = [block for _, block in blocks_of(s)] or ([s.body] if isinstance(s, DEFINITIONS) else [])
    first = [block[0].lineno for block in inner if block]
    last = min([end + 1, *first]) if first else end + 1
    return range(s.lineno, max(last, s.lineno + 1))


def terminates(block: Sequence[ast.stmt]) -> bool:
    """Whether a block never goes on to what follows it."""
    return bool(block) and isinstance(block[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))
