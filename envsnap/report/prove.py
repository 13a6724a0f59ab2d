"""What a search came to: the verdict, each culprit's effect, what was ruled out, the trials, and both command lines."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envsnap.prove.journal import Journal, Record
from envsnap.prove.levels import Level
from envsnap.prove.search import OTHERS, Culprit, Result, Search
from envsnap.prove.switches import Commands, Manual, Switch, state
from envsnap.prove.trials import Found
from envsnap.report.lines import Line
from envsnap.report.markdown import code, table
from envsnap.wording import plural, printable

_SHOWN = 3
"""Names in a list of parts."""
_RULED_OUT = 0.01
"""Probability below which an experiment has ruled a suspect out."""


@dataclass(frozen=True)
class Proof:
    """All that a report tells of a search. `found` are its levels, the top one first."""

    found: Sequence[Found]
    journal: Journal
    switches: Sequence[Switch]
    manual: Sequence[Manual]
    commands: Commands
    names: tuple[str, str]

    @property
    def result(self) -> Result:
        """How the search among all suspects ended; how it stands where it has not."""
        return self.found[0].result

    def title(self, name: str) -> str:
        """What a suspect or a part is called."""
        return next((f.level.titles[name] for f in self.found if name in f.level.titles), name)

    def below(self, culprit: str) -> Found | None:
        """The search among the parts of a culprit, where there was one."""
        return next((f for f in self.found[1:] if f.level.owner == culprit), None)

    def status(self, suspect: str) -> str:
        """What became of a suspect: culprit, ruled_out, open, without_effect."""
        return "without_effect" if suspect in self.journal.dropped else status_in(self.found[0], suspect)


def status_in(found: Found, name: str) -> str:
    """What became of a suspect or a part of one level: culprit, ruled_out, open."""
    result = found.result
    if any(c.suspect == name for c in result.culprits):
        return "culprit"
    over = result.outcome in ("confirmed", "none")
    unsettled = result.belief is None or (result.belief.probability.get(name, 0.0) >= _RULED_OUT and not over)
    return "open" if unsettled or name in result.beside else "ruled_out"


def headline(proof: Proof) -> str:
    """The verdict in one sentence."""
    result = proof.result
    if result.outcome == "confirmed":
        return f"Confirmed by experiment: {' and '.join(_named(proof, c.suspect) for c in result.culprits)}"
    return {
        "not_reproducible": "Not reproducible: the baseline is contaminated or the machine has changed",
        "none": f"None of these: {result.reason or 'no suspect explains the gap'}",
        "budget": f"Not settled: {result.reason or 'the budget is spent'}",
        "unsettled": f"Not settled: {result.reason}",
        "failing": f"No measurement: {result.reason}",
    }[result.outcome]


def _named(proof: Proof, name: str) -> str:
    """A culprit with what of it is the cause, as far as that is known."""
    under = proof.below(name)
    parts = [_named(proof, c.suspect) for c in under.result.culprits] if under else []
    return f"{proof.title(name)}{f': {chr(32).join(parts)}' if len(parts) == 1 else ''}" + (
        f" ({' and '.join(parts)})" if len(parts) > 1 else ""
    )


def culprit_lines(proof: Proof, found: Found, depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """Each culprit with its effect, and below it what of it is the cause: depth, title, effect."""
    for culprit in found.result.culprits:
        yield depth, proof.title(culprit.suspect), effect_text(culprit, proof.title(culprit.only_with))
        under = proof.below(culprit.suspect)
        if under and under.result.culprits:
            yield from culprit_lines(proof, under, depth + 1)
        elif under:
            yield depth + 1, "which part of it", f"is not settled: {_why(under.result)}"


def _why(result: Result) -> str:
    return result.reason or {"budget": "the budget is spent"}.get(result.outcome, "no part alone makes the difference")


def text(proof: Proof) -> list[Line]:
    """The report for a terminal."""
    lines: list[Line] = [[(headline(proof), "title")]]
    for depth, title, effect in culprit_lines(proof, proof.found[0]):
        lines.append([("  " * (depth + 1), ""), (title, "bad"), (f"  {effect}", "")])
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
    lines += [[], [(f"{plural(proof.journal.runs, 'run')}, search {proof.journal.id}", "dim")]]
    return lines


def markdown(proof: Proof) -> str:
    """The report to paste into an issue."""
    out = [f"**{printable(headline(proof))}**", "", f"{code(proof.names[0])} against {code(proof.names[1])}", ""]
    out += [f"{'  ' * depth}- {code(title)}: {effect}" for depth, title, effect in culprit_lines(proof, proof.found[0])]
    out += [f"- {printable(note)}" for note in _notes(proof)]
    for title, entries in _lists(proof):
        out += ["", f"### {title}", "", *(f"- {printable(entry)}" for entry in entries)]
    if rows := list(_trials(proof)):
        heads = ["", "run", "purpose", proof.journal.metric, "as the fast side"]
        out += ["", "### Trials", "", *table(heads, [[code(cell) if cell else "" for cell in row] for row in rows])]
    for side, command in reproduce(proof):
        out += ["", f"### As the {side} side", "", "```sh", printable(command), "```"]
    return "\n".join(out) + "\n"


def effect_text(culprit: Culprit, partner: str) -> str:
    """How much one culprit does, with its interval; `partner` is the title of what it acts only together with."""
    ratio, low, high = (math.exp(v) for v in (culprit.effect, culprit.low, culprit.high))
    words = f"slower by ×{ratio:.3f} (95 % ×{low:.3f} to ×{high:.3f}), {culprit.fraction:.0%} of the gap"
    if culprit.only_with == OTHERS:
        return f"{words}, only together with something that was not found"
    return f"{words}, only together with {partner}" if culprit.only_with else words


def beside_text(title: str, part: float) -> str:
    """Of a suspect that is no culprit: what reverting it alone did."""
    return f"{title}: reverted alone, {part:.0%} of the gap was gone"


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


def progress(search: Search, journal: Journal, level: Level, limit: int = 3) -> str:
    """How the search stands, in one line."""
    done = journal.runs
    seconds = [r.seconds for r in journal.records if r.run]
    left = search.expected
    minutes = left * sum(seconds) / len(seconds) / 60 if seconds else 0.0
    about = f", about {minutes:.0f} min left" if minutes >= 1 else ""
    odds = search.belief.probability if search.belief else {}
    best = sorted(odds, key=lambda s: -odds[s])[:limit]
    believed = "  ".join(f"{odds[s]:.0%} {level.titles.get(s, s)}" for s in best if odds[s] >= 0.005)
    if search.belief and search.belief.none >= 0.005:
        believed += f"  {search.belief.none:.0%} none of them"
    what = f"{getattr(search.step, 'purpose', '')}{' among its parts' if level.owner else ''}"
    return f"run {done + 1} of about {done + left}{about}: {what}{f'  [{believed.strip()}]' if believed else ''}"


def _notes(proof: Proof) -> Iterator[str]:
    found = sum(c.fraction for c in proof.result.culprits if not c.only_with)
    if proof.result.culprits and found < 0.85 and not any(c.only_with for c in proof.result.culprits):
        yield f"{max(1 - found, 0):.0%} of the gap is left unexplained, or within the noise."
    if proof.result.outcome == "failing" and proof.journal.records:
        last = proof.journal.records[-1]
        yield f"The last run said: {last.reason or last.status}. `envsnap show {last.run}` has the rest."
    if proof.result.outcome == "not_reproducible" and proof.manual:
        yield "What could not be switched stayed as it is, and may be the cause; see below."
    if proof.result.outcome in ("budget", "unsettled") or any(f.result.outcome == "budget" for f in proof.found):
        yield f"Go on with `envsnap prove --continue {proof.journal.id} --budget RUNS`."
    if unseen := sum(r.unseen for r in proof.journal.records if r.run):
        yield f"In {plural(unseen, 'run')} nobody could look whether the workers had what was set."
    yield from proof.journal.notes


def _lists(proof: Proof) -> Iterator[tuple[str, list[str]]]:
    by = {s.id: proof.status(s.id) for s in proof.switches}
    odds = proof.result.belief.probability if proof.result.belief else proof.journal.problem.prior
    left = [f"{odds.get(s.id, 0):.0%} {s.title}" for s in proof.switches if by[s.id] == "open"]
    if left and proof.result.outcome in ("budget", "unsettled"):
        yield "Still possible", left
    if beside := [beside_text(proof.title(s), part) for s, part in proof.result.beside.items()]:
        yield "Open: may add to what was found", beside
    out = [s.title for s in proof.switches if by[s.id] == "ruled_out"]
    for under in proof.found[1:]:
        names = [t for n, t in under.level.titles.items() if status_in(under, n) == "ruled_out"]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        out += [f"of {proof.title(under.level.owner)}: {', '.join(names[:_SHOWN])}{more}"] if names else []
    if out:
        yield "Ruled out by experiment", out
    if lost := [f"{proof.title(s)}: {why}" for s, why in proof.journal.dropped.items()]:
        yield "Did not take effect", lost
    if proof.manual:
        advised = [f"{m.title}: {m.reason}{f'. {m.advice}' if m.advice else ''}" for m in proof.manual]
        yield "Left as it is, for a person to try", advised


def _trials(proof: Proof) -> Iterator[tuple[str, str, str, str, str]]:
    levels = {f.level.owner: f.level for f in proof.found}
    number = 0
    for record in proof.journal.records:
        number += bool(record.run)
        level = levels.get(record.within)
        figure = f"{record.value:.5g}" if record.value is not None else f"{record.status}: {record.reason}"[:60]
        state_ = _state(record, level.titles) if level else ""
        within = f"of {proof.title(record.within)}: " if record.within else ""
        yield str(number) if record.run else "", record.run, record.purpose, figure, within + state_


def _state(record: Record, titles: Mapping[str, str]) -> str:
    """What was as the fast side had it in a trial, in words."""
    reverted = [titles.get(s, s) for s in record.reverted]
    others = [title for name, title in titles.items() if name not in record.reverted]
    if not others:
        return "all"
    if len(others) < len(reverted) and (len(others) <= _SHOWN or record.purpose == "sufficiency"):
        return f"all but {', '.join(others)}"
    return ", ".join(reverted) or "none"
