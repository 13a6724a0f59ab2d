"""What is secret, and what stands in its place. (Being written: interface only.)"""

from __future__ import annotations

from envsnap.reading import Json


def comparable(a: Json, b: Json) -> bool:
    """Whether two values can be compared. (Being written: interface only.)"""
    return True


class Redactor:
    """Cleans everything that goes into a snapshot."""

    def clean_value(self, path: str, value: Json) -> Json:
        """The value at a path, without secrets: by the name in the path and by the form of the value."""
        return value

    def clean_text(self, text: str) -> str:
        """Free text (messages, reasons, patches) without what looks like a secret."""
        return text

    def clean(self, value: Json) -> Json:
        """Any JSON value, every string in it cleaned, names of objects' fields counting as names."""
        return value

    def summary(self) -> dict[str, Json]:
        """What was done: {"key_id", "redacted": count, "key": "stored" | "ephemeral" | "unused"}."""
        return {}
