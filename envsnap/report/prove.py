"""What a search came to: the verdict, each culprit's effect, what was ruled out, the trials, and both command lines."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envsnap.prove.journal import Journal
from envsnap.prove.search import Culprit, Result, Search
from envsnap.prove.switches import Commands, Manual, Switch, state
from envsnap.reading import Json
from envsnap.report.lines import Line
from envsnap.report.markdown import code, table
from envsnap.wording import plural, printable

_RULED_OUT = 0.01
"""Probability below which an experiment has ruled a suspect out."""


@dataclass(frozen=True)
class Proof:
    """All that a report tells of a search."""

    search: Search
    journal: Journal
    switches: Sequence[Switch]
    manual: Sequence[Manual]
    commands: Commands
    names: tuple[str, str]

    @property
    def result(self) -> Result:
        """How it ended; how it stands where it has not."""
        return self.search.step if isinstance(self.search.step, Result) else self.search.stopped

    def title(self, suspect: str) -> str:
        """What a suspect is called."""
        return next((s.title for s in self.switches if s.id == suspect), suspect)

    def status(self, suspect: str) -> str:
        """What became of a suspect: culprit, ruled_out, open, without_effect."""
        if any(c.suspect == suspect for c in self.result.culprits):
            return "culprit"
        if suspect in self.journal.dropped:
            return "without_effect"
        belief = self.result.belief
        confirmed = self.result.outcome in ("confirmed", "none")
        if belief is None or (belief.probability.get(suspect, 0.0) >= _RULED_OUT and not confirmed):
            return "open"
        return "ruled_out"


def headline(proof: Proof) -> str:
    """The verdict in one sentence."""
    result = proof.result
    if result.outcome == "confirmed":
        names = " and ".join(proof.title(c.suspect) for c in result.culprits)
        return f"Confirmed by experiment: {names}"
    return {
        "not_reproducible": "Not reproducible: the baseline is contaminated or the machine has changed",
        "none": f"None of these: {result.reason or 'no suspect explains the gap'}",
        "budget": f"Not settled: {result.reason or 'the budget is spent'}",
        "unsettled": f"Not settled: {result.reason}",
        "failing": f"No measurement: {result.reason}",
    }[result.outcome]


def text(proof: Proof) -> list[Line]:
    """The report for a terminal."""
    lines: list[Line] = [[(headline(proof), "title")]]
    for culprit in proof.result.culprits:
        lines.append([("  ", ""), (proof.title(culprit.suspect), "bad"), (f"  {effect_text(culprit)}", "")])
    for note in _notes(proof):
        lines.append([(f"  {note}", "")])
    for title, entries in _lists(proof):
        lines += [[], [(title, "title")], *([(f"  {entry}", "")] for entry in entries)]
    rows = list(_trials(proof))
    if rows:
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines += [[], [(f"Trials ({proof.journal.metric or 'no figure'})", "title")]]
        for row in rows:
            start = "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
            lines.append([(f"  {start}  {row[4]}", "")])
    for side, command in reproduce(proof):
        lines += [[], [(f"As the {side} side", "title")], [(f"  {command}", "")]]
    lines += [[], [(f"{plural(len(proof.journal.records), 'run')}, search {proof.journal.id}", "dim")]]
    return lines


def markdown(proof: Proof) -> str:
    """The report to paste into an issue."""
    out = [f"**{printable(headline(proof))}**", "", f"{code(proof.names[0])} against {code(proof.names[1])}", ""]
    out += [f"- {code(proof.title(c.suspect))}: {effect_text(c)}" for c in proof.result.culprits]
    out += [f"- {printable(note)}" for note in _notes(proof)]
    for title, entries in _lists(proof):
        out += ["", f"### {title}", "", *(f"- {printable(entry)}" for entry in entries)]
    if rows := list(_trials(proof)):
        heads = ["", "run", "purpose", proof.journal.metric, "as the fast side"]
        out += ["", "### Trials", "", *table(heads, [[code(cell) if cell else "" for cell in row] for row in rows])]
    for side, command in reproduce(proof):
        out += ["", f"### As the {side} side", "", "```sh", printable(command), "```"]
    return "\n".join(out) + "\n"


def as_json(proof: Proof) -> dict[str, Json]:
    """The report's JSON form."""
    result = proof.result
    odds = result.belief.probability if result.belief else proof.journal.problem.prior
    return {
        "format": "envsnap.proof",
        "version": 1,
        "id": proof.journal.id,
        "fast": proof.names[0],
        "slow": proof.names[1],
        "outcome": result.outcome,
        "reason": result.reason,
        "metric": proof.journal.metric,
        "culprits": [
            {
                "suspect": c.suspect,
                "title": proof.title(c.suspect),
                "probability": round(c.probability, 6),
                "ratio": round(math.exp(c.effect), 6),
                "low": round(math.exp(c.low), 6),
                "high": round(math.exp(c.high), 6),
                "fraction": round(c.fraction, 4),
                "only_with": c.only_with,
            }
            for c in result.culprits
        ],
        "suspects": [
            {"suspect": s.id, "title": s.title, "status": proof.status(s.id),
             "probability": round(odds.get(s.id, 0.0), 6), "reason": proof.journal.dropped.get(s.id, "")}
            for s in proof.switches
        ],
        "manual": [{"suspect": m.id, "title": m.title, "reason": m.reason, "advice": m.advice} for m in proof.manual],
        "trials": [
            {"run": r.run, "purpose": r.purpose, "suspect": r.suspect, "reverted": list(r.reverted),
             "status": r.status, "reason": r.reason, "value": r.value, "seconds": r.seconds}
            for r in proof.journal.records
        ],
        "reproduce": dict(reproduce(proof)),
    }  # fmt: skip


def effect_text(culprit: Culprit) -> str:
    """How much one culprit does, with its interval."""
    ratio, low, high = (math.exp(v) for v in (culprit.effect, culprit.low, culprit.high))
    words = f"slower by ×{ratio:.3f} (95 % ×{low:.3f} to ×{high:.3f}), {culprit.fraction:.0%} of the gap"
    return f"{words}, only together with {culprit.only_with}" if culprit.only_with else words


def reproduce(proof: Proof) -> Iterator[tuple[str, str]]:
    """Shell commands that run either side, by its name."""
    every = frozenset(s.id for s in proof.switches)
    for side, reverted in (("fast", every), ("slow", frozenset[str]())):
        yield side, command_line(proof.commands, proof.switches, reverted, proof.journal.folder / "empty")


def command_line(base: Commands, switches: Sequence[Switch], reverted: frozenset[str], empty: Path) -> str:
    """One state as a shell command; with a server, that runs in the background and the benchmark follows."""
    made = state(base, switches, reverted, empty)
    before = _environment(made.environment)
    commands = [c for c in (made.commands.server, made.commands.benchmark) if c]
    return " & ".join(f"{before}{shlex.join(command)}" for command in commands)


def _environment(changes: Mapping[str, str | None]) -> str:
    words = [w for name, value in changes.items() if value is None for w in ("-u", name)]
    words += [f"{name}={value}" for name, value in changes.items() if value is not None]
    return f"env {shlex.join(words)} " if words else ""


def progress(search: Search, journal: Journal, title: Mapping[str, str], limit: int = 3) -> str:
    """How the search stands, in one line."""
    done = len(journal.records)
    seconds = [r.seconds for r in journal.records]
    left = search.expected
    minutes = left * sum(seconds) / len(seconds) / 60 if seconds else 0.0
    about = f", about {minutes:.0f} min left" if minutes >= 1 else ""
    odds = search.belief.probability if search.belief else {}
    best = sorted(odds, key=lambda s: -odds[s])[:limit]
    believed = "  ".join(f"{odds[s]:.0%} {title.get(s, s)}" for s in best if odds[s] >= 0.005)
    if search.belief and search.belief.none >= 0.005:
        believed += f"  {search.belief.none:.0%} none of them"
    purpose = getattr(search.step, "purpose", "")
    return f"run {done + 1} of about {done + left}{about}: {purpose}{f'  [{believed.strip()}]' if believed else ''}"


def _notes(proof: Proof) -> Iterator[str]:
    found = sum(c.fraction for c in proof.result.culprits if not c.only_with)
    if proof.result.culprits and found < 0.85 and not any(c.only_with for c in proof.result.culprits):
        yield f"{max(1 - found, 0):.0%} of the gap is left unexplained, or within the noise."
    if proof.result.outcome == "failing" and proof.journal.records:
        last = proof.journal.records[-1]
        yield f"The last run said: {last.reason or last.status}. `envsnap show {last.run}` has the rest."
    if proof.result.outcome == "not_reproducible" and proof.manual:
        yield "What could not be switched stayed as it is, and may be the cause; see below."
    if unseen := sum(r.unseen for r in proof.journal.records):
        yield f"In {plural(unseen, 'run')} nobody could look whether the workers had what was set."


def _lists(proof: Proof) -> Iterator[tuple[str, list[str]]]:
    by = {s.id: proof.status(s.id) for s in proof.switches}
    odds = proof.result.belief.probability if proof.result.belief else {}
    left = [f"{odds.get(s.id, 0):.0%} {s.title}" for s in proof.switches if by[s.id] == "open"]
    if left and proof.result.outcome in ("budget", "unsettled"):
        yield "Still possible", left
    if out := [s.title for s in proof.switches if by[s.id] == "ruled_out"]:
        yield "Ruled out by experiment", out
    if lost := [f"{proof.title(s)}: {why}" for s, why in proof.journal.dropped.items()]:
        yield "Did not take effect", lost
    if proof.manual:
        advised = [f"{m.title}: {m.reason}{f'. {m.advice}' if m.advice else ''}" for m in proof.manual]
        yield "Left as it is, for a person to try", advised


def _trials(proof: Proof) -> Iterator[tuple[str, str, str, str, str]]:
    every = len(proof.switches)
    for number, record in enumerate(proof.journal.records, 1):
        names = [proof.title(s) for s in record.reverted]
        if len(names) == every:
            state_ = "all"
        elif len(names) > every / 2 and record.purpose == "sufficiency":
            others = [s.title for s in proof.switches if s.id not in record.reverted]
            state_ = f"all but {', '.join(others)}"
        else:
            state_ = ", ".join(names) or "none"
        figure = f"{record.value:.5g}" if record.value is not None else f"{record.status}: {record.reason}"[:60]
        yield str(number), record.run, record.purpose, figure, state_
