"""What of some statements ran in a run, or can have run: by the lines that were seen, else by their conditions."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from envsnap.explain.code.conditions import State, truth
from envsnap.explain.code.ran import Lines
from envsnap.explain.code.syntax import (
    DEFINITIONS,
    FUNCTIONS,
    IMPORTS,
    blocks_of,
    fingerprint,
    head_lines,
    header,
    statements_in,
)

_COMPILED = re.compile(r"(?:^|\.)(?:jit|kernel|njit|compile|script|autotune|heuristics|prim_func|macro)\b")
"""Decorators under which Python's own lines never run: the function is compiled to something else."""

_QUICK = re.compile(
    r"(?:is|has)_\w+|isinstance|issubclass|hasattr|getattr|len|bool|int|float|str|callable|any|all|type|"
    r"(?:get_)?(?:bool|int|float|str)_env(?:_var)?|getenv|get|lower|upper|strip|startswith|endswith|get_server_args|"
    r"get_global_server_args"
)
"""Calls in a condition that cost nothing to speak of."""


@dataclass
class Runs:
    """What ran of some statements, as fingerprints in order, and the conditions that kept the rest from running.

    `sure`: nothing else can have run. `settled`: whatever of it is reached, these are what runs.
    """

    statements: list[str] = field(default_factory=list)
    untaken: list[ast.expr] = field(default_factory=list)
    sure: bool = True
    settled: bool = True


@dataclass(frozen=True)
class Oracle:
    """What is known of one run of one file: `lines` that ran, None where not watched; the `state` for its conditions.

    `imports`: statements at the top of the module ran, whether or not their lines were seen. `tree` is the file's.
    `uncalled` are functions that cannot have been called.
    """

    lines: Lines | None
    state: State
    tree: ast.Module
    imports: bool = False
    uncalled: frozenset[str] = frozenset()

    def ran(self, s: ast.stmt) -> bool | None:
        """Whether a line of a statement's head ran; None where that is not known."""
        if self.lines is None:
            return None
        return any(n in self.lines.seen for n in head_lines(s))


def runs(statements: Sequence[ast.stmt], scopes: Sequence[ast.AST], oracle: Oracle, at_import: bool) -> Runs:
    """What ran of statements that stand in these scopes."""
    found = Runs()
    if statements and oracle.lines is not None and (compiled := compiled_in(scopes)) is not None:
        found.sure = bool(compiled_ran(compiled.name, oracle))
        found.statements = [fingerprint(s) for s in statements] if found.sure else []
        return found
    _add(found, statements, scopes, oracle, at_import)
    found.sure &= oracle.lines is not None or not found.statements
    return found


def function_ran(function: ast.AST, oracle: Oracle) -> bool | None:
    """Whether a function (or any of a class) was called; None where that is not known."""
    if oracle.lines is None:
        return None
    if isinstance(function, FUNCTIONS) and is_compiled(function):
        return compiled_ran(function.name, oracle)
    if isinstance(function, ast.ClassDef):
        methods = [s for s in function.body if isinstance(s, FUNCTIONS)]
        return any(function_ran(m, oracle) for m in methods) if methods else oracle.imports or None
    body = statements_in(function.body) if isinstance(function, FUNCTIONS) else []
    return any(_seen_within(s, oracle) for s in body)


def compiled_in(scopes: Sequence[ast.AST]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function among some scopes whose lines never run, since it is compiled."""
    return next((scope for scope in scopes if isinstance(scope, FUNCTIONS) and is_compiled(scope)), None)


def is_compiled(function: ast.AST) -> bool:
    """Whether a decorator makes something else of a function's lines."""
    decorators = getattr(function, "decorator_list", ())
    return any(_COMPILED.search(ast.unparse(d.func if isinstance(d, ast.Call) else d)) for d in decorators)


def compiled_ran(name: str, oracle: Oracle, depth: int = 0) -> bool | None:
    """Whether a line that names a compiled function ran; None where none did, since others may call it."""
    for function in (n for n in ast.walk(oracle.tree) if isinstance(n, FUNCTIONS) and n.name != name):
        if not any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(function)):
            continue
        if is_compiled(function):
            if depth < 5 and compiled_ran(function.name, oracle, depth + 1):
                return True
        elif any(
            isinstance(n, ast.Name) and n.id == name and oracle.lines is not None and n.lineno in oracle.lines.seen
            for n in ast.walk(function)
        ):
            return True
    return None


def _seen_within(s: ast.stmt, oracle: Oracle) -> bool:
    seen = oracle.lines.seen if oracle.lines else frozenset()
    return any(n in seen for n in range(s.lineno, (s.end_lineno or s.lineno) + 1))


def _add(
    found: Runs, statements: Sequence[ast.stmt], scopes: Sequence[ast.AST], oracle: Oracle, at_import: bool
) -> None:
    in_class = bool(scopes) and isinstance(scopes[-1], ast.ClassDef)
    for s in statements_in(statements, in_class):
        if isinstance(s, IMPORTS):
            continue  # what a module does when it is imported stands under that module
        if isinstance(s, DEFINITIONS):
            _definition(found, s, scopes, oracle)
        elif blocks_of(s):
            _compound(found, s, scopes, oracle, at_import)
        elif _simple_ran(s, oracle, at_import):
            found.statements.append(fingerprint(s))


def _simple_ran(s: ast.stmt, oracle: Oracle, at_import: bool) -> bool:
    """Whether it ran, or may have."""
    if at_import and oracle.imports and not (oracle.lines and oracle.lines.whole):
        return True
    return oracle.ran(s) is not False


def _definition(found: Runs, s: ast.stmt, scopes: Sequence[ast.AST], oracle: Oracle) -> None:
    """Defining does nothing by itself: what counts is what ran of the body."""
    assert isinstance(s, DEFINITIONS)
    if isinstance(s, ast.ClassDef):
        methods = [m for m in s.body if isinstance(m, FUNCTIONS)]
        used = not methods or function_ran(s, oracle) is not False
        _add(found, s.body if used else methods, (*scopes, s), oracle, at_import=True)
        return
    if oracle.lines is None and s.name in oracle.uncalled:
        return
    if is_compiled(s) and oracle.lines is not None:
        if compiled_ran(s.name, oracle):
            found.statements.append(fingerprint(s))
        else:
            found.sure = False
        return
    _add(found, s.body, (*scopes, s), oracle, at_import=False)


def _compound(found: Runs, s: ast.stmt, scopes: Sequence[ast.AST], oracle: Oracle, at_import: bool) -> None:
    blocks = blocks_of(s)
    if isinstance(s, ast.If) and oracle.lines is None:
        known = truth(s.test, scopes, oracle.state)
        if known is not None:
            found.untaken += [s.test] if not known else []
            _add(found, blocks[0 if known else 1][1], scopes, oracle, at_import)
            return
        found.settled = False
    head_ran = _simple_ran(s, oracle, at_import)
    counts = head_ran and not isinstance(s, ast.Try)
    if isinstance(s, ast.If) and oracle.lines is not None and is_quick(s.test):
        counts = False
    if counts:
        found.statements.append(header(s))
    for number, (_, block) in enumerate(blocks):
        before = len(found.statements)
        _add(found, block, scopes, oracle, at_import)
        if isinstance(s, ast.If) and number == 0 and head_ran and len(found.statements) == before:
            found.untaken += [s.test] if oracle.lines is not None else []


def is_quick(test: ast.expr) -> bool:
    """Whether a condition costs nothing to speak of: names, constants, comparisons, look-ups of settings."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if not _QUICK.fullmatch(name):
                return False
        elif isinstance(node, (ast.NamedExpr, ast.Await, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return False
    return True
