"""Suspects with their evidence, opened on demand, and what speaks about the whole: baseline, mistakes, ruled out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envsnap.explain.explanation import Evidence, Explanation, Suspect
from envsnap.explain.titles import effects_text
from envsnap.report import explain as report
from envsnap.report.page.content import Content
from envsnap.report.page.parts import bullets, code, command, fold, mark, row, section, table
from envsnap.report.page.tree import Child, Node, el
from envsnap.report.page.values import pair
from envsnap.wording import plural

_OPEN_FROM = 0.2
"""From this probability on a suspect with changes is open at first, as the first one is."""


def suspects(content: Content) -> Node | None:
    """The section about causes; None for one side."""
    if (found := content.explanation) is None:
        return None
    letters = ("a", "b") if found.fast == "a" else ("b", "a")
    body: list[Child] = [_suspect(s, found, letters, i == 0) for i, s in enumerate(found.suspects)]
    if found.contamination:
        body += [el("h3", "Baseline"), bullets(found.contamination)]
    if found.mistakes:
        body += [el("h3", "Wrong on both sides"), bullets(f"{m.title}. {m.advice}" for m in found.mistakes)]
    if found.ruled_out:
        rows = [row(r.title, r.reason) for r in found.ruled_out]
        body += [el("h3", "Ruled out"), table("What cannot be the cause", ["what", "why"], rows, "sentences")]
    return section("suspects", "Suspects", *body, note=plural(len(found.suspects), "suspect"))


def _suspect(suspect: Suspect, found: Explanation, letters: tuple[str, str], first: bool) -> Node:
    chance = suspect.probability
    bar = el(
        "svg",
        el("rect", width="100%", height=8, class_="track"),
        el("rect", width=f"{chance * 100:.1f}%", height=8, class_="chance" if suspect.changes else "chance null"),
        width="100%",
        height=8,
        aria_hidden="true",
        class_="bar",
    )
    summary = [
        el("span", report.percent(chance), class_="percent"),
        el("span", bar, class_="bar-cell"),
        el("span", suspect.title, class_="title"),
    ]
    body: list[Child] = [el("p", suspect.mechanism, class_="mechanism")]
    if suspect.effects and effects_text(suspect.effects) not in suspect.mechanism:
        body.append(el("p", f"It can act on {effects_text(suspect.effects)}.", class_="dim"))
    body += [_changes(suspect, letters), _evidence(suspect)]
    if size := report.size_text(suspect, found):
        body.append(el("p", size))
    if suspect.ties_with:
        names = {s.id: s.title for s in found.suspects}
        body.append(el("p", f"As likely: {', '.join(names.get(i, i) for i in suspect.ties_with)}."))
    body += [command(arguments) for arguments in suspect.next]
    open_ = first or bool(suspect.changes and chance >= _OPEN_FROM)
    return fold(summary, *body, open_=open_, class_="suspect" if suspect.changes else "suspect null")


def _changes(suspect: Suspect, letters: tuple[str, str]) -> Node | None:
    groups, _ = report.shown_changes(suspect, everything=True)
    if not groups:
        return None
    fast, slow = letters
    headings: list[Child] = ["changed", [mark(fast), " fast"], [mark(slow), " slow"]]
    rows = [row(code(g.title, "path"), *pair(g.first, letters)) for g in groups]
    return table(f"Changes of {suspect.title}", headings, rows, "pairs")


def _evidence(suspect: Suspect) -> Node | None:
    pieces: Sequence[Evidence] = (*suspect.evidence_for, *suspect.evidence_against)
    if not pieces:
        return None
    largest = max(abs(e.weight) for e in pieces) or 1.0
    return el(
        "table",
        el("caption", "Evidence, with its weight in log odds"),
        el("tbody", *(_piece(e, largest) for e in pieces)),
        class_="evidence",
    )


def _piece(piece: Evidence, largest: float) -> Node:
    class_ = "dim" if piece.weight == 0 else "good" if piece.weight > 0 else "bad"
    share = abs(piece.weight) / largest * 50
    start = 50.0 if piece.weight >= 0 else 50 - share
    bar = el(
        "svg",
        el("rect", x="50%", width=1, height=10, class_="track"),
        el("rect", x=f"{start:.1f}%", width=f"{share:.1f}%", height=10, class_=f"weight {class_}"),
        width="100%",
        height=10,
        aria_hidden="true",
    )
    return el(
        "tr",
        el("td", f"{piece.weight:+.2f}".replace("-", "−"), class_=f"figure {class_}"),
        el("td", bar, class_="picture"),
        el("td", piece.text, _paths(piece.paths)),
    )


def _paths(paths: Iterable[str]) -> Node | None:
    shown = list(paths)[:_PATHS]
    return el("span", ", ".join(shown), class_="paths") if shown else None


_PATHS = 3
