"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property


class Status(str, Enum):
    """The outcome of one requirement. Unknown is never a pass."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Severity(str, Enum):
    """How much a failure is likely to cost."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @classmethod
    def of(cls, prior: float) -> Severity:
        """The severity that a key's prior stands for."""
        return cls.HIGH if prior >= 0.5 else cls.MEDIUM if prior >= 0.2 else cls.LOW


@dataclass(frozen=True)
class Finding:
    """One requirement and how it was met. `code` is stable; `evidence` are the paths it rests on."""

    code: str
    status: Status
    severity: Severity
    title: str
    evidence: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True)
class CheckResult:
    """All findings: failures first, then unknowns, then passes, each by severity.

    `notes` are sentences on how far the requirements apply to this snapshot at all.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def failed(self) -> tuple[Finding, ...]:
        """What does not hold."""
        return tuple(f for f in self.findings if f.status is Status.FAIL)

    @cached_property
    def unknown(self) -> tuple[Finding, ...]:
        """What could not be read."""
        return tuple(f for f in self.findings if f.status is Status.UNKNOWN)
