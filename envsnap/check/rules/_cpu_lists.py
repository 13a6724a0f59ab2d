"""Lists of CPUs as the kernel writes them."""

from __future__ import annotations

from envsnap.reading import Json

_MOST = 1 << 14


def cpus_in(text: Json) -> set[int]:
    """The numbers in a list such as `0-3,8`; nothing for what is none."""
    found: set[int] = set()
    for part in str(text or "").split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (not last or last.isdecimal()) and int(last or first) < _MOST:
            found.update(range(int(first), int(last or first) + 1))
    return found
