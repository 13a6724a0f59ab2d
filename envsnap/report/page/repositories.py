"""Code: which of what differs in a repository ran in the workers, hunk by hunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envsnap.explain.code import hunks as patches
from envsnap.explain.code.hunks import Hunk
from envsnap.explain.code.shown import Difference, differences
from envsnap.explain.explanation import Side
from envsnap.explain.reach import CommitReach, FileReach, Judged, RepositoryReach, Verdict, repositories
from envsnap.explain.story import Facts
from envsnap.host import Host
from envsnap.keys import instances_of
from envsnap.report.page.content import Content
from envsnap.report.page.parts import bullets, code, fold, row, section, table
from envsnap.report.page.tree import Child, Node, el
from envsnap.wording import plural

_MAX_LINES = 4000
"""Lines of hunks that the page holds of one repository, those of files that may be a cause first."""


def code_section(content: Content, host: Host | None) -> Node | None:
    """The section about repositories that differ, or that one side had changed; None where there is none.

    `host` is where the repositories may be at hand.
    """
    if content.explanation is None:
        return _one_side(content.sides[0])
    fast, slow = (Facts(side) for side in (content.sides if content.slow == "b" else content.sides[::-1]))
    found = repositories(fast, slow, host)
    body: list[Child] = []
    for reach in found:
        shown = differences(fast, slow, reach.name, [f.path for f in reach.files], host)
        body += [el("h3", reach.name), *_repository(reach, shown)]
    return section("code", "Code that differs", *body, note="and where it ran") if body else None


def _repository(reach: RepositoryReach, shown: dict[str, list[Difference]]) -> Iterator[Child]:
    yield bullets(reach.notes, "warn")
    if reach.commits:
        rows = [_commit(each) for each in reach.commits]
        yield table("Commits between the two states", ["commit", "subject", "ran", "why"], rows, "commits")
    left = _MAX_LINES
    for file in reach.files:
        held = shown.get(file.path, [])
        count = sum(len(h.lines) for d in held for h in d.hunks)
        yield _file(file, held if count <= left else [], cut=count > left)
        left -= min(left, count)


def _commit(each: CommitReach) -> Node:
    return row(
        code(each.commit.commit[:9]),
        [each.commit.subject, el("span", "on the fast side alone", class_="note") if each.commit.gone else None],
        _verdict(each.verdict, each.innocent),
        each.reason,
        class_="innocent" if each.innocent else "",
    )


def _verdict(verdict: Verdict | None, innocent: bool) -> Node:
    words = verdict.value if verdict else "unknown"
    class_ = "good" if innocent else "warn" if verdict in (None, Verdict.UNKNOWN) else "bad"
    return el("span", words, class_=f"verdict {class_}")


def _file(file: FileReach, held: Sequence[Difference], cut: bool) -> Node:
    summary = [code(file.path, "path"), _verdict(file.verdict, file.innocent), el("span", file.reason, class_="dim")]
    body: list[Child] = []
    if file.edits:
        rows = [_edit(edit) for edit in file.edits]
        body.append(table(f"Edits of {file.path}", ["function", "lines", "ran", "why"], rows, "edits"))
    for difference in held:
        if difference.note:
            body.append(el("p", difference.note, class_="dim"))
        body += [_hunk(hunk, file.edits if not difference.note else ()) for hunk in difference.hunks]
    if cut:
        body.append(el("p", "Too long to be shown here; envsnap diff --text shows its beginning.", class_="dim"))
    elif not body:
        body.append(el("p", "No lines of it are at hand.", class_="dim"))
    return fold(
        summary, *body, open_=not file.innocent and bool(held), class_="file" + (" innocent" if file.innocent else "")
    )


def _edit(edit: Judged) -> Node:
    lines = "; ".join(
        f"{side} {a}–{b}" if a != b else f"{side} {a}"
        for side, span in (("fast", edit.old_lines), ("slow", edit.new_lines))
        if span
        for a, b in [span]
    )
    serving = el("span", "while serving", class_="note") if edit.serving and not edit.innocent else None
    return row(code(edit.function or "module"), lines, [_verdict(edit.verdict, edit.innocent), serving], edit.reason)


def _hunk(hunk: Hunk, edits: Sequence[Judged]) -> Node:
    """Lines with their numbers on both sides; a mark where the line's edit ran."""
    old, new = hunk.old, hunk.new
    rows = []
    for text in hunk.lines:
        sign = text[:1]
        numbers = str(old) if sign != "+" else "", str(new) if sign != "-" else ""
        edit = _edit_of(edits, old if sign == "-" else new, removed=sign == "-") if sign in "-+" else None
        rows.append(_code_line(sign, text[1:], numbers, edit))
        old += sign != "+"
        new += sign != "-"
    spans = hunk.spans
    label = f"lines {spans[0].start} to {spans[0].stop - 1} before, {spans[1].start} to {spans[1].stop - 1} after"
    return el(
        "div",
        el("table", el("tbody", *rows), class_="hunk", aria_label=label),
        class_="wide",
        tabindex=0,
        role="region",
        aria_label=label,
    )


_SIGNS = {"-": "gone", "+": "new"}


def _code_line(sign: str, text: str, numbers: tuple[str, str], edit: Judged | None) -> Node:
    ran = edit is not None and edit.verdict in (Verdict.BOTH, Verdict.SLOW, Verdict.FAST)
    reach = "" if edit is None else "never" if edit.innocent else "ran" if ran else "unknown"
    words = {"": "", "never": "no effect", "ran": "ran", "unknown": "?"}[reach]
    return el(
        "tr",
        el("td", numbers[0], class_="no"),
        el("td", numbers[1], class_="no"),
        el("td", words, class_=f"reach {reach}".strip()),
        el("td", sign, class_="sign"),
        el("td", text),
        class_=_SIGNS.get(sign),
    )


def _edit_of(edits: Sequence[Judged], number: int, removed: bool) -> Judged | None:
    for edit in edits:
        span = edit.old_lines if removed else edit.new_lines
        if span and span[0] <= number <= span[1]:
            return edit
    return None


def _one_side(side: Side) -> Node | None:
    """What was changed beside the commits; whether it ran is a matter of two sides."""
    facts = Facts(side)
    body: list[Child] = []
    for path, patch in facts.values("repo[].patch").items():
        files = patches.read(patch) if isinstance(patch, str) else {}
        if files:
            body += [el("h3", instances_of(path)[0])]
            left = _MAX_LINES
            for name, file in files.items():
                count = sum(len(h.lines) for h in file.hunks)
                shown = [_hunk(h, ()) for h in file.hunks] if count <= left else []
                left -= min(left, count)
                body.append(
                    fold([code(name, "path"), el("span", plural(count, "line"), class_="dim")], *shown, class_="file")
                )
    return section("code", "Changed beside the commits", *body) if body else None
