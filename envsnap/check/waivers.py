"""Waivers: a requirement that somebody has agreed not to hold, until a date."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from envsnap.check.finding import Finding, Status


@dataclass(frozen=True)
class Waiver:
    """Who lets a requirement rest, why, and the last day on which that holds."""

    note: str
    owner: str
    until: date


def waived(finding: Finding, waiver: Waiver | None, today: date) -> Finding:
    """The finding as its waiver leaves it: one that has expired excuses nothing, and is named."""
    if waiver is None or finding.status not in (Status.FAIL, Status.WARNING):
        return finding
    if today <= waiver.until:
        told = f"waived until {waiver.until} by {waiver.owner}: {waiver.note}"
        return replace(finding, status=Status.WAIVED, title=f"{finding.title} ({told})")
    told = f"the waiver of {waiver.owner} expired on {waiver.until}"
    return replace(finding, status=Status.FAIL, title=f"{finding.title} ({told})")
