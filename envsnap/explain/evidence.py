"""What speaks for and against a suspect, each piece a sentence with its log odds.

By the value that it went to, by the terms that moved, by the setting, by the control pair, by how large it can be, by
what else showed under load, and by the past.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from envsnap.explain.candidates import Candidate
from envsnap.explain.explanation import Evidence
from envsnap.explain.harm import Towards, clearest, known, name_of
from envsnap.explain.limits import NOTHING, Bound, bound_of
from envsnap.explain.past import Memory
from envsnap.explain.releases import Step, step_of
from envsnap.explain.story import View
from envsnap.explain.symptom import Symptom
from envsnap.explain.weights import FAIR, Weights
from envsnap.keys import Effect, pattern_of

STEP = frozenset({Effect.COMMUNICATION, Effect.VERIFY, Effect.DRAFT, Effect.HOST_LAUNCH, Effect.COMPUTE, Effect.MEMORY})
"""Effects that make a step longer."""

_UNIFORM = frozenset({Effect.COMPUTE, Effect.MEMORY})
_SPECULATION = frozenset({Effect.ACCEPTANCE, Effect.DRAFT, Effect.VERIFY})
_BEFORE_DECODING = frozenset({Effect.PREFILL, Effect.STORAGE})
_LINKS = frozenset({"pcie", "pci:iommu"})

_NOTHING_ACCEPTED = 1.05
"""An accept length up to which every draft is refused: one side computes nonsense."""

_HARMLESS_TO_RESULTS = frozenset({"pcie", "clocks", "power", "host", "neighbour"})

NOTICED = 0.04
"""A slowdown (as a logarithm) of the control pair that has to be explained."""


@dataclass(frozen=True)
class Weighed:
    """A candidate with everything that speaks for and against it."""

    candidate: Candidate
    evidence: tuple[Evidence, ...]
    bound: Bound | None

    @property
    def odds(self) -> float:
        """The sum of its evidence, in log odds."""
        return math.fsum(e.weight for e in self.evidence)

    @property
    def impossible(self) -> str:
        """Why it cannot be the cause at all; empty where it can."""
        return self.bound.says if self.bound and self.bound.ratio <= NOTHING and self.bound.measured else ""


def weigh(candidate: Candidate, view: View, memory: Memory, weights: Weights) -> Weighed:
    """Everything that is known for and against one candidate."""
    bound = bound_of(candidate, view)
    if candidate.largest_ratio is not None:
        bound = Bound(candidate.largest_ratio, f"It can make ×{candidate.largest_ratio:.2f} at most.")
    found = [
        *candidate.evidence,
        *_value(candidate, view, weights),
        *_setting(candidate, view, weights),
        *_terms(candidate, view.symptom, weights),
        *_control(candidate, view.symptom, weights),
        *_size(bound, view.symptom, weights),
        *_shown(candidate, view, weights),
        *_release(candidate, weights),
        *_failed(candidate, view.symptom, weights),
        *memory.about(candidate.principal),
    ]
    return Weighed(candidate, tuple(replace(e, paths=e.paths or candidate.paths[:1]) for e in found), bound)


def _value(candidate: Candidate, view: View, weights: Weights) -> Iterator[Evidence]:
    """By which value is the slow one."""
    each = {name_of(c): known(c, view.setting) for c in candidate.telling}
    found = clearest([*each.values()])
    harms = weights.harms
    gone = sum(k.gone for k in each.values())
    if gone > 1:
        yield Evidence(
            f"{gone} settings that somebody had made for speed, as it seems, are gone at once.", harms.gone_together
        )
        return
    match found.towards:
        case Towards.SLOW:
            says = found.says or "It went to the slower value."
            if found.gone or found.guessed:
                yield Evidence(says, harms.gone if found.gone else harms.guessed)
            else:
                yield Evidence(says, harms.severe if found.severe else harms.slow)
        case Towards.FAST if view.symptom.failure or _all_refused(view.symptom) or _told(candidate):
            pass  # the faster way may be the wrong one, and what several readings say together counts for more
        case Towards.FAST:
            yield Evidence("It went to the faster value, which a slow run seldom has.", harms.fast)
        case Towards.NEITHER:
            yield Evidence(found.says, harms.harmless)


def _told(candidate: Candidate) -> bool:
    """Whether a story speaks for it."""
    return any(e.weight >= FAIR for e in candidate.evidence)


def _all_refused(symptom: Symptom) -> bool:
    """Whether every draft is refused on the slow side: then one side computes nonsense."""
    return "accept_length" in symptom.figures and symptom.figures["accept_length"][1] < _NOTHING_ACCEPTED


def _is_exchange(candidate: Candidate) -> bool:
    """Whether it acts on the exchange between ranks, rather than on that as on everything else."""
    held = {*candidate.effects}
    return candidate.effects[:1] == (Effect.COMMUNICATION,) and not held & {Effect.DRAFT, Effect.ACCEPTANCE}


def _release(candidate: Candidate, weights: Weights) -> Iterator[Evidence]:
    """By how far a version moved."""
    sizes = weights.releases
    # NOTE: what a torch brought along (a Triton, a cuDNN) may have moved farther than torch itself.
    moved = candidate.changes if candidate.id == "package:torch" else candidate.telling
    match step_of(moved, driver=candidate.id == "driver"):
        case Step.MAJOR:
            yield Evidence("It is another major release.", sizes.major)
        case Step.MINOR:
            yield Evidence("It is another minor release.", sizes.minor)
        case Step.FIX:
            yield Evidence("It is a bug-fix release of the same branch.", sizes.fix)
        case Step.BUILD:
            yield Evidence("It is another build of the same release.", sizes.build)


def _failed(candidate: Candidate, symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    if symptom.failure and _is_exchange(candidate):
        yield Evidence("Hangs and crashes come from the exchange between ranks oftener than from elsewhere.",
                       weights.mechanism.failed)  # fmt: skip


def _setting(candidate: Candidate, view: View, weights: Weights) -> Iterator[Evidence]:
    """By what the engine was told to do."""
    effects, setting = candidate.effects, view.setting
    if _is_exchange(candidate) and setting.ranks == 1:
        yield Evidence("There is one rank alone, which exchanges nothing.", weights.mechanism.alone)
    if _is_speculation(effects) and setting.speculative is False:
        yield Evidence("Nothing is speculated.", weights.mechanism.alone)
    if candidate.id in _LINKS and setting.nvlink and setting.communicates is not False:
        yield Evidence("The GPUs are joined by NVLink.", weights.mechanism.beside_nvlink)


def _is_speculation(effects: Iterable[Effect]) -> bool:
    held = set(effects)
    return bool(held & {Effect.ACCEPTANCE, Effect.DRAFT}) and held <= _SPECULATION


def _terms(candidate: Candidate, symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    """By the terms of the speed model that moved."""
    effects = set(candidate.effects)
    if not effects or not symptom.measured or Effect.VALIDITY in effects:
        return
    sizes = weights.mechanism
    accept, step = symptom.moved("accept_length"), symptom.step_moved
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
        elif _all_refused(symptom) and class_of(candidate) not in _HARMLESS_TO_RESULTS:
            pass  # wrong results of whatever computes or communicates end there
        else:
            yield Evidence(f"{_moved(symptom, 'accept_length')}; a step takes no longer, and that is what it acts on.",
                           sizes.cannot)  # fmt: skip
    elif (symptom.slowdown or 0.0) < NOTICED and symptom.terms.get("prefill", 0.0) >= NOTICED:
        if effects & {Effect.PREFILL, Effect.WORKLOAD, Effect.STORAGE}:
            yield Evidence(f"{_moved(symptom, 'prefill')} alone, which it acts on.", sizes.fits_closely)
        elif not effects & {Effect.COMPUTE, Effect.HOST_LAUNCH}:
            yield Evidence(f"{_moved(symptom, 'prefill')} alone; it acts on decoding.", sizes.unlikely)


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
    fast, slow = (value * scale for value in symptom.figures[term])
    return f"{name} went from {fast:.3g} to {slow:.3g}{unit}"


def _control(candidate: Candidate, symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    """By the control pair: a suspect has to explain both slowdowns."""
    control = symptom.control
    if control is None or control.slowdown is None or symptom.slowdown is None or symptom.slowdown < NOTICED:
        return
    effects, sizes = set(candidate.effects), weights.mechanism
    here, there = math.exp(symptom.slowdown), math.exp(control.slowdown)
    both = f"×{there:.2f} there, ×{here:.2f} here"
    if _is_speculation(effects):
        if control.slowdown >= NOTICED:
            yield Evidence(f"The control pair slowed too ({both}), and it acts on speculation.", sizes.control_cannot)
        else:
            yield Evidence(f"The control pair did not slow ({both}), and it acts on speculation.", sizes.control_fits)
    elif effects and effects <= _UNIFORM and control.slowdown < 0.5 * symptom.slowdown:
        yield Evidence(f"It would slow the control pair as much ({both}).", sizes.control_too)
    elif effects & {Effect.COMMUNICATION, Effect.HOST_LAUNCH} and NOTICED <= control.slowdown < 0.5 * symptom.slowdown:
        yield Evidence(f"A step that verifies exchanges and launches more than a plain one, so that it can lose more "
                       f"({both}).", sizes.control_fits)  # fmt: skip


def _size(bound: Bound | None, symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    """By how much of the slowdown it can explain."""
    slowdown = symptom.slowdown
    if bound is None or slowdown is None or slowdown < NOTICED:
        return
    sizes = weights.bounds
    part = math.log(bound.ratio) / slowdown
    if bound.measured and abs(part - 1) <= sizes.within:
        yield Evidence(f"{bound.says} That is as large as the slowdown, ×{math.exp(slowdown):.2f}.", sizes.same_size)
    elif part < 1 - sizes.within:
        yield Evidence(
            f"{bound.says} The slowdown is ×{math.exp(slowdown):.2f}.", sizes.too_small * (1 - max(0.0, part))
        )


def _shown(candidate: Candidate, view: View, weights: Weights) -> Iterator[Evidence]:
    """By what else showed under load: who waits for whom."""
    effects = {*candidate.effects}
    if not effects & {*STEP, Effect.PREFILL} or Effect.VALIDITY in effects or candidate.id.startswith("load:"):
        return
    sizes = weights.mechanism
    waiting = _waiting(view)
    if waiting is None:
        return
    says, acts = waiting
    if _is_exchange(candidate) if acts == {Effect.COMMUNICATION} else candidate.effects[0] in acts:
        yield Evidence(says, sizes.shows)
    elif not acts & effects:
        weight = sizes.shows_host if Effect.HOST_LAUNCH in acts else sizes.shows_other
        yield Evidence(f"{says} That is not what it acts on.", weight)


_KERNELS = frozenset({Effect.COMPUTE, Effect.MEMORY, Effect.VERIFY, Effect.DRAFT, Effect.PREFILL})


def _waiting(view: View) -> tuple[str, frozenset[Effect]] | None:
    """In words what the GPUs do on the slow side that they did not before, and which effects show so."""
    power = _medians(view, "during.gpu[].power_median_watts")
    use = _medians(view, "during.gpu[].utilization_median_percent")
    clock = _medians(view, "during.gpu[].sm_clock_median_mhz")
    if use is None or (view.symptom.gap or 0.0) < math.log(1.1):
        return None
    if use[1] < use[0] - 10:
        words = f"GPUs are busy {use[1]:.0f} % of the time, not {use[0]:.0f} %: they wait for the host."
        return words, frozenset({Effect.HOST_LAUNCH, Effect.STORAGE, Effect.WORKLOAD})
    if power is None or clock is None or abs(clock[1] / clock[0] - 1) >= 0.03:
        return None
    if power[1] < 0.92 * power[0]:
        draw = f"GPUs draw {power[1]:.0f} W, not {power[0]:.0f} W"
        return f"{draw}, as busy and at the same clocks: they wait for each other.", frozenset({Effect.COMMUNICATION})
    if power[1] > 0.95 * power[0]:
        words = "GPUs are as busy as before and draw as much: they wait for nobody, the kernels take longer."
        return words, _KERNELS
    return None


def _medians(view: View, key: str) -> tuple[float, float] | None:
    """The mean over GPUs on the fast and the slow side; None where one was not sampled."""
    from statistics import fmean

    sides = [[v for v in facts.values(key).values() if isinstance(v, (int, float))] for facts in view.sides]
    if not all(sides) or fmean(sides[0]) <= 0:
        return None
    return fmean(sides[0]), fmean(sides[1])


def class_of(candidate: Candidate) -> str:
    """The class of a suspect, a name in `weights.CLASSES`."""
    if candidate.prior <= 0.05:
        return "cosmetic"
    kind, _, name = candidate.id.partition(":")
    if candidate.id in _BY_ID:
        return _BY_ID[candidate.id]
    if kind in _BY_ID:
        return _BY_ID[kind]
    if kind in ("argument", "env") and any(word in name.lower() for word in _PATHS):
        return "engine_path"
    if candidate.effects[:1] == (Effect.COMMUNICATION,):
        return "communication"
    if kind in ("argument", "env", "lost"):
        return "engine"
    if pattern_of(candidate.principal.path).startswith("request["):
        return "workload"
    return "host"


_PATHS = ("cuda_graph", "cudagraph", "attention", "speculative", "spec_", "draft", "eagle", "enforce_eager")
_BY_ID = {
    "git": "code",
    "library:nccl": "communication",
    "package": "library",
    "packages": "library",
    "library": "library",
    "model": "workload",
    "load:clocks": "clocks",
    "clocks_set": "clocks",
    "gpu:model": "clocks",
    "load:foreign": "neighbour",
    "load:cpu": "neighbour",
    "driver": "driver",
    "module": "driver",
    "kernel": "driver",
    "firmware": "driver",
    "pcie": "pcie",
    "power_limit": "power",
}
