"""What speaks for and against a suspect, each piece a sentence with its log odds.

By the value that it went to, by the terms that moved, by the setting, by the control pair, by how large it can be, by
what else showed under load, and by the past.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from envsnap.explain.candidates import Candidate
from envsnap.explain.explanation import Evidence
from envsnap.explain.harm import Known, Towards, clearest, known, name_of
from envsnap.explain.kinds import is_exchange, is_speculation
from envsnap.explain.limits import NOTHING, Bound, bound_of
from envsnap.explain.nulls import listed_words
from envsnap.explain.past import Memory
from envsnap.explain.releases import Step, step_of
from envsnap.explain.story import View
from envsnap.explain.symptom import NOTICED, Symptom
from envsnap.explain.terms import all_refused, control_pair, terms
from envsnap.explain.under_load import shown
from envsnap.explain.weights import FAIR, STRONG, Harms, Weights
from envsnap.keys import Effect

_LINKS = frozenset({"pcie", "pci:iommu"})


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
    each = [known(c, view.setting, view.symptom.moving) for c in candidate.telling]
    value = clearest(each)
    if value.slight:  # one member that hardly moved says nothing of those that did
        everything = [known(c, view.setting, view.symptom.moving) for c in candidate.changes]
        value = clearest([k for k in everything if not k.slight] or [value])
    bound = bound_of(candidate, view) or (None if all_refused(view.symptom) else _usual(candidate, each, view))
    if candidate.largest_ratio is not None:
        bound = Bound(candidate.largest_ratio, f"It can make ×{candidate.largest_ratio:.2f} at most.")
    found = [
        *candidate.evidence,
        *_value(candidate, each, value, view, weights),
        *_too_large(value, view.symptom, weights),
        *_setting(candidate, view, weights),
        *terms(candidate, view.symptom, weights),
        *control_pair(candidate, view.symptom, weights),
        *_size(bound, view.symptom, weights),
        *shown(candidate, view, weights),
        *_release(candidate, weights),
        *_failed(candidate, view.symptom, weights),
        *memory.about(candidate.principal),
    ]
    return Weighed(candidate, tuple(replace(e, paths=e.paths or candidate.paths[:1]) for e in found), bound)


def _value(
    candidate: Candidate, each: Sequence[Known], found: Known, view: View, weights: Weights
) -> Iterator[Evidence]:
    """By which value is the slow one."""
    harms = weights.harms
    gone = list(dict.fromkeys(name_of(c) for c, k in zip(candidate.telling, each) if k.gone))
    if len(gone) > 1:
        yield Evidence(
            f"{listed_words(gone)} are gone at once: settings that somebody had made for speed, as it seems.",
            harms.gone_together * (len(gone) - 2),
        )
        return
    match found.towards:
        case Towards.SLOW if _unread(candidate):
            pass  # a slow value that nothing reads is none
        case Towards.SLOW:
            says = found.says or "It went to the slower value."
            if found.gone or found.guessed:
                yield Evidence(says, harms.gone if found.gone else harms.guessed)
            else:
                # NOTE: a story that speaks for it has mostly read the same value; and what is slow seldom fails.
                mild = harms.guessed if view.symptom.failure else harms.slow
                stands_out = found.severe and not _told(candidate)
                severe = harms.slow if view.symptom.failure else harms.severe
                yield Evidence(says, severe if stands_out else mild)
        case Towards.FAST if view.symptom.failure or all_refused(view.symptom) or _told(candidate):
            pass  # the faster way may be the wrong one, and what several readings say together counts for more
        case Towards.FAST:
            yield from _faster(found, harms)
        case Towards.NEITHER:
            yield Evidence(found.says, harms.harmless)
        case Towards.UNKNOWN if candidate.id.startswith(_SETTINGS) and not _told(candidate):
            yield Evidence("Of its values none is known to be slow.", harms.unknown)


def _faster(found: Known, harms: Harms) -> Iterator[Evidence]:
    if found.guessed:
        yield Evidence("By its name it went to the faster value.", harms.fast_guessed)
    elif found.depends:
        yield Evidence("It went to what is mostly the faster value, which a slow run seldom has.", harms.fast_depends)
    else:
        yield Evidence("It went to the faster value, which a slow run seldom has.", harms.fast)


_SETTINGS = ("env:", "argument:")


def _usual(candidate: Candidate, each: Sequence[Known], view: View) -> Bound | None:
    """The most that such settings, or releases, are known to have made."""
    spans = [(name_of(c), k.makes[1]) for c, k in zip(candidate.telling, each) if k.makes]
    if spans and len(spans) == len(each):
        largest = {name: max(most for other, most in spans if other == name) for name, _ in spans}
        # NOTE: several settings that were lost together act one on top of the other.
        most = math.prod(largest.values()) if candidate.id.startswith("lost:") else max(largest.values())
        return Bound(most, f"Such a change is known to make ×{most:.3g} at most.")
    step = step_of(candidate.telling, driver=candidate.id == "driver")
    if step is not None and (usual := _of_release(candidate, step, view)):
        return Bound(usual, f"Such a release seldom makes more than ×{usual:.3g}.")
    return None


def _of_release(candidate: Candidate, step: Step, view: View) -> float | None:
    """The most that such releases usually have made, None where nothing is known.

    A served token is many operators, of which a release makes some slower. What is measured alone has no others beside
    it, and the libraries that bring kernels have most of a step in few.
    """
    usual = _RELEASES.get((candidate.id.partition(":")[0], step))
    if usual is None or step is Step.BUILD or candidate.effects[:1] != (Effect.COMPUTE,):
        return usual
    served = any(facts.has(key) for facts in view.sides for key in _SERVED)
    return usual * _MOSTLY_KERNELS if served else max(usual, _ONE_OPERATOR)


_SERVED = ("server[].engine", "server[].argument[]", "record[].engine")
_MOSTLY_KERNELS, _ONE_OPERATOR = 1.6, 12.0
"""Factor on what releases usually make, for libraries of kernels in a server; and what one operator can become. Public
reports of single kernels after a release: up to ×10, where another algorithm was taken."""

_RELEASES: dict[tuple[str, Step], float] = {
    ("package", Step.MAJOR): 5.0,
    ("package", Step.MINOR): 3.0,
    ("package", Step.EARLY): 3.0,
    ("package", Step.FIX): 1.5,
    ("library", Step.MAJOR): 4.0,
    ("library", Step.FIX): 1.4,
    ("library", Step.MINOR): 2.0,
    ("library", Step.BUILD): 1.2,
    ("package", Step.BUILD): 1.5,
    ("driver", Step.FIX): 1.3,
    ("kernel", Step.FIX): 1.3,
    ("kernel", Step.MINOR): 1.6,
}
"""Kind of what was released, how far it moved -> the largest slowdown that such releases usually have brought."""


def _too_large(found: Known, symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    """Where such a value makes much more than was seen."""
    if found.towards is not Towards.SLOW or found.makes is None or symptom.slowdown is None or symptom.failure:
        return
    least, slowdown = math.log(found.makes[0]), max(symptom.slowdown, symptom.terms.get("prefill", 0.0), 0.0)
    if slowdown < 0.7 * least:
        yield Evidence(f"Such a value makes ×{found.makes[0]:.3g} at least.", weights.bounds.too_large)


def _unread(candidate: Candidate) -> bool:
    """Whether a story all but rules it out."""
    return any(e.weight <= -STRONG for e in candidate.evidence)


def _told(candidate: Candidate) -> bool:
    """Whether a story speaks for it."""
    return any(e.weight >= FAIR for e in candidate.evidence)


def _release(candidate: Candidate, weights: Weights) -> Iterator[Evidence]:
    """By how far a version moved; where a story says what such a release did, that counts for more."""
    sizes = weights.releases
    if _told(candidate) and step_of(candidate.telling, driver=candidate.id == "driver") in (Step.FIX, Step.BUILD):
        return
    # NOTE: what a torch brought along (a Triton, a cuDNN) may have moved farther than torch itself.
    moved = candidate.changes if candidate.id == "package:torch" else candidate.telling
    match step_of(moved, driver=candidate.id == "driver"):
        case Step.MAJOR:
            yield Evidence("It is another major release.", sizes.major)
        case Step.MINOR:
            yield Evidence("It is another minor release.", sizes.minor)
        case Step.EARLY:
            yield Evidence("It is the next release of what has not come to 1.0, where each may bring anything.",
                           sizes.early)  # fmt: skip
        case Step.FIX:
            yield Evidence("It is a bug-fix release of the same branch.", sizes.fix)
        case Step.BUILD:
            yield Evidence("It is another build of the same release.", sizes.build)


def _failed(candidate: Candidate, symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    if symptom.failure and is_exchange(candidate):
        yield Evidence("Hangs and crashes come from the exchange between ranks oftener than from elsewhere.",
                       weights.mechanism.failed)  # fmt: skip


def _setting(candidate: Candidate, view: View, weights: Weights) -> Iterator[Evidence]:
    """By what the engine was told to do."""
    effects, setting = candidate.effects, view.setting
    if is_exchange(candidate) and setting.ranks == 1:
        yield Evidence("There is one rank alone, which exchanges nothing.", weights.mechanism.alone)
    if is_speculation(effects) and setting.speculative is False:
        yield Evidence("Nothing is speculated.", weights.mechanism.alone)
    if candidate.id in _LINKS and setting.nvlink and setting.communicates is not False:
        yield Evidence("The GPUs are joined by NVLink.", weights.mechanism.beside_nvlink)


def _size(bound: Bound | None, symptom: Symptom, weights: Weights) -> Iterator[Evidence]:
    """By how much of the slowdown it can explain."""
    if symptom.slowdown is None:
        return
    slowdown = max(symptom.slowdown, symptom.terms.get("prefill", 0.0) if symptom.slowdown < NOTICED else 0.0)
    if bound is None or slowdown < NOTICED:
        return
    sizes = weights.bounds
    part = math.log(bound.ratio) / slowdown
    if bound.measured and abs(part - 1) <= sizes.within:
        yield Evidence(f"{bound.says} That is as large as the slowdown, ×{math.exp(slowdown):.2f}.", sizes.same_size)
    elif part < 1 - sizes.within:
        rest = math.exp(slowdown) / max(bound.ratio, 1.0)
        yield Evidence(
            f"{bound.says} The slowdown is ×{math.exp(slowdown):.2f}, so that ×{rest:.2f} stays unexplained.",
            sizes.too_small * (1 - max(0.0, part)),
        )
