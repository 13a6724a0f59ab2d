"""What was found at a path: a value, or why there is none.

A `Reading` is one of five outcomes. The difference between them is the point of envsnap: *unset* (looked
for, is not there), *unknown* (nobody looked), *unavailable* (could not be read, and why) and *error* (reading
went wrong) are never the same thing and never equal to a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, Union

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict of these. Python's type system has no good name for it."""

T = TypeVar("T")


class Why(str, Enum):
    """The stable reason of an unavailable reading; the detail beside it is for people."""

    ABSENT = "absent"
    """The file, device, library or program does not exist here."""
    DENIED = "denied"
    """It exists, and this user may not read it."""
    NOT_SUPPORTED = "not_supported"
    """The driver or the kernel has no such reading on this hardware."""
    TIMEOUT = "timeout"
    """It did not answer within the deadline."""
    NOT_RECORDED = "not_recorded"
    """The recorded machine or imported dump does not hold it."""
    GONE = "gone"
    """The process or device vanished while it was read."""
    TOO_LARGE = "too_large"
    """It is larger than what envsnap agrees to read."""
    CLOBBERED = "clobbered"
    """Its owner has overwritten it (a retitled process zeroes its environment at exec)."""
    TORN = "torn"
    """It changed faster than it could be read."""
    OFF = "off"
    """Reading it was switched off or not asked for."""


@dataclass(frozen=True)
class Value:
    """A value that was read."""

    value: Json


@dataclass(frozen=True)
class Unavailable:
    """There is no reading, for a reason that lies outside envsnap."""

    why: Why
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.why.value}: {self.detail}" if self.detail else self.why.value


@dataclass(frozen=True)
class Error:
    """Reading failed in a way that nobody foresaw; the message says how."""

    message: str


@dataclass(frozen=True)
class Unset:
    """Everything of this kind was read, and this is not among it."""


@dataclass(frozen=True)
class Unknown:
    """The section does not hold this path, and does not claim to be complete."""


Found = Union[Value, Unavailable, Error]
"""What a collector may yield."""

Reading = Union[Value, Unavailable, Error, Unset, Unknown]
"""What a snapshot answers for a path."""


class Missing(Exception):
    """Raised by `Host` for what is *unavailable*; anything else that is raised is an *error*."""

    def __init__(self, why: Why, detail: str = "") -> None:
        super().__init__(f"{why.value}: {detail}" if detail else why.value)
        self.why = why
        self.detail = detail


def attempt(read: Callable[..., T], *args: Any) -> Found:
    """Call `read` and turn whatever happens into a reading, so that one bad fact never costs its neighbours."""
    try:
        return Value(read(*args))
    except Missing as missing:
        return Unavailable(missing.why, missing.detail)
    except Exception as error:
        return Error(describe(error))


def describe(error: BaseException) -> str:
    """One line for an unforeseen exception: its type, and its text cut to a sensible length."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
