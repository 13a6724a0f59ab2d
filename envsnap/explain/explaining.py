"""The whole way from two sides to an explanation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from envsnap.change import Because, NotCompared
from envsnap.explain import next_steps, nulls
from envsnap.explain.consequences import related
from envsnap.explain.contamination import contamination, unrecorded
from envsnap.explain.effective import Effective, effective
from envsnap.explain.evidence import Weighed, weigh
from envsnap.explain.explanation import NOT_REPRODUCIBLE, Explanation, RuledOut, Side, Suspect
from envsnap.explain.past import Past, memory_of
from envsnap.explain.ranking import Ranked, rank
from envsnap.explain.sameness import the_same
from envsnap.explain.story import Facts, View
from envsnap.explain.symptom import Symptom, slower_side, symptom_of
from envsnap.explain.tell import told
from envsnap.explain.weights import Weights
from envsnap.explain.work import asked_otherwise
from envsnap.runs.compare import Comparison, compare
from envsnap.runs.metrics import Metric
from envsnap.runs.verdict import History

_TITLES = {
    NOT_REPRODUCIBLE: (
        "not reproducible: nothing that lasts made it slower",
        "Noise, warm-up, a neighbour that has left, or a fast run that was an accident.",
    ),
    "outside": (
        "outside of what was captured and compared",
        "The cause is nothing that both sides recorded: the client, what a side lacks, or what nobody reads.",
    ),
}
_STEP = "step_seconds"


def explained(
    a: Side,
    b: Side,
    control: tuple[Side, Side] | None,
    history: Sequence[Side | Past],
    without: Sequence[str],
    weights: Weights,
) -> Explanation:
    """See `envsnap.explain.explain`."""
    memory = memory_of(a, b, history, weights)
    comparison = _compared(a, b, memory.spreads())
    beside = _compared(*control, {}) if control else None
    slow_name = slower_side(a.runs, b.runs, comparison)
    fast, slow = (a, b) if slow_name == "b" else (b, a)
    symptom = symptom_of(comparison, slow_name, beside, _failure(fast, slow))
    one, two = Facts(fast), Facts(slow)
    found = effective(one, two)
    view = View(one, two, (*found.changes, *asked_otherwise(one, two)), symptom, found.shown)
    story = told(view, without)
    ends = (memory.fast, memory.slow) if slow_name == "b" else (memory.slow, memory.fast)
    memory = replace(memory, fast=ends[0], slow=ends[1], metric=_metric(comparison, symptom))
    weighed = related([weigh(c, view, memory, weights) for c in story.candidates], weights)
    possible = [w for w in weighed if not w.impossible]
    missing = nulls.unread(one, two)
    bare = unrecorded(view, missing)
    ranked = rank(
        possible,
        nulls.not_reproducible(symptom, comparison, bool(memory.spreads()), weights.nulls),
        nulls.outside(missing, weights.nulls),
        weights,
    )
    return Explanation(
        fast="a" if slow_name == "b" else "b",
        symptom=symptom,
        comparison=comparison,
        control=beside,
        suspects=tuple(_suspect(r, symptom, fast, slow, missing) for r in ranked),
        ruled_out=(*story.ruled_out, *_impossible(weighed), *found.ruled_out, *the_same(one, two)),
        mistakes=story.mistakes,
        not_comparable=_gaps(found),
        contamination=tuple(contamination(view, memory, missing)),
        notes=(*_notes(comparison, symptom, slow_name), *(() if bare else found.diff.notes), *story.notes),
        unrecorded=bare,
    )


def _failure(fast: Side, slow: Side) -> str:
    """Why the slow side's runs failed, where all of them did and the fast side's did not."""
    if not slow.runs or any(r.status == "ok" for r in slow.runs) or all(r.status != "ok" for r in fast.runs):
        return ""
    reasons = dict.fromkeys(r.reason or r.status for r in slow.runs)
    return "; ".join(reason.rstrip(".") for reason in reasons)


def _compared(a: Side, b: Side, spreads: Mapping[str, History]) -> Comparison | None:
    """What was measured on both sides, None where one has no runs."""
    return compare(a.runs, b.runs, spreads) if a.runs and b.runs else None


def _metric(comparison: Comparison | None, symptom: Symptom) -> Metric | None:
    """The metric by which history is judged: step time where that moved, else the speed."""
    if comparison is None:
        return None
    metrics = [j.metric for j in comparison.judged]
    step = next((m for m in metrics if m.name == _STEP), None)
    if step is not None and symptom.step_moved:
        return step
    return next((m for m in metrics if m.name == symptom.metric), None)


def _suspect(ranked: Ranked, symptom: Symptom, fast: Side, slow: Side, missing: Sequence[str]) -> Suspect:
    evidence = [e for e in ranked.evidence if e.text]
    bare = Suspect(
        id=ranked.id,
        title="",
        changes=(),
        probability=ranked.probability,
        prior=ranked.prior,
        mechanism="",
        evidence_for=tuple(sorted((e for e in evidence if e.weight >= 0), key=lambda e: -e.weight)),
        evidence_against=tuple(sorted((e for e in evidence if e.weight < 0), key=lambda e: e.weight)),
        ties_with=ranked.ties_with,
    )
    if ranked.weighed is None:
        title, mechanism = _TITLES[ranked.id]
        again = ranked.id == NOT_REPRODUCIBLE
        steps = next_steps.reproduce(fast, slow) if again else next_steps.look_further(missing, slow)
        return replace(bare, title=title, mechanism=mechanism, next=steps)
    candidate, bound = ranked.weighed.candidate, ranked.weighed.bound
    return replace(
        bare,
        title=candidate.title,
        changes=candidate.changes,
        mechanism=candidate.mechanism,
        effects=candidate.effects,
        largest_ratio=bound.ratio if bound else None,
        unexplained=_unexplained(bound.ratio if bound else None, symptom),
        next=next_steps.prove(candidate, fast, slow),
        story=candidate.story,
    )


def _unexplained(largest: float | None, symptom: Symptom) -> float | None:
    from math import exp

    if largest is None or symptom.slowdown is None or symptom.slowdown <= 0:
        return None
    return max(1.0, exp(symptom.slowdown) / largest)


def _impossible(weighed: Sequence[Weighed]) -> Iterator[RuledOut]:
    for each in weighed:
        if each.impossible:
            yield RuledOut(each.candidate.title, each.impossible[:1].lower() + each.impossible[1:].rstrip("."),
                           each.candidate.paths)  # fmt: skip


def _gaps(found: Effective) -> tuple[NotCompared, ...]:
    """What may hide a change; a section that is partial by nature and lacks nothing that the other has, hides none."""
    return tuple(
        entry
        for entry in found.diff.not_compared
        if not entry.settled and (entry.because is not Because.INCOMPLETE or any(entry.only))
    )


def _notes(comparison: Comparison | None, symptom: Symptom, slow: str) -> Iterator[str]:
    if symptom.failure:
        yield f"The runs of {slow.upper()} failed: suspects are ranked by what can bring that about."
    elif comparison is None or symptom.slowdown is None:
        yield "No speed is known of both sides: suspects are ranked by what they could do, with B as the slow side."
    elif slow == "a":
        yield "A is the slower side: changes read from B to A, fast to slow."
