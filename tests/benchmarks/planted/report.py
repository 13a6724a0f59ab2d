"""The board as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from envsnap.reading import Json
from envsnap.runs.verdict import Outcome
from tests.benchmarks.planted.judge import METRIC, Drawn, Row
from tests.engine.plants import CPU, PLANTS, Plant

NOT_RUN = "not run"
FORMAT = "envsnap.planted"


@dataclass(frozen=True)
class Search:
    """What `envsnap prove` made of a plant: its outcome, in how many runs, and whether that is right."""

    outcome: str
    culprits: Sequence[str]
    runs: int
    right: bool
    note: str = ""
    measured: str = ""
    """Day and commit."""


@dataclass(frozen=True)
class Board:
    """One machine's board. `about` says of machine, day, commit and design of the newest part of it."""

    bench: str
    about: Mapping[str, Json]
    rows: Sequence[Row]
    searches: Mapping[str, Search] = field(default_factory=dict)

    def row(self, plant: str) -> Row | None:
        """The row of a plant, if it was run."""
        return next((r for r in self.rows if r.plant == plant), None)


def joined(board: Board, kept: Json) -> Board:
    """A board with what an earlier one (its JSON form) has and it has not, since a machine is held for minutes.

    Each row and search says when it was measured; what is said of the whole is kept where nothing was found this time.
    """
    earlier = cast(Mapping[str, Any], kept)
    about = {**earlier["about"], **{name: value for name, value in board.about.items() if value}}
    moment = f"{board.about['date']} {board.about['commit']}"
    rows = [replace(r, measured=moment) for r in board.rows]
    found = {name: replace(s, measured=moment) for name, s in board.searches.items()}
    for name, entry in earlier["plants"].items():
        if board.row(name) is None and isinstance(row := entry.get("board"), dict):
            rows.append(Row(**{**row, "draws": tuple(Drawn(**d) for d in row["draws"])}))
        if isinstance(search := entry.get("prove"), dict):
            found.setdefault(name, Search(**search))
    return Board(board.bench, about, rows, found)


def lines(board: Board) -> Iterator[str]:
    """The board as text, a plant a line."""
    for name, value in board.about.items():
        yield f"{name}: {value}"
    yield ""
    yield (f"{'plant':18} {'n':>2}  {'planted / usual, 95 %':24} {'verdict':9} {'right':5} {'diff':4} "
           f"{'answer':6} {'top 3':5} {'place':5} {'prob.':6} prove")  # fmt: skip
    for plant in PLANTS:
        yield _line(board, plant)
    yield ""
    yield from _sums(board)


def _line(board: Board, plant: Plant) -> str:
    row = board.row(plant.id)
    if board.bench not in plant.levers:
        return f"{plant.id:18} not on this bench: {plant.absent}"
    found = board.searches.get(plant.id)
    if row is None:
        return f"{plant.id:18} {NOT_RUN}{f'; prove: {_search(found)}' if found else ''}"
    interval = f"×{row.ratio:.3f} ({_edge(row.low)} to {_edge(row.high)})"
    shown = "–" if row.shown is None else _yes(row.shown)
    place = "–" if row.position is None else f"{row.position:g}"
    judged = f"{row.answered:6.0%} {row.first_three:5.0%} {place:>5} {row.probability:6.2f} {_search(found)}"
    beside = "" if row.cause else "".join(f"; {n} {v}" for n, v in row.others.items() if v.endswith(_DIFFERENT))
    return f"{plant.id:18} {row.n:2}  {interval:24} {row.verdict:9} {_yes(row.right):5} {shown:4} {judged}{beside}"


_DIFFERENT = Outcome.DIFFERENT.value


def _edge(value: float | None) -> str:
    return "?" if value is None else f"{value:.3f}"


def _yes(value: bool) -> str:
    return "yes" if value else "NO"


def _search(search: Search | None) -> str:
    if search is None:
        return NOT_RUN
    wrong, note = "" if search.right else ", WRONG", f" ({search.note})" if search.note else ""
    return f"{search.outcome} in {search.runs} runs{wrong}{note}"


def _sums(board: Board) -> Iterator[str]:
    causes = [r for r in board.rows if r.cause]
    others = [r for r in board.rows if not r.cause]
    idle = [r for r in board.rows if next(p for p in PLANTS if p.id == r.plant).idle]
    yield f"{METRIC}; each plant's pairs against the usual state of the same blocks"
    if causes:
        held = [r.shown for r in causes if r.shown is not None]
        yield (f"shown effect: {len(causes)} plants; diff shows {sum(held)} of {len(held)}; "
               f"likeliest suspect right {_mean([r.answered for r in causes])}, "
               f"among the first three {_mean([r.first_three for r in causes])}")  # fmt: skip
    if others:
        yield f"no effect shown: {len(others)} plants; answered *none of these* {_mean([r.answered for r in others])}"
    yield f"can do nothing by construction: {len(idle)}; called DIFFERENT: {sum(r.cause for r in idle)}"
    run = [r for r in board.rows if r.draws]
    if run:
        least = min(d.innocent for r in run for d in r.draws)
        yield f"innocent changes laid over each: {least} or more, {len(run[0].draws)} draws"
    right = [s for s in board.searches.values() if s.right]
    yield f"searches: {len(board.searches)}, right in {len(right)}" if board.searches else f"searches: {NOT_RUN}"


def _mean(shares: Sequence[float]) -> str:
    return f"{sum(shares) / len(shares):.0%}"


def _acceptance(bench: str, plant: Plant) -> str:
    """Whose doing acceptance is, since simulated acceptance hides what changes the real one."""
    return "none: plain decoding" if bench == CPU else "simulated" if plant.simulated else "by merit"


def as_json(board: Board) -> Json:
    """The board's JSON form: every plant of the table, run or not."""
    found: dict[str, Json] = {}
    for plant in PLANTS:
        row, search = board.row(plant.id), board.searches.get(plant.id)
        if board.bench not in plant.levers:
            found[plant.id] = {"title": plant.title, "status": "not on this bench", "reason": plant.absent}
            continue
        found[plant.id] = {
            "title": plant.title,
            "ranks": plant.ranks,
            "acceptance": _acceptance(board.bench, plant),
            "status": "run" if row else NOT_RUN,
            "board": row.as_json() if row else NOT_RUN,
            "prove": vars(search) if search else NOT_RUN,
        }
    return {"format": FORMAT, "version": 1, "bench": board.bench, "about": dict(board.about), "metric": METRIC,
            "plants": found}  # fmt: skip
