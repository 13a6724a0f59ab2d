"""Evidence by the terms of the speed model that moved, here and in the control pair."""

from __future__ import annotations

import math
from collections.abc import Iterator

from envsnap.explain.candidates import Candidate
from envsnap.explain.explanation import Evidence
from envsnap.explain.kinds import STEP, class_of, is_speculation
from envsnap.explain.symptom import NOTICED, Symptom
from envsnap.explain.weights import Weights
from envsnap.keys import Effect

_UNIFORM = frozenset({Effect.COMPUTE, Effect.MEMORY})
_BEFORE_DECODING = frozenset({Effect.PREFILL, Effect.STORAGE})

_NOTHING_ACCEPTED = 1.05
"""An accept length up to which every draft is refused: one side computes nonsense."""
_HARMLESS_TO_RESULTS = frozenset({"pcie", "clocks", "power", "host", "neighbour"})


def all_refused(symptom: Symptom) -> bool:
    """Whether every draft is refused on the slow side alone: then one side computes nonsense.

    Without speculation both sides have one token a step.
    """
    fast, slow = symptom.figures.get("accept_length", (1.0, 1.0))
    return slow < _NOTHING_ACCEPTED <= fast


def terms(candidate: Candidate, symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    """By the terms of the speed model that moved."""
    effects = set(candidate.effects)
    if not effects or not symptom.measured or Effect.VALIDITY in effects:
        return
    sizes = weights.mechanism
    accept, step = _acceptance_moved(symptom), symptom.step_moved
    if symptom.slowdown is not None and symptom.slowdown >= NOTICED and effects <= _BEFORE_DECODING:
        yield Evidence("Decoding slowed, and it acts before that.", sizes.cannot)
    elif accept is False and step:
        if not effects & STEP:
            only = Effect.WORKLOAD in effects
            yield Evidence(f"{_moved(symptom, 'accept_length')}: what it acts on hardly moved.",
                           sizes.unlikely if only else sizes.cannot)  # fmt: skip
        else:
            yield from _part(effects, symptom, weights)
    elif accept and step is False:
        if effects & {Effect.ACCEPTANCE, Effect.WORKLOAD}:
            yield Evidence(f"{_moved(symptom, 'accept_length')}, which it acts on.", sizes.fits_closely)
        elif all_refused(symptom) and class_of(candidate) not in _HARMLESS_TO_RESULTS:
            pass  # wrong results of whatever computes or communicates end there
        else:
            yield Evidence(f"{_moved(symptom, 'accept_length')}; a step takes no longer, and that is what it acts on.",
                           sizes.cannot)  # fmt: skip
    elif (symptom.slowdown or 0.0) < NOTICED and symptom.terms.get("prefill", 0.0) >= NOTICED:
        if effects & {Effect.PREFILL, Effect.WORKLOAD, Effect.STORAGE}:
            closely = candidate.effects[0] is Effect.PREFILL or effects <= _BEFORE_DECODING
            yield Evidence(f"{_moved(symptom, 'prefill')} alone, which it acts on.",
                           sizes.fits_closely if closely else sizes.fits)  # fmt: skip
        elif not effects & {Effect.COMPUTE, Effect.HOST_LAUNCH}:
            yield Evidence(f"{_moved(symptom, 'prefill')} alone; it acts on decoding.", sizes.unlikely)


def _acceptance_moved(symptom: Symptom) -> bool | None:
    """Whether acceptance makes up a third of a slowdown, and fell by what anybody would notice."""
    moved = symptom.moved("accept_length")
    return None if moved and symptom.terms["accept_length"] < NOTICED else moved


def _part(effects: set[Effect], symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    """By the part of a step that moved."""
    sizes = weights.mechanism
    if symptom.moved("verify") and symptom.moved("draft") is not True and effects <= {Effect.DRAFT, Effect.ACCEPTANCE}:
        yield Evidence(f"{_moved(symptom, 'verify')}, and it acts on the draft.", sizes.cannot)
    elif symptom.moved("host_gap") and effects & {Effect.HOST_LAUNCH}:
        yield Evidence(f"{_moved(symptom, 'host_gap')}, which it acts on.", sizes.fits_closely)
    else:
        term = "verify" if symptom.moved("verify") else "step_time"
        if term in symptom.terms:
            yield Evidence(f"{_moved(symptom, term)}, which it can act on.", sizes.fits)


_NAMES = {
    "accept_length": ("Acceptance", "", 1),
    "step_time": ("A step", " ms", 1e3),
    "verify": ("The verify step", " ms", 1e3),
    "host_gap": ("The host's part of a step", " ms", 1e3),
    "prefill": ("The time to the first token", " ms", 1e3),
}


def _moved(symptom: Symptom, term: str) -> str:
    """A term's move in words: `The verify step went from 19 to 29 ms`."""
    name, unit, scale = _NAMES[term]
    if term not in symptom.figures:
        return f"{name} moved"
    if term == "accept_length" and max(symptom.figures[term]) < _NOTHING_ACCEPTED:
        return "Every step gives one token on both sides"
    fast, slow = (value * scale for value in symptom.figures[term])
    return f"{name} went from {fast:.3g} to {slow:.3g}{unit}"


def control_pair(candidate: Candidate, symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    """By the control pair: a suspect has to explain both slowdowns."""
    control = symptom.control
    if control is None or control.slowdown is None or symptom.slowdown is None or symptom.slowdown < NOTICED:
        return
    effects, sizes = set(candidate.effects), weights.mechanism
    here, there = math.exp(symptom.slowdown), math.exp(control.slowdown)
    both = f"×{there:.2f} against ×{here:.2f} here"
    if is_speculation(effects):
        if control.slowdown >= NOTICED:
            yield Evidence(f"The control pair slowed too ({both}), and it acts on speculation.", sizes.control_cannot)
        else:
            yield Evidence(f"The control pair did not slow ({both}), and it acts on speculation.", sizes.control_fits)
    elif effects and effects <= _UNIFORM and control.slowdown < 0.5 * symptom.slowdown:
        yield Evidence(f"It would slow the control pair as much ({both}).", sizes.control_too)
    elif effects & {Effect.COMMUNICATION, Effect.HOST_LAUNCH} and NOTICED <= control.slowdown < 0.5 * symptom.slowdown:
        yield Evidence(f"A step that verifies exchanges and launches more than a plain one, so that it can lose more "
                       f"({both}).", sizes.control_fits)  # fmt: skip
