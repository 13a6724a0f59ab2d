"""Anything as plain JSON, within bounds."""

from __future__ import annotations

import dataclasses
import math
import os
from enum import Enum
from typing import Any

MAX_DEPTH = 8
MAX_ITEMS = 4096
MAX_TEXT = 16384


def plain(value: Any, depth: int = 0) -> Any:
    """`value` as JSON: what has no such form stands as its type's name, what is too long is cut."""
    if value is None or isinstance(value, (bool, int)):
        return value if not isinstance(value, Enum) else plain(value.value, depth + 1)
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, str) and not isinstance(value, Enum):
        return value[:MAX_TEXT]
    if depth > MAX_DEPTH:
        return "<%s>" % type(value).__name__
    if isinstance(value, Enum):
        return plain(value.value, depth + 1)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)[:MAX_TEXT]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): plain(v, depth + 1) for k, v in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, (list, tuple)):
        return [plain(v, depth + 1) for v in value[:MAX_ITEMS]]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v, depth + 1) for v in list(value)[:MAX_ITEMS]), key=repr)
    return "<%s>" % type(value).__name__


def describe(error: BaseException) -> str:
    """One line for an exception."""
    return ("%s: %s" % (type(error).__name__, " ".join(str(error).split())))[:300]
