"""Callers: whether a function that only one side has can be called there at all.

Code that did not change cannot call what did not exist before, so that only the changed files need to be looked at. A
method may be called by the name of the one that it overrides, so that only private ones and functions count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from envsnap.explain.code.conditions import State, truth
from envsnap.explain.code.edits import Edit, Guard
from envsnap.explain.code.syntax import DEFINITIONS, FUNCTIONS, blocks_of, terminates


def uncalled(edits: Iterable[Edit], trees: Sequence[ast.Module], state: State) -> frozenset[str]:
    """Names of new functions of which every mention in `trees` stands behind a condition that was not met."""
    new = {s.name for edit in edits for s in edit.new.statements if isinstance(s, FUNCTIONS) and _is_own(s, edit)}
    mentions: dict[str, bool] = {}
    for tree in trees:
        for name, guards, scopes in _mentions(tree.body, new, [], [tree]):
            if not mentions.get(name):
                mentions[name] = all(truth(g.test, scopes, state) in (None, g.truth) for g in guards)
    return frozenset(name for name, reached in mentions.items() if not reached)


def _is_own(s: ast.stmt, edit: Edit) -> bool:
    """Whether nobody can call it by another function's name."""
    assert isinstance(s, FUNCTIONS)
    in_class = bool(edit.new.scopes) and isinstance(edit.new.scopes[-1], ast.ClassDef)
    return not s.decorator_list and (not in_class or (s.name.startswith("_") and not s.name.startswith("__")))


def _mentions(
    block: Sequence[ast.stmt], names: set[str], guards: list[Guard], scopes: list[ast.AST]
) -> Iterator[tuple[str, list[Guard], list[ast.AST]]]:
    guards = list(guards)
    for s in block:
        if isinstance(s, DEFINITIONS):
            inner = [*scopes, s]
            yield from _mentions(s.body, names - {s.name}, guards, inner)
            continue
        blocks = blocks_of(s)
        for node in _heads(s) if blocks else [s]:
            yield from ((name, guards, scopes) for name in names & _named_in(node))
        for conditions, inner_block in blocks:
            yield from _mentions(inner_block, names, [*guards, *(Guard(t, k) for t, k in conditions)], scopes)
        if isinstance(s, ast.If) and not s.orelse and terminates(s.body):
            guards.append(Guard(s.test, False))


def _heads(s: ast.stmt) -> list[ast.AST]:
    """What a compound statement evaluates itself."""
    blocks = {id(block) for _, block in blocks_of(s)}
    return [
        part
        for _, value in ast.iter_fields(s)
        for part in (value if isinstance(value, list) and id(value) not in blocks else [value])
        if isinstance(part, (ast.expr, ast.withitem))
    ]


def _named_in(node: ast.AST) -> set[str]:
    found = set()
    for n in ast.walk(node):
        if isinstance(n, ast.Name):
            found.add(n.id)
        elif isinstance(n, ast.Attribute):
            found.add(n.attr)
        elif isinstance(n, ast.alias):
            continue  # an import calls nothing
        elif isinstance(n, ast.Constant) and isinstance(n.value, str):
            found.add(n.value)  # getattr, registries by name
    return found
