"""Probes as requirements: no figure may be worse than in the stored probes of a good machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envsnap.check.finding import Finding, Severity, Status
from envsnap.probe import run_all
from envsnap.probe.judge import Compared, Standing, compare
from envsnap.probe.result import ProbeResult, load

_STATUS = {
    Standing.WORSE: Status.FAIL,
    Standing.BETTER: Status.PASS,
    Standing.SAME: Status.PASS,
    Standing.UNKNOWN: Status.UNKNOWN,
    Standing.MISSING: Status.UNKNOWN,
}


def findings(baselines: Sequence[str], tell: Callable[[str], None] = lambda text: None) -> tuple[Finding, ...]:
    """Measure, and judge every figure that the stored probes have. Raises: SnapshotError for a file that is no probe's
    result, Busy where a GPU is in use."""
    stored = [load(file) for file in baselines]
    return judged(run_all(tell=tell), stored)


def judged(result: ProbeResult, stored: Sequence[ProbeResult]) -> tuple[Finding, ...]:
    """The findings of a result against stored ones; a figure that only the result has is no requirement."""
    return tuple(_finding(figure) for figure in compare(result, stored) if figure.before is not None)


def _finding(figure: Compared) -> Finding:
    values = "" if figure.now is None or figure.ratio is None else f": {figure.now:.4g}, ×{figure.ratio:.3f}"
    return Finding(
        code="probe",
        status=_STATUS[figure.standing],
        severity=Severity.HIGH,
        title=f"{figure.name} is {figure.standing.value}{values} ({figure.reason})",
        evidence=(figure.name,),
        # A gap that could be one between healthy sessions is no pass, and no reason to refuse a start either.
        required=figure.standing is not Standing.UNKNOWN,
        advice="Measure again on an idle machine: envsnap probe." if figure.standing is Standing.WORSE else "",
    )
