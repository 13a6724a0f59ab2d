"""From the figures that dumps hold to runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from envsnap.collectors import key_for
from envsnap.keys import Kind
from envsnap.redact import Redactor
from envsnap.runs.metrics import Measured, Metric
from envsnap.runs.run import Run
from envsnap.runs.server_figures import joined
from envsnap.snapshot import Snapshot
from envsnap.wording import plural

_ROUNDED = {"output_tokens_per_second", "duration_seconds"}


def runs(
    snapshot: Snapshot, results: Sequence[Measured], logged: Sequence[Measured], failure: str, redactor: Redactor
) -> tuple[Run, ...]:
    """A run for each repetition that was measured: by the benchmark, else by what the server logged.

    Repetitions that asked for other work than the last are left out, and said.
    """
    counted = _distinct(results)
    chosen = [m for m in counted if m.request == counted[-1].request]
    repetitions = [_with_acceptance(m, logged) for m in chosen] or list(logged) or ([Measured(())] if failure else [])
    left_out = len(counted) - len(chosen)
    notes = (f"{plural(left_out, 'result')} of other requests in the same text left out",) if left_out else ()
    during = snapshot.sections.get("during")
    sampled = replace(during, reason="imported") if during else None
    state = _without_conditions(snapshot) if sampled else snapshot
    group = hashlib.sha256(snapshot.content_hash.encode() + repr(repetitions).encode()).hexdigest()[:12]
    return tuple(
        Run(
            id=f"{group}-{index}",
            group=group,
            started_at=snapshot.captured_at,
            seconds=next((m.value for m in measured.metrics if m.name == "duration_seconds"), 0.0),
            status="ok" if measured.metrics else "never_ready",
            reason="" if measured.metrics else redactor.clean_text(failure),
            command=(),
            exit_code=None,
            snapshots={"before": state},
            index=index,
            metrics=measured.metrics,
            request=redactor.clean(measured.request),
            sampled=sampled,
            warnings=(*measured.warnings, *notes),
        )
        for index, measured in enumerate(repetitions)
    )


def _distinct(measured: Sequence[Measured]) -> list[Measured]:
    """Results without those that are another's table: a table rounds to two decimals, and says less of the request."""
    kept: list[Measured] = []
    for one in sorted(measured, key=lambda m: -len(m.request)):
        if not any(_same_figures(one.metrics, other.metrics) for other in kept):
            kept.append(one)
    return sorted(kept, key=measured.index)


def _same_figures(a: Sequence[Metric], b: Sequence[Metric]) -> bool:
    """Whether one of two results is the other's table, by the figures that a table rounds to two decimals."""
    if {m.source for m in a} == {m.source for m in b}:
        return False
    one, two = ({m.name: m.value for m in side if m.name in _ROUNDED} for side in (a, b))
    return one.keys() == two.keys() == _ROUNDED and all(abs(one[name] - two[name]) < 0.006 for name in one)


def _with_acceptance(measured: Measured, logged: Sequence[Measured]) -> Measured:
    """A client's figures with the accept length that the server logged, where it tells none itself."""
    accepted = tuple(m for log in logged[:1] for m in log.metrics if m.name == "accept_length")
    return replace(measured, metrics=joined(measured.metrics, accepted))


def _without_conditions(snapshot: Snapshot) -> Snapshot:
    """Without what holds only under load: nobody knows whether a dump was made under load."""
    sections = {
        name: replace(s, values={p: v for p, v in s.values.items() if key_for(p).kind is not Kind.CONDITION})
        for name, s in snapshot.sections.items()
        if name != "during"
    }
    return replace(snapshot, sections=sections)
