"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property


class Status(str, Enum):
    """The outcome of one requirement. Unknown is never a pass."""

    FAIL = "fail"
    UNKNOWN = "unknown"
    """It could not be judged: something that it needs could not be read."""
    WARNING = "warning"
    WAIVED = "waived"
    """It does not hold, and somebody has taken that on until a date."""
    NOT_APPLICABLE = "not_applicable"
    """There is nothing here that it speaks of."""
    PASS = "pass"


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
    """One requirement and how it was met. `code` is stable; `evidence` are the paths it rests on.

    `required`: not knowing is no pass. What would be a warning at most is not required.
    """

    code: str
    status: Status
    severity: Severity
    title: str
    evidence: tuple[str, ...] = ()
    advice: str = ""
    required: bool = True


_STATUSES = tuple(Status)
_SEVERITIES = tuple(Severity)


@dataclass(frozen=True)
class CheckResult:
    """All findings: failures first, then unknowns and warnings, passes last, each by severity.

    `notes` are sentences on how far the requirements apply to this snapshot at all.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding], notes: tuple[str, ...] = ()) -> CheckResult:
        """A result with its findings in order."""
        return cls(tuple(sorted(findings, key=_rank)), notes)

    @cached_property
    def failed(self) -> tuple[Finding, ...]:
        """What does not hold."""
        return tuple(f for f in self.findings if f.status is Status.FAIL)

    @cached_property
    def unknown(self) -> tuple[Finding, ...]:
        """What is required and could not be read."""
        return tuple(f for f in self.findings if f.status is Status.UNKNOWN and f.required)

    @cached_property
    def warned(self) -> tuple[Finding, ...]:
        """Warnings, and what would be one at most and could not be read."""
        return tuple(
            f for f in self.findings if f.status is Status.WARNING or (f.status is Status.UNKNOWN and not f.required)
        )

    @property
    def status(self) -> Status:
        """The result as a whole."""
        if self.failed:
            return Status.FAIL
        return Status.UNKNOWN if self.unknown else Status.WARNING if self.warned else Status.PASS


def _rank(finding: Finding) -> tuple[int, bool, int, str]:
    return (
        _STATUSES.index(finding.status),
        not finding.required,
        _SEVERITIES.index(finding.severity),
        finding.code,
    )
