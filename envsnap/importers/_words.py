"""Values as other tools word them, as what the keys hold. Each gives None for what it does not know for certain."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection

from envsnap.collectors._files import cpu_ranges
from envsnap.reading import Json

Take = Callable[[str], Json]
"""From a tool's word to a value, or None."""

_CPU_LIST = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*\Z")
_NOTHING = {"", "n/a", "[n/a]", "not available", "could not collect", "unknown error", "none"}


def text(word: str) -> str | None:
    """A name or version, unless it says that there is none."""
    return None if word.lower() in _NOTHING or word.startswith("[") else word


def integer(word: str) -> int | None:
    """A whole number."""
    return int(word) if re.fullmatch(r"-?\d{1,15}", word) else None


def number(word: str) -> float | None:
    """A decimal number."""
    return float(word) if re.fullmatch(r"-?\d{1,15}(?:\.\d{1,9})?", word) else None


def unit(name: str, scale: int = 1) -> Take:
    """A whole number with its unit, `3201 MHz`, times `scale`."""

    def take(word: str) -> int | None:
        amount, _, found = word.partition(" ")
        value = integer(amount)
        return value * scale if value is not None and found == name else None

    return take


def watts(word: str) -> float | None:
    """`700.00 W`."""
    amount, _, found = word.partition(" ")
    return number(amount) if found == "W" else None


def lanes(word: str) -> int | None:
    """`16x`."""
    return int(word[:-1]) if re.fullmatch(r"\d{1,2}x", word) else None


def either(yes: str, no: str) -> Take:
    """A switch with two words."""
    return {yes: True, no: False}.get


ENABLED = either("Enabled", "Disabled")
YES = either("Yes", "No")


def one_of(names: Collection[str], **others: str) -> Take:
    """A name in lower case with underscores, if it is among `names`; `others` are words of another spelling."""
    spellings = {name.replace("_", " "): name for name in names} | {w.replace("_", " "): n for w, n in others.items()}
    return lambda word: spellings.get(word.lower().replace("-", " ").replace("_", " "))


def pci_address(word: str) -> str | None:
    """`00000000:3B:00.0` or `3b:00.0` as sysfs writes it."""
    match = re.fullmatch(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])", word)
    return f"{int(match[1] or '0', 16):04x}:{match[2].lower()}" if match else None


def pci_id(word: str) -> str | None:
    """`0x233510DE`, device before vendor, as lspci writes it."""
    match = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", word)
    return f"{match[2]}:{match[1]}".lower() if match else None


def cpus(word: str) -> str | None:
    """A list of CPUs in ranges, as the kernel writes it."""
    if not _CPU_LIST.match(word):
        return None
    spans = [part.partition("-")[::2] for part in word.split(",")]
    pairs = [(int(a), int(b or a)) for a, b in spans]
    if any(b < a or b - a > 8192 for a, b in pairs):
        return None
    return cpu_ranges({cpu for a, b in pairs for cpu in range(a, b + 1)})


def size_bytes(word: str) -> int | None:
    """`512 KiB` or `1.5 MiB` in bytes, where it is a whole number of them."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?) ?(?:([KMG])(?:i?B)?|B|bytes)", word)
    if not match:
        return None
    size = float(match[1]) * (1 << {"K": 10, "M": 20, "G": 30, None: 0}[match[2]])
    return int(size) if math.isfinite(size) and size.is_integer() else None


def figure(word: str) -> float | None:
    """A positive figure with a decimal point, of a table of results."""
    value = number(word.replace(",", ""))
    return value if value is not None and value > 0 else None
