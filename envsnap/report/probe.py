"""What probes found, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from envsnap.probe.declared import quantity_of
from envsnap.probe.judge import Compared, Standing
from envsnap.probe.result import FORMAT, VERSION, Figure, ProbeResult
from envsnap.reading import Json
from envsnap.report.lines import Line
from envsnap.wording import plural

_STYLES = {
    Standing.WORSE: "bad", Standing.BETTER: "good", Standing.SAME: "good", Standing.UNKNOWN: "warn",
    Standing.MISSING: "warn",
}  # fmt: skip


def text(result: ProbeResult, compared: Sequence[Compared]) -> list[Line]:
    """A line per figure with its standing, reasons for what was not measured, and a last line that says it all."""
    lines: list[Line] = [[(f"! {note}", "warn")] for note in result.notes]
    measured = [figure for figure in result.figures if figure.values]
    width = max((len(f.name) for f in measured), default=0)
    of = {c.name: c for c in compared}
    lines += [_measured(figure, of.get(figure.name), width) for figure in measured]
    lines += _unavailable([figure for figure in result.figures if not figure.values])
    lines += [
        [(f"{c.standing.value.upper():8} ", _STYLES[c.standing]), (c.name, "path"), (f"  {c.reason}", "dim")]
        for c in compared
        if c.standing is Standing.MISSING
    ]
    lines += [[(f"  {reason}", "dim")] for reason in dict.fromkeys(c.reason for c in compared if c.ratio is not None)]
    lines.append([(headline(result, compared), "title")])
    return lines


def _measured(figure: Figure, compared: Compared | None, width: int) -> Line:
    unit = quantity_of(figure.name).unit
    line: Line = [(f"{figure.name:<{width}}", "path")]
    if compared is not None and compared.ratio is not None:
        standing = compared.standing
        line.insert(0, (f"{standing.value.upper():8} ", _STYLES[standing]))
        line.append((f"  {compared.before:.4g} → {compared.now:.4g} {unit}  ×{compared.ratio:.3f}", ""))
        line.append((f"  95 % {compared.low:.3f} to {compared.high:.3f}", "dim"))
    else:
        line.append((f"  {figure.median:.4g} {unit}", ""))
    line.append((f"  spread {figure.spread_percent:.1f} %, n = {len(figure.values)}", "dim"))
    return line


def _unavailable(figures: Sequence[Figure]) -> list[Line]:
    """One line for all that have the same reason."""
    by_reason: dict[str, list[str]] = {}
    for figure in figures:
        by_reason.setdefault(figure.unavailable, []).append(figure.name)
    return [
        [("not measured  ", "warn"), (", ".join(names), "path"), (f"  {reason}", "dim")]
        for reason, names in by_reason.items()
    ]


def headline(result: ProbeResult, compared: Sequence[Compared]) -> str:
    """The result in one line."""
    count = {standing: sum(c.standing is standing for c in compared) for standing in Standing}
    took = f"in {result.seconds:.1f} s"
    if compared:
        told = [f"{number} {standing.value}" for standing, number in count.items() if number]
        return f"{'worse' if count[Standing.WORSE] else 'not worse'}: {', '.join(told)}, {took}"
    without = sum(not figure.values for figure in result.figures)
    rest = f", {without} could not be measured" if without else ""
    return f"{plural(len(result.figures) - without, 'figure')} {took}{rest}"


def as_json(result: ProbeResult, compared: Sequence[Compared] = (), baselines: Sequence[str] = ()) -> dict[str, Json]:
    """The result's JSON form, which is also what is stored."""
    command = ["envsnap", "probe", "--baseline"]
    return {
        "format": FORMAT,
        "version": VERSION,
        "envsnap": result.envsnap,
        "started_at": result.started_at,
        "seconds": result.seconds,
        "torch": result.torch,
        "gpus": list(result.gpus),
        "notes": list(result.notes),
        "figures": [figure.as_json() for figure in result.figures],
        "baselines": list(baselines),
        "compared": [
            {
                "name": c.name,
                "standing": c.standing.value,
                "reason": c.reason,
                "before": c.before,
                "now": c.now,
                "ratio": c.ratio,
                "low": c.low,
                "high": c.high,
            }
            for c in compared
        ],
        "next": [[*command, baselines[0], "--only", _probe(c.name)] for c in compared if c.standing is Standing.WORSE][
            :1
        ],
    }


def _probe(figure: str) -> str:
    from envsnap.probe.declared import PROBES

    return next(probe.name for probe in PROBES if quantity_of(figure) in probe.quantities)
