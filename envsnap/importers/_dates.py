"""The dates that dumps carry."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_C_LOCALE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) +([A-Z][a-z]{2}) +(\d{1,2}) +(\d\d):(\d\d):(\d\d) +(\d{4})\Z")
_MONTHS = {name: n for n, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}  # noqa: SIM905


def c_locale(text: str) -> str:
    """`Sun Nov 29 15:58:16 2026` as `2026-11-29 15:58:16`; empty for anything else. It names no time zone."""
    match = _C_LOCALE.match(text.strip())
    if not match or match[1] not in _MONTHS:
        return ""
    month, day, *clock, year = match.groups()
    return f"{year}-{_MONTHS[month]:02}-{int(day):02} {':'.join(clock)}"


def utc(text: str) -> str:
    """A date with its zone in ISO 8601, in UTC; empty where it is none."""
    text = re.sub(r"(\.\d{6})\d+", r"\1", text.strip()).replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return ""
    if moment.tzinfo is None:
        return ""
    try:
        return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds")
    except OverflowError:
        return ""
