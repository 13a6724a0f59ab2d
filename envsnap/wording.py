"""How values and readings are put in words, and how foreign text is made fit to be shown."""

from __future__ import annotations

import json

from envsnap.keys import Key, Type
from envsnap.reading import Error, Json, Reading, Unavailable, Unknown, Unset, Value

_MEANINGFUL = {"unset", "unknown", "unavailable", "true", "false", "null"}
_ELLIPSIS = "…"


def printable(text: str) -> str:
    """`text` on one line and harmless: whatever is not printable (escapes, controls, bidi marks) stands escaped.

    A second pass changes nothing.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def shorten(text: str, width: int) -> str:
    """`text` cut in its middle to at most `width` characters."""
    if len(text) <= width:
        return text
    if width < 2:
        return _ELLIPSIS[:width]
    head = width // 2
    return text[:head] + _ELLIPSIS + text[len(text) - (width - head - 1) :]


def clip(text: str, width: int) -> str:
    """`text` cut at its end to at most `width` characters: for sentences, whose beginning says what they are about."""
    return text if len(text) <= width else text[: max(0, width - 1)] + _ELLIPSIS[:width]


def plural(count: int, noun: str) -> str:
    """`1 reading`, `2,000 readings`, `2 boundaries`."""
    if count != 1:
        if noun.endswith("y") and noun[-2:-1] not in "aeiou":
            noun = f"{noun[:-1]}ies"
        else:
            noun += "es" if noun.endswith(("s", "x", "sh", "ch")) else "s"
    return f"{count:,} {noun}"


def value_text(key: Key, value: Json) -> str:
    """A value with its unit, on one line; long ones in full."""
    if key.type is Type.TEXT and isinstance(value, str):
        return f"{plural(len(value.splitlines()), 'line')}, {plural(len(value.encode(errors='replace')), 'byte')}"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(_item(v) for v in value)}]"
    if isinstance(value, dict):
        return printable(json.dumps(value, ensure_ascii=False))
    text = json.dumps(value)
    if value is None or isinstance(value, bool) or not key.unit:
        return text
    return f"{text} {key.unit}{_binary(value) if key.unit == 'bytes' else ''}"


def reading_text(key: Key, reading: Reading) -> str:
    """A reading in words: its value, or why there is none."""
    return value_text(key, reading.value) if isinstance(reading, Value) else absence_text(reading)


def absence_text(reading: Unavailable | Error | Unset | Unknown) -> str:
    """Why there is no value, in words."""
    match reading:
        case Unavailable():
            return printable(f"unavailable ({reading})")
        case Error(message):
            return printable(f"error ({message})")
        case Unset():
            return "unset"
        case Unknown():
            return "unknown"


def pair_text(key: Key, before: Reading, after: Reading, width: int) -> tuple[str, str]:
    """Two readings in words, together at most about `width` characters: what they share is cut away first."""
    a, b = reading_text(key, before), reading_text(key, after)
    if isinstance(before, Value) and isinstance(after, Value) and len(a) + len(b) > width:
        if isinstance(before.value, list) and isinstance(after.value, list):
            a, b = _lists(before.value, after.value) or (a, b)
        a, b = _trimmed(a, b, width // 2)
    room = max(width // 2, width - len(b)), max(width // 2, width - len(a))
    return shorten(a, room[0]), shorten(b, room[1])


def reading_json(reading: Reading, key: Key | None = None) -> dict[str, Json]:
    """A reading's JSON form: one field that names the outcome. Long text is told by its size."""
    match reading:
        case Value(value):
            if key is not None and key.type is Type.TEXT and isinstance(value, str):
                return {"text": {"lines": len(value.splitlines()), "bytes": len(value.encode(errors="replace"))}}
            return {"value": value}
        case Unavailable(why, detail):
            return {"unavailable": why.value, "detail": detail}
        case Error(message):
            return {"error": message}
        case Unset():
            return {"unset": True}
        case Unknown():
            return {"unknown": True}


def quoted(value: str) -> str:
    """A string on one line, in quotes where it would be mistaken for something else."""
    plain = printable(value)
    return plain if value and value == value.strip() and value not in _MEANINGFUL else f'"{plain}"'


def _item(value: Json) -> str:
    return quoted(value) if isinstance(value, str) else printable(json.dumps(value, ensure_ascii=False))


def _binary(size: float) -> str:
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB")):
        if abs(size) >= 1 << power:
            return f" ({size / (1 << power):.4g} {unit})"
    return ""


def _lists(a: list[Json], b: list[Json]) -> tuple[str, str] | None:
    """The items that only one of the lists holds; None where they hold the same in another order."""
    gone, new = [v for v in a if v not in b], [v for v in b if v not in a]
    if not gone and not new:
        return None
    kept = [f"{_ELLIPSIS} {len(a) - len(gone)} alike"] if len(a) > len(gone) else []
    return f"[{', '.join([*map(_item, gone), *kept])}]", f"[{', '.join([*map(_item, new), *kept])}]"


def _trimmed(a: str, b: str, width: int, context: int = 12) -> tuple[str, str]:
    """Both texts without most of what they begin and end with in common."""
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    tail = next((i for i in range(shorter - head) if a[-1 - i] != b[-1 - i]), shorter - head)
    head, tail = max(0, head - context), max(0, tail - context)

    def cut(text: str) -> str:
        if len(text) <= width:
            return text
        middle = text[head : len(text) - tail]
        return f"{_ELLIPSIS if head else ''}{middle}{_ELLIPSIS if tail else ''}"

    return cut(a), cut(b)
