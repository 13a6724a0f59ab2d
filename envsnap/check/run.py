"""A check as a whole: built-in rules, a policy and a baseline on one snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from envsnap.check import builtin, requirements
from envsnap.check.baseline import check as check_baseline
from envsnap.check.finding import CheckResult, Finding, Status
from envsnap.check.policy import Policy
from envsnap.check.rules import AFTER, BEFORE, Rule, passes_by_waiting
from envsnap.check.wanted import Wanted
from envsnap.snapshot import Snapshot

NOTHING, NO_POLICY = Wanted(), Policy()


@dataclass(frozen=True)
class Plan:
    """What is to be checked. `baseline` is compared as a whole, unless the policy says what of it is required."""

    wanted: Wanted = NOTHING
    policy: Policy = NO_POLICY
    rules: bool = True
    after: bool = False
    baseline: Snapshot | None = None
    ignore: tuple[str, ...] = ()

    @property
    def chosen(self) -> list[Rule]:
        """The built-in rules that run."""
        return builtin.chosen(self.policy.rules, AFTER if self.after else BEFORE) if self.rules else []

    @property
    def compares(self) -> bool:
        """Whether the baseline is compared as a whole."""
        return self.baseline is not None and not self.policy.needs_baseline

    def sections(self) -> tuple[str, ...]:
        """The sections that a snapshot has to have for it."""
        from envsnap.collectors import names

        wanted = builtin.sections(self.chosen) | requirements.sections(self.policy.requirements)
        if self.compares and self.baseline:
            wanted |= set(self.baseline.sections)
        return tuple(name for name in names() if name in wanted)

    def judge(self, snapshot: Snapshot, today: date) -> CheckResult:
        """What a snapshot is worth. Raises: PolicyError where the policy contradicts itself here."""
        findings: list[Finding] = []
        notes: tuple[str, ...] = ()
        if self.compares and self.baseline:
            compared = check_baseline(snapshot, self.baseline, ignore=self.ignore)
            findings, notes = list(compared.findings), compared.notes
        findings += builtin.judge(snapshot, self.chosen, self.wanted, self.policy.rules, today)
        if self.policy.requirements:
            findings += requirements.judge(snapshot, self.policy.requirements, self.wanted, self.baseline, today)
        return CheckResult.of(findings, notes)

    def still_busy(self, snapshot: Snapshot, today: date) -> tuple[Finding, ...]:
        """What rules object to that can go away by itself."""
        found = builtin.judge(snapshot, self.waiting, self.wanted, self.policy.rules, today)
        return tuple(f for f in found if f.status in (Status.FAIL, Status.WARNING))

    @property
    def waiting(self) -> list[Rule]:
        """The rules whose objections can go away by themselves."""
        return [rule for rule in self.chosen if passes_by_waiting(rule)]
