"""Code that changed counts as far as a worker ran it.

A pull changes hundreds of files, a patch some lines; what no worker imported, called or came to cannot have made a
run slower, however much it looks like it. Each commit and each changed file is joined with the lines that ran, at
start-up and while serving, and with the conditions around it. What is behind a condition that was off, and what
differs in comments alone, is ruled out; what ran is named, and how much of the time was spent in it. Needs workers that
recorded themselves (ENVSNAP_RECORD; which lines ran takes Python 3.12); without that, conditions and file names alone
are used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from envsnap.change import Change
from envsnap.explain.code.spent import Time
from envsnap.explain.reach import CommitReach, FileReach, Judged, RepositoryReach, Verdict, repositories
from envsnap.explain.story import Clue, Finding, Innocent, View
from envsnap.explain.symptom import NOTICED
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.host import LiveHost
from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.wording import clip, plural

CODE = "code_that_ran"
NEEDS = ("repo[].head",)

_NEW = 0.01
"""Time in the old lines up to which what the new ones call is new with them."""
_MUCH, _SOME, _NONE = 0.33, 0.1, 0.03
"""Parts of the lost time from which, or up to which, what differs takes it. Looks also see the time between requests,
and a thread is seen where it gives way to others: a commit that cost 38 % of a run was seen at 19 % of the looks."""
_EXPECTED = 30
"""Looks that the lost time would have had, from which on none of them says something."""
_SHOWN = 8
"""Commits, and functions, that are told one by one."""
_CODE = ("repo[].head", "repo[].tree_id", "repo[].patch", "repo[].patch_truncated", "repo[].changed[].blob",
         "repo[].changed[].status", "repo[].submodule[].commit", "repo[].submodule[].tree_id")  # fmt: skip


def tell(view: View) -> Iterator[Finding]:
    """Yield what is ruled out, and what ran."""
    held = [c for c in view.changes if c.path.startswith("repo[")]
    if not held:
        return
    for reach in repositories(view.fast, view.slow, LiveHost()):
        changes = [c for c in held if instances_of(c.path)[0] == reach.name]
        if changes:
            timed = list(_time(reach, view.symptom.slowdown, changes))
            yield from timed
            told = any(clue.weight > 0 for clue in timed)  # NOTE: then nobody wants to hear that it is not known
            yield from (
                f for f in _of_repository(reach, changes) if not (told and isinstance(f, Clue) and not f.weight)
            )


def _of_repository(reach: RepositoryReach, changes: Sequence[Change]) -> Iterator[Finding]:
    yield from _commits(reach.commits)
    if reach.innocent:
        yield Innocent(_title(reach), _reasons(reach.files) or "nothing that it holds differs", tuple(changes))
        return
    yield from _innocent_files(reach, changes)
    code = tuple(c for c in changes if pattern_of(c.path) in _CODE)
    guilty = [f for f in reach.files if not f.innocent]
    ran = [
        (f, e) for f in guilty for e in f.edits if not e.innocent and not e.quiet and e.verdict is not Verdict.UNKNOWN
    ]
    whole = [f for f in guilty if not f.edits and f.verdict in (Verdict.BOTH, Verdict.SLOW)]
    if ran or whole:
        serving = bool(whole) or any(e.serving for _, e in ran)
        yield Clue(_what_ran(reach, ran, whole), FAIR if serving else -WEAK if reach.watched else 0.0, code)
    elif guilty and all(f.quiet for f in guilty) and reach.whole:
        yield Clue(f"Nothing of what differs in {reach.name} ran while the slow run served.", -STRONG, code)
    elif not guilty and "is the same" in " ".join(reach.notes):
        yield Clue(f"Every source file of {reach.name} that the workers imported is the same.", -STRONG, code)
    elif not guilty:
        yield Clue(f"Of {reach.name}, {'; '.join(reach.notes)}.", 0.0, code)
    else:
        yield Clue(f"Which of what differs in {reach.name} ran is not known: {guilty[0].reason}.", 0.0, code)


def _time(reach: RepositoryReach, slowdown: float | None, changes: Sequence[Change]) -> Iterator[Clue]:
    """What the changed lines take of the time against what the slowdown is."""
    timed = [(f, e) for f in reach.files for e in f.edits if not e.innocent and e.time is not None]
    if not timed or not slowdown or slowdown < NOTICED:
        return
    lost = 1 - math.exp(-slowdown)
    taken = [(_taken(*e.time, lost), _place(f, e)) for f, e in timed if e.time]
    took, (_, most) = sum(share for share, _ in taken), max(taken)
    code = tuple(c for c in changes if pattern_of(c.path) in _CODE)
    text = f"The slow run spent {max(0.0, took):.0%} of its time ({reach.looks} looks) in what differs, most in {most}"
    if took >= _MUCH * lost:
        yield Clue(f"{text}; the slowdown is {lost:.0%} of it.", STRONG, code)
    elif took >= _SOME * lost:
        yield Clue(f"{text}; the slowdown is {lost:.0%} of it.", FAIR, code)
    elif reach.looks * lost >= _EXPECTED and took < _NONE * lost:
        # NOTE: little, since a line that takes no time may make others take it.
        yield Clue(f"The slow run spent next to no time ({reach.looks} looks) in what differs.", -WEAK, code)


def _taken(then: Time, now: Time, lost: float) -> float:
    """What an edit takes more than before, as a share of the slow run's time."""
    if then.inside < _NEW:
        return now.inside
    # NOTE: what a line that was there before calls may have become slower by itself.
    return now.at - then.at * (1 - lost)


def _commits(commits: Sequence[CommitReach]) -> Iterator[Finding]:
    innocent = [c for c in commits if c.innocent]
    for told in innocent[:_SHOWN]:
        subject = clip(told.commit.subject, 60)
        yield Innocent(f"commit {told.commit.commit[:9]} ({subject})", clip(told.reason, 300), ())
    if len(innocent) > _SHOWN:
        yield Innocent(
            f"{plural(len(innocent) - _SHOWN, 'further commit')}", "for the like reasons, each by itself", ()
        )


def _innocent_files(reach: RepositoryReach, changes: Sequence[Change]) -> Iterator[Finding]:
    """Changed files that are ruled out while others are not, together by reason."""
    by_reason: dict[str, list[FileReach]] = {}
    for file in reach.files:
        if file.innocent:
            by_reason.setdefault(file.reason, []).append(file)
    for reason, files in by_reason.items():
        held = {path_of("repo[].changed[]", reach.name, f.path) for f in files}
        own = tuple(c for c in changes if c.path.rpartition(".")[0] in held)
        names = ", ".join(f.path for f in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        if own:
            yield Innocent(f"{names} in {reach.name}", reason, own)


def _title(reach: RepositoryReach) -> str:
    parts = [plural(len(reach.commits), "commit")] if reach.commits else []
    uncommitted = sum(not f.committed for f in reach.files)
    parts += [plural(uncommitted, "changed file")] if uncommitted else []
    return f"repository {reach.name} ({', '.join(parts) or 'its commit'})"


def _reasons(files: Sequence[FileReach]) -> str:
    return "; ".join(list(dict.fromkeys(f"{f.path}: {f.reason}" for f in files))[:3])


def _what_ran(reach: RepositoryReach, ran: Sequence[tuple[FileReach, Judged]], whole: Sequence[FileReach]) -> str:
    names = list(dict.fromkeys(_place(f, e) for f, e in ran)) + [f.path for f in whole]
    edits = sum(len(f.edits) or 1 for f in reach.files)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    when = " while serving" if any(e.serving for _, e in ran) else " at start-up alone" if reach.watched else ""
    return (
        f"Of {plural(edits, 'place')} where {reach.name} differs, {len(names)} ran{when}: "
        f"{', '.join(names[:_SHOWN])}{more}."
    )


def _place(file: FileReach, edit: Judged) -> str:
    lines = edit.new_lines or edit.old_lines
    at = f"{file.path}:{lines[0]}" if lines else file.path
    only = {Verdict.SLOW: ", slow run only", Verdict.FAST: ", fast run only"}.get(edit.verdict, "")
    return f"{edit.function or 'module'} ({at}{only})"
