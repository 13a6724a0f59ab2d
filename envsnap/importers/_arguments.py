"""Arguments of an engine as it prints them: Python's form of a call or of a dictionary."""

from __future__ import annotations

import ast
from typing import Any

from envsnap.reading import Json

MAX_CHARACTERS = 1 << 18
MAX_DEPTH = 40


class Unreadable(Exception):
    """It is no such form, or is cut."""


def call(text: str) -> dict[str, Json]:
    """The named arguments of `Name(a=1, b=Other(c=2))`, a nested call as a dictionary. Raises: Unreadable."""
    found = _value(_parsed(text))
    if not isinstance(found, dict):
        raise Unreadable
    return found


def literal(text: str) -> Json:
    """A literal: a dictionary, list, string, number. Raises: Unreadable."""
    return _value(_parsed(text))


def _parsed(text: str) -> ast.expr:
    if len(text) > MAX_CHARACTERS or _depth(text) > MAX_DEPTH:
        raise Unreadable
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Unreadable from error


def _depth(text: str) -> int:
    """How deeply brackets are nested, those in strings counted too."""
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        if node.args or any(k.arg is None for k in node.keywords):
            raise Unreadable
        return {str(k.arg): _value(k.value) for k in node.keywords}
    if isinstance(node, ast.Dict):
        if not all(isinstance(key, ast.Constant) for key in node.keys):
            raise Unreadable
        return {str(ast.literal_eval(k)): _value(v) for k, v in zip(node.keys, node.values) if k is not None}
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(item) for item in node.elts]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise Unreadable from error


def split(text: str) -> dict[str, str]:
    """`a=1, b='x, y', c=F(d=2)` as names and the texts of their values, split at commas outside of brackets and quotes.

    Unlike `call`, it takes values that are no Python. What follows the last whole value is left out.
    """
    found: dict[str, str] = {}
    depth, quote, start = 0, "", 0
    for at, character in enumerate(f"{text[:MAX_CHARACTERS]},"):
        if quote:
            if character == quote and text[at - 1 : at] != "\\":
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth = max(0, depth - 1)
        elif character == "," and depth == 0:
            name, equals, value = text[start:at].strip().partition("=")
            if equals and name.isidentifier():
                found[name] = value.strip()
            start = at + 1
    return found
