"""Two sets of runs as text, markdown and JSON: the verdict first, then which term moved."""

from __future__ import annotations

from envsnap.reading import Json
from envsnap.report.lines import Line
from envsnap.report.markdown import code, table
from envsnap.runs.compare import Comparison, Judged, worse
from envsnap.runs.speed import Share
from envsnap.runs.verdict import Design, Outcome

_SHOWN = 8
_REST = "residual"
_NOT_SPLIT = "  not split: step time and accept length are not known of both sides"

_TERM_NAMES = {
    "accept_length": "accept length",
    "step_time": "step time",
    "inferred_accept_length": "accept length (inferred)",
    "inferred_step_time": "step time (inferred)",
    "draft": "draft",
    "verify": "verify",
    "draft_extend": "draft extend",
    "decode": "decode",
    "host_gap": "host gap",
    "residual": "unexplained",
}


def text(comparison: Comparison) -> list[Line]:
    """The verdict on each metric, the split, and what qualifies them."""
    lines: list[Line] = [[(f"! {obstacle}", "warn")] for obstacle in comparison.obstacles]
    for judged in comparison.judged[:_SHOWN]:
        lines.append(_metric(judged))
    if comparison.judged:
        lines.append([(f"  {comparison.judged[0].verdict.reason}", "dim")])
    for judged in comparison.judged[:1]:
        lines += [[(f"  {note}", "dim")] for note in judged.verdict.notes]
        if judged.verdict.suspicious and judged.verdict.outcome is Outcome.UNKNOWN:
            lines.append([(f"  suspicious: {settle(judged)}", "warn")])
    if shares := moving(comparison):
        lines += [[], [("speed of one stream", "title")]]
        split = any(share.term != _REST for share in shares)
        lines += [_share(share) for share in shares] if split else [[(_NOT_SPLIT, "dim")]]
    lines += [[(f"! {note}", "warn")] for note in comparison.notes]
    return lines


def settle(judged: Judged) -> str:
    """What would settle a gap that may be one."""
    if judged.verdict.design is Design.INTERLEAVED:
        return f"repeat with more pairs, envsnap run --a … --b … -n {2 * judged.verdict.n_a} -- BENCHMARK"
    return "settle it with interleaved runs, envsnap run --a … --b … -n 5 -- BENCHMARK"


def _metric(judged: Judged) -> Line:
    verdict = judged.verdict
    style = "dim"
    if verdict.outcome is Outcome.DIFFERENT:
        style = "bad" if worse(judged) else "good" if worse(judged) is False else "warn"
    factor, interval = gap_text(judged)
    unit = f" {judged.metric.unit}" if judged.metric.unit else ""
    return [
        (f"{verdict.outcome.value.upper():9}", style),
        (f" {judged.metric.name}  ", "path"),
        (f"{middle(judged.a)} → {middle(judged.b)}{unit}  {factor}{f'  95 % {interval}' if interval else ''}", ""),
        (f"  n = {verdict.n_a}, {verdict.n_b}", "dim"),
    ]


def gap_text(judged: Judged) -> tuple[str, str]:
    """How much worse side B is, in one direction whatever the metric counts, and the interval: `×1.57 slower`.

    Of speeds and of times alike it is the ratio of times; of a metric without a good direction B against A.
    """
    verdict, is_worse = judged.verdict, worse(judged)
    ratio, low, high = verdict.ratio, verdict.low, verdict.high
    word = ""
    if is_worse is not None and ratio != 1:
        word = f" {_words(judged.metric.unit)[0 if is_worse else 1]}"
        if ratio < 1:
            ratio = 1 / ratio
            low, high = (1 / high if high else None), (1 / low if low else None)
    interval = f"{low:.3f} to {high:.3f}" if low is not None and high is not None else ""
    return f"×{ratio:.3f}{word}", interval


def _words(unit: str) -> tuple[str, str]:
    """What is said of a metric of that unit that got worse, and better."""
    timed = unit.endswith("/s") or unit in ("s", "ms", "us", "ns")
    return ("slower", "faster") if timed else ("worse", "better")


def middle(values: tuple[float, ...]) -> str:
    """The geometric mean of a side's figures, of which the ratio is one."""
    from statistics import geometric_mean

    return f"{geometric_mean(values):.4g}"


def term_name(term: str) -> str:
    """A term of the speed model in words."""
    return _TERM_NAMES.get(term, term)


def moving(comparison: Comparison) -> list[Share]:
    """The terms that say something: those that moved, and those that were measured."""
    return [s for s in comparison.shares if abs(s.log_change) > 1e-4 or s.before]


def part_text(share: Share) -> str:
    """A term's part of the change; empty where nothing changed."""
    # NOTE: + 0.0 makes a zero of what would be shown as -0.
    return f"{round(share.share, 2) + 0.0:.0%}" if share.share is not None else ""


def _share(share: Share) -> Line:
    name = term_name(share.term)
    figures = f"{share.before:.4g} → {share.after:.4g}" if share.before is not None and share.after is not None else ""
    part = f"{part_text(share):>7} of the change" if share.share is not None else ""
    return [(f"  {name:26}", "path"), (f"{figures:24}{part}", "")]


def markdown(comparison: Comparison) -> str:
    """The same to paste into an issue."""
    rows = []
    for judged in comparison.judged:
        outcome = judged.verdict.outcome.value.upper()
        rows.append([outcome, code(judged.metric.name), middle(judged.a), middle(judged.b), *gap_text(judged)])
    out = [f"- {obstacle}" for obstacle in comparison.obstacles]
    if rows:
        out += [
            "",
            *table(["verdict", "metric", "A", "B", "B against A", "95 %"], rows),
            "",
            comparison.judged[0].verdict.reason,
        ]
    if shares := moving(comparison):
        cells = [[term_name(s.term), f"{s.share:.0%}" if s.share is not None else ""] for s in shares]
        out += ["", *table(["term", "of the change"], cells)]
    out += [f"- {note}" for note in comparison.notes]
    return "\n".join(out) + "\n"


def as_json(comparison: Comparison) -> dict[str, Json]:
    """The comparison's JSON form."""
    return {
        "design": comparison.design.value,
        "obstacles": list(comparison.obstacles),
        "notes": list(comparison.notes),
        "metrics": [
            {
                "name": j.metric.name,
                "unit": j.metric.unit,
                "better": j.metric.better.value,
                "a": list(j.a),
                "b": list(j.b),
                "verdict": j.verdict.outcome.value,
                "suspicious": j.verdict.suspicious,
                "ratio": j.verdict.ratio,
                "low": j.verdict.low,
                "high": j.verdict.high,
                "rank_p": j.verdict.rank_p,
                "reason": j.verdict.reason,
                "notes": list(j.verdict.notes),
            }
            for j in comparison.judged
        ],
        "split": [
            {"term": s.term, "before": s.before, "after": s.after, "log_change": s.log_change, "share": s.share}
            for s in comparison.shares
        ],
    }
