"""An explanation as text and markdown: verdict and split first, then suspects, then what was ruled out or not known."""

from __future__ import annotations

import math
import re
import shlex
import textwrap
from collections.abc import Sequence

from envsnap.explain.explanation import Evidence, Explanation, Mistake, RuledOut, Suspect
from envsnap.explain.symptom import FLAT
from envsnap.explain.titles import effects_text, revision_text
from envsnap.explain.weights import WEIGHTS
from envsnap.fold import Group, grouped
from envsnap.keys import Type
from envsnap.report import runs as runs_report
from envsnap.report.diff import gap_rows
from envsnap.report.lines import Line, cut
from envsnap.report.markdown import code, table
from envsnap.runs.compare import Comparison
from envsnap.wording import clip, pair_text, printable, shorten

SHOWN = 5
_FROM = 0.03
_CHANGES = 3
_EVIDENCE = 4
_LINES = 3
_NOTABLE = 0.5
_RULED_OUT = 12
_GAPS = 5
_BAR = 10
_LEADING = 0.5
_STANDING_OUT = 0.3
_MUCH = 2
"""Times the slowdown, as logarithms, beyond which a bound bounds nothing."""
_INDENT = " " * 8


def text(explanation: Explanation, names: tuple[str, str], width: int, everything: bool = False) -> list[Line]:
    """The explanation for people, cut to a screen unless `everything`."""
    wide = 1 << 20 if everything else width
    lines: list[Line] = []
    if explanation.comparison:
        lines += runs_report.text(explanation.comparison)
    if explanation.control:
        lines += [
            [],
            [("control pair", "title"), (": what explains the gap has to fit this one too", "dim")],
            *runs_report.text(explanation.control)[:2],
        ]
    if lines:
        lines.append([])
    fast, slow = names if explanation.fast == "a" else names[::-1]
    lines += [
        [(f"fast: {fast}   slow: {slow}{_slowdown_text(explanation)}", "dim")],
        *_wrapped(headline(explanation), [], wide, "title"),
    ]
    lines += [[(clip(f"! {note}", wide), "warn")] for note in explanation.notes]
    chosen = _chosen(explanation.suspects, everything)
    for suspect in chosen:
        lines += _suspect(suspect, explanation, wide, everything)
    lines += filter(None, [cut(len(explanation.suspects), len(chosen))])
    lines += _block("baseline", explanation.contamination, wide)
    lines += _mistakes(explanation.mistakes, wide)
    lines += _ruled_out(explanation.ruled_out, wide, everything)
    lines += _gaps(explanation, wide, everything)
    return lines


def _slowdown_text(explanation: Explanation) -> str:
    """The slowdown that is to be explained, and once in words what such a figure means."""
    slowdown = explanation.symptom.slowdown
    if slowdown is None or slowdown < FLAT:
        return ""
    return f"   ×{math.exp(slowdown):.2f}: what took 1 s takes {math.exp(slowdown):.2f} s"


def top(explanation: Explanation, width: int, count: int = 3) -> list[Line]:
    """The first suspects in a line each, to end a diff with."""
    lines: list[Line] = [[("suspects", "title"), (f"  {headline(explanation)}", "dim")]]
    lines += [_heading(suspect, width) for suspect in explanation.suspects[:count]]
    return lines


def top_markdown(explanation: Explanation, count: int = 3) -> str:
    """The same to paste into an issue."""
    rows = [[percent(s.probability), _plain(s.title)] for s in explanation.suspects[:count]]
    return "\n".join(["", *table(["", "suspect"], rows)]) + "\n"


def percent(probability: float) -> str:
    """A probability for people: nothing is certain, and nothing that is listed impossible."""
    return ">99%" if probability > 0.99 else "<1%" if probability < 0.01 else f"{probability:.0%}"


def headline(explanation: Explanation) -> str:
    """What it comes to, in a sentence."""
    first = explanation.suspects[0]
    chance = percent(first.probability)
    if explanation.unrecorded and not first.changes:
        return (
            "The baseline is not trustworthy: nothing is known of the state behind the fast figures. No change can be "
            "blamed before they come back."
        )
    if not first.changes:
        if first.probability >= _LEADING:
            return f"No change explains it: likeliest is {first.title} ({chance})."
        return f"No cause stands out: {first.title} comes first ({chance})."
    equal = [s for s in explanation.suspects if s.id in first.ties_with]
    if equal:
        others = " and ".join(s.title for s in equal[:2])
        return f"Equal suspects: {first.title} and {others} ({chance} each); nothing known separates them."
    rest = [s.probability * (2 if s.changes else 1.5) for s in explanation.suspects[1:]]
    if first.probability >= min(_LEADING, max(_STANDING_OUT, *rest)):
        return f"Likeliest cause: {first.title} ({chance})."
    return f"No cause stands out: {first.title} comes first ({chance})."


def _chosen(suspects: Sequence[Suspect], everything: bool) -> list[Suspect]:
    """The likeliest suspects, and the hypotheses without changes wherever they stand."""
    if everything:
        return list(suspects)
    likely = [s for s in suspects if s.changes and s.probability >= _FROM][:SHOWN]
    return [s for s in suspects if not s.changes or s in likely]


def _heading(suspect: Suspect, width: int) -> Line:
    filled = round(suspect.probability * _BAR)
    bar = "█" * filled + "·" * (_BAR - filled)
    style = "title" if suspect.changes else "dim"
    room = max(20, width - _BAR - 12)
    return [(f"{percent(suspect.probability):>5} ", "title"), (bar, "bad" if suspect.changes else "dim"),
            (f"  {shorten(printable(suspect.title), room)}", style)]  # fmt: skip


def _suspect(suspect: Suspect, explanation: Explanation, width: int, everything: bool) -> list[Line]:
    first = suspect is explanation.suspects[0]
    said = [e for e in (*suspect.evidence_for, *suspect.evidence_against) if everything or first or _telling(e)]
    lines: list[Line] = [[], _heading(suspect, width), *_changes(suspect, width, everything)]
    if everything:
        lines.append([(_INDENT + suspect.mechanism, "dim")])
    elif suspect.effects and not said:
        lines.append([(clip(f"{_INDENT}it can act on {effects_text(suspect.effects)}", width), "dim")])
    for piece in said if everything else said[:_EVIDENCE]:
        sign, style = ("·", "dim") if piece.weight == 0 else ("+", "good") if piece.weight > 0 else ("−", "bad")
        words = f"{piece.text} ({piece.weight:+.2f})" if everything else piece.text
        lines += _wrapped(words, [(f"{_INDENT}{sign} ", style)], width)
    if size := size_text(suspect, explanation):
        lines.append([(_INDENT + size, "dim")])
    if suspect.ties_with and everything:
        lines.append([(f"{_INDENT}as likely: {', '.join(suspect.ties_with)}", "dim")])
    if suspect.next and suspect.probability >= _FROM:
        lines.append([(f"{_INDENT}next: {shlex.join(suspect.next[0])}", "path")])
    return lines


def _wrapped(sentence: str, start: Line, width: int, style: str = "") -> list[Line]:
    """A sentence behind the start of its first line, in as many lines as it takes up to a few."""
    room = sum(len(words) for words, _ in start)
    indent = room if room > 2 or not room else 4
    lines = textwrap.wrap(printable(sentence), max(20, width - indent), max_lines=_LINES, placeholder=" …") or [""]
    return [[*start, (lines[0], style)], *([(" " * indent + line, style)] for line in lines[1:])]


def _telling(piece: Evidence) -> bool:
    """Whether a piece of evidence sets a suspect apart from most others."""
    return piece.weight == 0 or abs(piece.weight) >= _NOTABLE


def _changes(suspect: Suspect, width: int, everything: bool) -> list[Line]:
    groups, lines = shown_changes(suspect, everything)
    rows = groups if everything else groups[:_CHANGES]
    found: list[Line] = [[(clip(_INDENT + words, width), "")] for words in lines]
    found += [_change(group, _INDENT, width) for group in rows]
    more = cut(len(groups), len(rows))
    return [*found, [(" " * 6, ""), *more]] if more else found


def shown_changes(suspect: Suspect, everything: bool) -> tuple[list[Group], list[str]]:
    """A suspect's changes as rows, and before them lines that stand for some: of a repository its commits."""
    groups = grouped(suspect.changes)
    words = revision_text(suspect.changes) if suspect.id.startswith("git:") else []
    # NOTE: what the workers have says more than what the shell had.
    groups.sort(key=lambda g: g.first.path.startswith("env["))
    return ([], words) if words and not everything else (groups, [])


def _change(group: Group, indent: str, width: int) -> Line:
    change = group.first
    title = shorten(printable(group.title), max(30, width // 2))
    if change.key.type is Type.TEXT:
        return [(f"{indent}{title}  ", "path"), ("changed", "")]
    before, after = pair_text(change.key, change.before, change.after, max(20, width - len(title) - len(indent) - 6))
    return [(f"{indent}{title}  ", "path"), (before, "good"), (" → ", "dim"), (after, "bad")]


def size_text(suspect: Suspect, explanation: Explanation) -> str:
    """How large it can be against what is to be explained; empty where that says little: its evidence says that it is
    too small, or it can be much larger.
    """
    slowdown = explanation.symptom.slowdown
    if suspect.largest_ratio is None or slowdown is None or slowdown <= 0:
        return ""
    too_small = math.log(suspect.unexplained or 1.0) > WEIGHTS.bounds.within * slowdown
    if too_small or math.log(suspect.largest_ratio) > _MUCH * slowdown:
        return ""
    return f"It can make up to ×{suspect.largest_ratio:.2f}; the slowdown is ×{math.exp(slowdown):.2f}."


def _block(title: str, sentences: Sequence[str], width: int) -> list[Line]:
    lines: list[Line] = [[], [(title, "title")]] if sentences else []
    return lines + [line for sentence in sentences for line in _wrapped(sentence, [("  ", "")], width)]


def _mistakes(mistakes: Sequence[Mistake], width: int) -> list[Line]:
    return _block("wrong on both sides", [f"{m.title}. {m.advice}" for m in mistakes], width)


def _ruled_out(ruled_out: Sequence[RuledOut], width: int, everything: bool) -> list[Line]:
    shown = ruled_out if everything else ruled_out[:_RULED_OUT]
    lines: list[Line] = [[], [("ruled out", "title")]] if shown else []
    for each in shown:
        title = shorten(printable(each.title), width // 2)
        first, *rest = _wrapped(f"{title}: {each.reason}", [("  ", "")], width)
        lines += [[("  ", ""), (first[1][0][: len(title)], "path"), (first[1][0][len(title) :], "")], *rest]
    return [*lines, *filter(None, [cut(len(ruled_out), len(shown))])]


def _gaps(explanation: Explanation, width: int, everything: bool) -> list[Line]:
    rows = gap_rows(explanation.not_comparable)
    shown = rows if everything else rows[:_GAPS]
    lines = _block("not comparable", [f"{title}  {words}" for title, words in shown], width)
    return [*lines, *filter(None, [cut(len(rows), len(shown))])]


def markdown(explanation: Explanation, names: tuple[str, str], everything: bool = False) -> str:
    """The explanation to paste into an issue or a chat."""
    out = [f"**{headline(explanation)}**", "", f"{code(names[0])} against {code(names[1])}"]
    out += _compared(explanation.comparison, "") + _compared(explanation.control, "Control pair")
    out += [f"- {printable(note)}" for note in explanation.notes]
    for suspect in _chosen(explanation.suspects, everything):
        out += ["", f"### {percent(suspect.probability)} {_plain(suspect.title)}"]
        rows = []
        groups, words = shown_changes(suspect, everything)
        out += ["", *words] if words else []
        for group in groups if everything else groups[:_CHANGES]:
            change = group.first
            pair = ("", "changed") if change.key.type is Type.TEXT else pair_text(
                change.key, change.before, change.after, 100)  # fmt: skip
            rows.append([code(group.title), code(pair[0]), code(pair[1])])
        if rows:
            out += ["", *table(["", "fast", "slow"], rows), ""]
        out += [f"- for: {_plain(e.text)}" for e in suspect.evidence_for]
        out += [f"- against: {_plain(e.text)}" for e in suspect.evidence_against]
        if size := size_text(suspect, explanation):
            out.append(f"- {size}")
        out += [f"- next: {code(shlex.join(command))}" for command in suspect.next[:1]]
    for title, sentences in (
        ("Baseline", explanation.contamination),
        ("Wrong on both sides", [f"{m.title}. {m.advice}" for m in explanation.mistakes]),
        ("Ruled out", [f"{r.title}: {r.reason}" for r in explanation.ruled_out]),
        ("Not comparable", [f"{name}: {words}" for name, words in gap_rows(explanation.not_comparable)]),
    ):
        if sentences:
            out += ["", f"### {title}", "", *(f"- {_plain(sentence)}" for sentence in sentences)]
    return "\n".join(out) + "\n"


def _compared(comparison: Comparison | None, title: str) -> list[str]:
    if comparison is None:
        return []
    return ["", *([f"{title}:", ""] if title else []), runs_report.markdown(comparison).strip("\n"), ""]


def _plain(sentence: str) -> str:
    """Foreign text in a sentence, so that it opens no markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", printable(sentence))
