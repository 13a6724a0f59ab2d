"""The two hypotheses that no captured change is the cause, and how likely the figures make them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from envsnap.explain.explanation import Evidence
from envsnap.explain.story import Facts
from envsnap.explain.symptom import Symptom, telling
from envsnap.explain.weights import Nulls
from envsnap.runs.compare import Comparison, Judged
from envsnap.runs.verdict import SAME_WITHIN, Design, Outcome

_SAME = 4.0
_TWO_MODES = 2.0
_LEAST = {Design.INTERLEAVED: -4.0, Design.BLOCKS: -3.0, Design.SINGLE: -0.5}
"""The most that a design can say against it: single runs that differ widely may still be two accidents."""

TELLING = (
    ("the workers' environment", ("worker[].env[]", "record[].env[]")),
    ("the libraries that workers map", ("worker[].library[].version", "worker[].library[].build_id")),
    ("server arguments", ("server[].argument[]", "record[].argument[]", "worker[].argv")),
    ("what NCCL chose", ("nccl.rank[].transport[]",)),
    ("the GPUs under load", ("during.gpu[].sm_clock_median_mhz",)),
    ("the driver", ("nvml.driver_version",)),
    ("the code", ("repo[].tree_id", "repo[].head")),
    ("packages", ("package[].version",)),
    ("the environment", ("env[]", "worker[].env[]")),
)
"""What causes come from, and the keys of which one tells that it was recorded."""


_OF_GPUS = frozenset({"what NCCL chose", "the GPUs under load", "the driver"})
"""What a server on CPUs has none of."""


def unread(fast: Facts, slow: Facts) -> list[str]:
    """Of what causes come from, what a side does not hold, in words."""
    both = (fast, slow)
    none = _OF_GPUS if all(_is_on_cpus(facts) for facts in both) else frozenset()
    return [what for what, keys in TELLING if what not in none and not all(any(map(f.has, keys)) for f in both)]


def _is_on_cpus(facts: Facts) -> bool:
    """Whether the engine says that it computes on CPUs."""
    devices = [*facts.values("server[].argument[]").items(), *facts.values("record[].argument[]").items()]
    return {value for path, value in devices if path.endswith(".argument[device]")} == {"cpu"}


def outside(missing: Sequence[str], nulls: Nulls) -> tuple[float, list[Evidence]]:
    """Prior of a cause that was not captured, and what speaks for it."""
    share = len(missing) / len(TELLING)
    prior = nulls.outside + nulls.outside_unread * share
    if not missing:
        return prior, []
    return prior, [Evidence(f"One side or both do not hold {listed_words(missing)}.", 0.0)]


def listed_words(words: Sequence[str], most: int = 5) -> str:
    """`a, b and c`."""
    shown = list(words[:most]) + ([f"{len(words) - most} more"] if len(words) > most else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def not_reproducible(
    symptom: Symptom, comparison: Comparison | None, spread_known: bool, nulls: Nulls
) -> list[Evidence]:
    """What the runs say for and against a difference that will not come back.

    `spread_known`: history tells how much sessions of this configuration differ by themselves.
    """
    if symptom.failure:
        return [Evidence(f"Every run of the slow side failed ({symptom.failure}).", nulls.failed)]
    if comparison is None or symptom.gap is None:
        return [Evidence("No speed is known of the two sides: that one is slower is taken on trust.", 0.0)]
    gap = max(symptom.gap, 0.0)
    words = f"×{math.exp(gap):.2f}"
    if symptom.outcome is Outcome.SAME:
        return [Evidence(f"The two sides are as fast as each other, within {SAME_WITHIN:.0%}.", _SAME)]
    shown = telling(comparison)
    own = comparison.design is Design.INTERLEAVED or spread_known
    weight = _likelihood(gap, _error(shown) if own else None, nulls)
    most = nulls.decided if symptom.outcome is Outcome.DIFFERENT else _SAME
    weight = max(_LEAST[comparison.design], min(most, weight))
    found = []
    if symptom.outcome is Outcome.DIFFERENT:
        design = "interleaved runs" if comparison.design is Design.INTERLEAVED else "repeated runs"
        found.append(Evidence(f"The {design} differ by more than such runs do by themselves ({words}).", weight))
    elif comparison.design is Design.SINGLE:
        found.append(Evidence(f"One run a side shows nothing by itself, though {words} is {_large(gap)}.", weight))
    else:
        found.append(Evidence(f"The runs do not settle whether the sides differ ({words}).", weight))
    if symptom.outcome is not Outcome.DIFFERENT and (steady := _steady(comparison)):
        found.append(
            Evidence(f"Decoding is as fast on both sides ({steady}), where most causes would show.", nulls.steady)
        )
    if any("two modes" in note for j in comparison.judged for note in j.verdict.notes):
        found.append(
            Evidence("The runs of one side fall into two modes: one configuration has two speeds.", _TWO_MODES)
        )
    return found


_DECODING = ("stream_tokens_per_second", "tpot_seconds")
"""What a step and its acceptance make together."""


def _steady(comparison: Comparison) -> str:
    """The metric of decoding that was shown to be the same, with its ratio in words; empty where none was."""
    for judged in comparison.judged:
        if judged.metric.name in _DECODING and judged.verdict.outcome is Outcome.SAME:
            return f"{judged.metric.name} ×{judged.verdict.ratio:.3f}"
    return ""


def _large(gap: float) -> str:
    return "a large gap" if gap > math.log(1.2) else "a gap that two sessions can have by chance"


def _error(judged: Judged | None) -> float | None:
    """Standard error of the logarithm of the ratio, by the verdict's interval."""
    if judged is None or judged.verdict.low is None or judged.verdict.high is None:
        return None
    return max(1e-3, (math.log(judged.verdict.high) - math.log(judged.verdict.low)) / (2 * 1.96))


def _likelihood(gap: float, error: float | None, nulls: Nulls) -> float:
    """Logarithm of how much likelier such a gap is if nothing lasts than if there is a cause.

    Noise has heavy tails (Student's t with three degrees of freedom); true slowdowns are exponential. Without a known
    error it is that between two sessions of one configuration.
    """
    error = nulls.session if error is None else error
    z = gap / error
    noise = 2 / (math.pi * math.sqrt(3) * (1 + z * z / 3) ** 2) / error
    # NOTE: a gap is taken without its sign, so that both tails of the noise count.
    return math.log(2 * noise) - (math.log(1 / nulls.effect) - gap / nulls.effect)
