"""The board as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean

from envsnap.reading import Json
from tests.benchmarks.attribution import score
from tests.benchmarks.attribution.cases import CULPRIT, NONE, OPEN
from tests.benchmarks.attribution.score import Draws, Judged

Board = Mapping[str, Draws]
"""The judged draws of each case."""

TARGETS = "targets: rank 1 ≥ 80 %, top 3 ≥ 95 %, no culprit answered so ≥ 95 %"


def of_group(board: Board, group: str) -> list[Draws]:
    """The cases of one group."""
    return [draws for draws in board.values() if draws[0].group == group]


def lines(title: str, board: Board, cases: bool = True) -> Iterator[str]:
    """A board as text."""
    culprit, none = of_group(board, CULPRIT), of_group(board, NONE)
    yield f"== {title}: {len(culprit)} cases with a culprit, {len(none)} without"
    yield from _figures(culprit, none)
    yield ""
    if culprit:
        yield from _categories(culprit)
        yield ""
    yield from _calibration(board)
    if cases:
        yield ""
        yield from _cases(board)


def _figures(culprit: Sequence[Draws], none: Sequence[Draws]) -> Iterator[str]:
    if culprit:
        yield f"  rank 1              {score.estimate(culprit, score.among(1))}"
        yield f"  top 3               {score.estimate(culprit, score.among(3))}"
        yield f"  rank 1 of changes   {score.estimate(culprit, score.among(1, bare=True))}   without the two hypotheses"
        yield f"  top 3 of changes    {score.estimate(culprit, score.among(3, bare=True))}"
        ranks = score.estimate(culprit, score.mean_rank)
        yield f"  mean rank           {ranks.value:6.2f} ({ranks.low:.1f}–{ranks.high:.1f})"
        yield f"  surprise            {score.surprise(culprit):6.2f} bits"
        wrong = fmean(not d.direction for draws in culprit for d in draws)
        yield f"  slow side mistaken  {wrong:6.1%}"
        yield f"  innocent deeds in the culprit's suspect  {fmean(d.bundled for draws in culprit for d in draws):.2f}"
    if none:
        yield f"  no culprit answered so {score.estimate(none, score.answered_none)}"


def _categories(culprit: Sequence[Draws]) -> Iterator[str]:
    yield "  category             cases  rank 1   top 3  mean rank"
    for category in sorted({draws[0].category for draws in culprit}):
        held = [draws for draws in culprit if draws[0].category == category]
        one, three = (fmean(score.among(k)(draws) for draws in held) for k in (1, 3))
        rank = fmean(score.mean_rank(draws) for draws in held)
        yield f"  {category:20} {len(held):5}  {one:6.0%}  {three:6.0%}  {rank:9.1f}"


def _calibration(board: Board) -> Iterator[str]:
    yield "  stated probability   statements  mean stated  right"
    scored = [draws for draws in board.values() if draws[0].group != OPEN]
    for each in score.calibration(scored):
        yield f"  {each.low:8.2f}–{each.high:.2f} {each.count:16}  {each.stated:11.1%} {each.right}"


def _cases(board: Board) -> Iterator[str]:
    yield "  case                         group    rank 1  top 3  mean rank  probability  leads in most draws"
    for name, draws in board.items():
        if draws[0].group == CULPRIT:
            figures = f"{score.among(1)(draws):6.0%} {score.among(3)(draws):6.0%} {score.mean_rank(draws):10.1f}"
            stated = fmean(d.probability for d in draws)
        else:
            figures = f"{score.answered_none(draws):6.0%} {'':17}"
            stated = fmean(d.hypotheses for d in draws)
        leads = score.most_common([d.leading for d in draws])
        yield f"  {name:28} {draws[0].group:8}{figures} {stated:12.2f}  {leads}{_note(draws)}"


def _note(draws: Draws) -> str:
    if draws[0].group != CULPRIT:
        return ""
    if reason := next((d.ruled_out for d in draws if d.ruled_out), ""):
        return f"   ruled out: {reason}"
    missing = fmean(d.better is None for d in draws)
    return f"   in no suspect: {missing:.0%}" if missing else ""


def as_json(boards: Mapping[str, Board]) -> Json:
    """All boards: figures, calibration and every draw."""
    return {title: _board_json(board) for title, board in boards.items()}


def _board_json(board: Board) -> Json:
    culprit, none = of_group(board, CULPRIT), of_group(board, NONE)
    figures: dict[str, Json] = {}
    if culprit:
        figures["rank_1"] = asdict(score.estimate(culprit, score.among(1)))
        figures["top_3"] = asdict(score.estimate(culprit, score.among(3)))
        figures["mean_rank"] = asdict(score.estimate(culprit, score.mean_rank))
        figures["surprise_bits"] = score.surprise(culprit)
    if none:
        figures["no_culprit"] = asdict(score.estimate(none, score.answered_none))
    scored = [draws for draws in board.values() if draws[0].group != OPEN]
    return {
        "figures": figures,
        "calibration": [asdict(b) for b in score.calibration(scored)],
        "cases": {name: [_judged_json(d) for d in draws] for name, draws in board.items()},
    }


def _judged_json(judged: Judged) -> Json:
    return {k: v for k, v in asdict(judged).items() if k not in ("pairs", "evidence")}
