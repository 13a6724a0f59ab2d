"""Stories told: what they find is applied to the candidates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from envsnap.change import Change
from envsnap.explain.candidates import Candidate, candidate, gather
from envsnap.explain.effective import content_of, without
from envsnap.explain.explanation import Evidence, Mistake, RuledOut
from envsnap.explain.homes import home_of
from envsnap.explain.story import Clue, Finding, Innocent, Story, Together, View, every_story
from envsnap.reading import describe


@dataclass(frozen=True)
class Told:
    """Candidates as the stories leave them, what they ruled out, and what they found wrong on both sides."""

    candidates: tuple[Candidate, ...]
    ruled_out: tuple[RuledOut, ...]
    mistakes: tuple[Mistake, ...]
    notes: tuple[str, ...]


def told(view: View, left_out: Sequence[str] = ()) -> Told:
    """Tell every story whose needs are there, and gather the candidates."""
    notes: list[str] = []
    findings: list[tuple[str, Finding]] = []
    for story in every_story():
        if story.CODE not in left_out and any(facts.has(key) for key in story.NEEDS for facts in view.sides):
            found, note = _findings(story, view)
            findings += [(story.CODE, finding) for finding in found]
            notes += note
    changes, ruled_out = _without_innocent(list(view.changes), [f for _, f in findings if isinstance(f, Innocent)])
    bundles: list[Candidate] = []
    for code, finding in findings:
        if isinstance(finding, Together):
            changes = _bundled(code, finding, changes, bundles)
    candidates = [*bundles, *gather(changes, view.setting)]
    for code, finding in findings:
        if isinstance(finding, Clue):
            _clue(code, finding, candidates)
    return Told(
        tuple(candidates),
        tuple(ruled_out),
        tuple(replace(f, story=f.story or code) for code, f in findings if isinstance(f, Mistake)),
        tuple(notes),
    )


def _findings(story: Story, view: View) -> tuple[list[Finding], list[str]]:
    """What a story finds; one that fails costs its findings and is said."""
    try:
        return list(story.tell(view)), []
    except Exception as error:
        return [], [f"The story {story.CODE} could not be told ({describe(error)})."]


def _without_innocent(changes: list[Change], findings: Iterable[Innocent]) -> tuple[list[Change], list[RuledOut]]:
    """The changes without those that are innocent, and without what merely accompanies them."""
    ruled_out = []
    for finding in findings:
        ruled_out.append(RuledOut(finding.title, finding.reason, tuple(c.path for c in finding.changes)))
        touched = {home_of(c) for c in finding.changes}
        left = without(changes, finding.changes)
        for home in touched:
            rest = [c for c in left if home_of(c) == home]
            before = [c for c in changes if home_of(c) == home]
            telling = content_of(rest) if home.startswith("git:") else _telling(rest, before)
            if not telling:
                left = without(left, rest)
        changes = left
    return changes, ruled_out


def _telling(rest: Sequence[Change], before: Sequence[Change]) -> list[Change]:
    """Of what is left of a bundle, what could be a cause by itself: as likely as the likeliest that it held."""
    most = max((c.key.prior for c in before), default=0.0)
    return [c for c in rest if c.key.prior >= most]


def _bundled(code: str, finding: Together, changes: list[Change], bundles: list[Candidate]) -> list[Change]:
    """Make one candidate of a finding's changes and of what always moves with them; returns the other changes."""
    homes = [home_of(c) for c in finding.changes]
    members = [c for c in changes if home_of(c) in homes]
    present = {(c.path, c.leaf) for c in changes}
    members += [c for c in finding.changes if (c.path, c.leaf) not in present and not _held(c, bundles)]
    if not members:
        _added(code, finding, bundles)
        return changes
    made = candidate(homes[0] if len(set(homes)) == 1 else f"story:{code}:{homes[0]}", members)
    bundles.append(
        replace(
            made,
            title=finding.title,
            mechanism=finding.mechanism,
            effects=finding.effects or made.effects,
            evidence=finding.evidence,
            prior=made.prior if finding.prior is None else finding.prior,
            largest_ratio=finding.largest_ratio,
            story=code,
        )
    )
    return without(changes, members)


def _held(change: Change, bundles: Iterable[Candidate]) -> bool:
    return any((c.path, c.leaf) == (change.path, change.leaf) for b in bundles for c in b.changes)


def _added(code: str, finding: Together, bundles: list[Candidate]) -> None:
    """Another story on changes that are bundled already: its evidence goes where most of them are."""
    paths = {(c.path, c.leaf) for c in finding.changes}
    counts: list[int] = [sum((c.path, c.leaf) in paths for c in b.changes) for b in bundles]
    most = max(counts, default=0)
    if most:
        at = counts.index(most)
        bundles[at] = replace(bundles[at], evidence=(*bundles[at].evidence, *finding.evidence))


def _clue(code: str, clue: Clue, candidates: list[Candidate]) -> None:
    """A clue counts once for each candidate that holds one of its changes."""
    paths = {(c.path, c.leaf) for c in clue.changes}
    said = Evidence(clue.text, clue.weight, clue.paths or tuple(c.path for c in clue.changes))
    for i, each in enumerate(candidates):
        if any((c.path, c.leaf) in paths for c in each.changes):
            candidates[i] = replace(each, evidence=(*each.evidence, said), story=each.story or code)
