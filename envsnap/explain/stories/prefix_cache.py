"""The prefix cache was warm on one side.

A benchmark that sends the same prompts again finds them in the cache: prefill costs nothing, and the time to the
first token and the throughput are another benchmark's. Flush the cache between runs, or send other prompts.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain.explanation import Evidence
from envsnap.explain.stories._look import CACHED, argument, argument_changes, cached_share, is_on, seen_as_change
from envsnap.explain.story import Clue, Facts, Finding, Together, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import Effect
from envsnap.reading import Value

CODE = "prefix_cache"
NEEDS = ("server[].metric[]", "server[].argument[]", "record[].argument[]")

_RATE = "sglang:cache_hit_rate"
_ARGUMENTS = (
    "disable_radix_cache",
    "enable_prefix_caching",
    "radix_*",
    "enable_hierarchical_cache",
    "chunked_prefill_size",
)
_NONE = 0.01
"""Part of prompt tokens up to which a cache has given nothing: a beginning that all prompts share."""
_APART = 0.15


def tell(view: View) -> Iterator[Finding]:
    """Yield a cache that answered on the fast side and not on the slow one."""
    if all(is_on(argument(setting, "disable_radix_cache")) for setting in view.settings):
        return
    switched = [c for c in argument_changes(view, *_ARGUMENTS) if "chunked" not in c.path]
    rates = [_rate(facts) for facts in view.sides]
    counted = [cached_share(facts) for facts in view.sides]
    if switched and all(share is not None and share < _NONE for share in counted):
        yield Clue("Nothing of the prompts was found in a cache on either side.", -STRONG, tuple(switched))
    elif switched:
        yield Clue(
            "Whether prompts are found in a cache changed, so that prefill is another work.", FAIR, tuple(switched)
        )
    if rates[0] is None or rates[1] is None or rates[0] - rates[1] < _APART:
        return
    path = f'server[0].metric["{_RATE}"]'
    change = seen_as_change(view, CACHED) or Change(
        path, key_for(path), Value(round(rates[0], 3)), Value(round(rates[1], 3))
    )
    yield Together(
        "the prefix cache was warm on the fast side",
        "Prompts that were sent before cost no prefill.",
        (change,),
        (Effect.PREFILL, Effect.WORKLOAD),
        (
            Evidence(
                f"{rates[0]:.0%} of the prompts' tokens were found in the cache, and {rates[1]:.0%} on the slow side.",
                STRONG if view.symptom.terms.get("prefill", 0.0) > 0.04 else FAIR,
                (change.path,),
            ),
        ),
        prior=0.5,
    )


def _rate(facts: Facts) -> float | None:
    """The share of prompt tokens that were found in the cache: by the benchmark, else by the server."""
    for run in facts.side.runs:
        for metric in run.metrics:
            if metric.name in ("cache_hit_rate", "prefix_cache_hit_rate"):
                return metric.value
    # NOTE: what the server counted over the run; its gauge is of the moment before.
    if (counted := cached_share(facts)) is not None:
        return counted
    found = [v for p, v in facts.values("server[].metric[]").items() if _RATE in p and isinstance(v, (int, float))]
    return float(found[0]) if found else None
