"""Check a snapshot against what is required of it."""

from __future__ import annotations

from envsnap.check.baseline import check
from envsnap.check.finding import CheckResult, Finding, Severity, Status

__all__ = ["CheckResult", "Finding", "Severity", "Status", "check"]
