"""Readings as the tables of slow values look at them: words, numbers, places in an order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from envsnap.reading import Json, Reading, Unset, Value


def fits(text: str, parts: Sequence[str]) -> bool:
    """Whether text is these parts in order, with anything between them."""
    # NOTE: brackets stand for themselves in keys, and hundreds of expressions take longer to compile than to be asked.
    first, last = parts[0], parts[-1]
    end = len(text) - len(last)
    if not text.startswith(first) or not text.endswith(last) or end < len(first):
        return False
    at = len(first)
    for part in parts[1:-1]:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def place(reading: Reading, places: Sequence[Sequence[str]]) -> int | None:
    """The group of words that a value is in; None where it is in none.

    A word that is the value goes before one with `*`, and that before a bare `*`, wherever they stand. Only the word
    `unset` stands for no value.
    """
    texts = _texts(reading)
    for words in _BY_CLOSENESS:
        for i, group in enumerate(places):
            if any(_is(t, w) for w in group if words(w) for t in texts):
                return i
    return None


_BY_CLOSENESS: tuple[Callable[[str], bool], ...] = (
    lambda word: "*" not in word,
    lambda word: "*" in word and word != "*",
    lambda word: word == "*",
)


def _is(text: str, word: str) -> bool:
    if "*" not in word:
        return text == word
    return text != UNSET and fits(text, word.split("*"))


def holds(reading: Reading, words: set[str]) -> bool:
    """Whether one of the words is the value, an item of a list, or a part of a text (`NET/Socket`, `a:1,b:2`)."""
    texts = _texts(reading)
    parts = texts | {part for text in texts for part in re.split(r"[,;/\s]", text)}
    return bool(parts & words) or any(_is(part, word) for word in words if "*" in word for part in parts)


UNSET = "unset"


def _texts(reading: Reading) -> set[str]:
    """A value as text, or the items that it holds; `unset` where there is none."""
    if isinstance(reading, Unset):
        return {UNSET}
    if not isinstance(reading, Value):
        return set()
    value = reading.value
    items: Iterable[Json] = value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
    return {str(item).lower() for item in items}


def names_count(reading: Reading) -> float | None:
    """How many names a list has, as text with commas or as a list."""
    if not isinstance(reading, Value):
        return None
    value = reading.value
    items = value if isinstance(value, list) else [w for w in str(value).lstrip("^=").split(",") if w]
    # NOTE: a name without its number (`mlx5`, which ends in one of its own) stands for all that begin so.
    return float(len(items)) if all("_" in str(item) or str(item).isdigit() for item in items) else None


def number(reading: Reading) -> float | None:
    """A value as a finite number, the largest of a list of numbers, the length of another; None for what is none."""
    if not isinstance(reading, Value) or isinstance(reading.value, bool):
        return None
    if isinstance(reading.value, list):
        held = [number(Value(v)) for v in reading.value if isinstance(v, (int, float))]
        numbers = [v for v in held if v is not None]
        return max(numbers) if numbers and len(numbers) == len(reading.value) else float(len(reading.value))
    try:
        found = float(reading.value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
