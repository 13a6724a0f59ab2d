"""Kernels are compiled or tuned while it is measured.

A cache that was moved, emptied or filled by another version is cold: kernels are compiled at the first request of
each shape, 39 instead of 43 tokens a second, or 42 s for the first request. What grew in the caches during the
measured time was compiled then; one that holds fewer files than before was emptied, and one that holds many more was
filled for other shapes or by another version, whether it is called warm or not. Autotuned tables are draws of timings,
so that a new draw is another speed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain.explanation import Evidence
from envsnap.explain.stories._look import variable_changes
from envsnap.explain.story import Clue, Facts, Finding, Together, View, after, before
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.keys import Effect, instances_of, path_of
from envsnap.reading import Value
from envsnap.runs.cache_growth import grown as grown_in
from envsnap.wording import plural

CODE = "cold_cache"
NEEDS = ("cache[].warm", "cache[].path", "cache[].entries_count", "cache[].tuned_sha256")

_VARIABLES = ("*CACHE_DIR", "*CACHE_PATH", "*CACHE_ROOT", "XDG_CACHE_HOME", "*_WORKSPACE_BASE", "TRITON_HOME", "HOME",
              "CUDA_CACHE_*", "SGLANG_FLASHINFER_AUTOTUNE_CACHE", "TVM_FFI_*")  # fmt: skip
_EFFECTS = (Effect.COMPUTE, Effect.HOST_LAUNCH, Effect.PREFILL, Effect.VALIDITY)


def tell(view: View) -> Iterator[Finding]:
    """Yield caches that were cold, or filled during the measurement."""
    cold = {
        instances_of(c.path)[0]: c for c in view.changed("cache[].warm") if before(c) is True and after(c) is not True
    }
    moved = [c for c in view.changed("cache[].path", "cache[].moved_by") if instances_of(c.path)[0] in cold]
    grown = _grown(view, cold)
    if cold:
        how = (*moved, *variable_changes(view, *_VARIABLES)) if moved else ()
        # NOTE: what is compiled at the first request delays its first token; later steps have it.
        weight = WEAK if view.symptom.moving == {"step"} else FAIR
        evidence = [Evidence("Its caches held kernels on the fast side, and nothing on the slow side.", weight)]
        if grown:
            evidence.append(Evidence(f"{_words(grown)} while the slow side was measured.", STRONG))
        yield Together(
            f"cold caches of compiled kernels ({', '.join(sorted(cold)[:4])})",
            "Kernels are compiled or tuned at the first request that needs them.",
            (*cold.values(), *how, *grown, *_sampled(view, grown)),
            _EFFECTS,
            tuple(evidence),
        )
    elif grown:
        yield Together(
            f"kernels compiled while it was measured ({', '.join(instances_of(c.path)[0] for c in grown[:4])})",
            "A request waits for the compiler.",
            (*grown, *_sampled(view, grown)),
            _EFFECTS,
            (Evidence(f"{_words(grown)} during the slow side's runs, and hardly during the fast side's.", STRONG),),
            prior=0.4,
        )
    yield from _other_content(view, {*cold, *(instances_of(c.path)[0] for c in grown)})
    tuned = view.changed("cache[].tuned_sha256", "cache[].tuned_count")
    if tuned:
        yield Clue(
            "Kernels were tuned anew: tuning is a draw of timings, and another draw is another speed.",
            WEAK,
            tuple(tuned),
        )


_NOTABLE = 20
"""Files by which a cache of compiled kernels differs from a day to the next, in the course of ordinary work."""


def _other_content(view: View, told: Collection[str]) -> Iterator[Finding]:
    """Caches that are warm on both sides and hold far fewer or many more files on the slow side."""
    found: dict[bool, list[Change]] = {}
    for path, now in view.slow.values("cache[].entries_count").items():
        name, then = instances_of(path)[0], view.fast.get(path)
        if name in told or name in _NOT_COMPILED or not isinstance(then, int) or not isinstance(now, int):
            continue
        fewer, more = now < then / 2 and then >= _NOTABLE, now - then >= max(_NOTABLE, then / 4)
        if then and (fewer or more):
            found.setdefault(fewer, []).append(Change(path, key_for(path), Value(then), Value(now)))
    for fewer, changes in found.items():
        names = ", ".join(instances_of(c.path)[0] for c in changes[:4])
        first = view.symptom.moving == {"prefill"}
        yield Together(
            f"caches of compiled kernels {'emptied in part' if fewer else 'filled since'} ({names})",
            "A request waits for the compiler, or kernels of another version or for other shapes run.",
            tuple(changes),
            _EFFECTS[:3],
            (Evidence(f"{_counted(changes)}.", FAIR if fewer or first else WEAK),),
            prior=0.2,
        )


def _counted(changes: list[Change]) -> str:
    then, now = (sum(int(side(c) or 0) for c in changes) for side in (before, after))
    return f"They hold {plural(now, 'file')}, and held {then:,} on the fast side"


def _sampled(view: View, grown: list[Change]) -> list[Change]:
    """The same growth as the run itself recorded it: one event, and no suspect beside it."""
    names = {instances_of(c.path)[0] for c in grown}
    return [c for c in view.changed("during.cache[].grown_count") if instances_of(c.path)[0] in names]


_NOT_COMPILED = ("hf_hub",)
"""Caches of other things than kernels."""
_FEW = 3
"""Files that come into a warm cache now and then; into a cold one, each was compiled."""


def _grown(view: View, cold: Collection[str]) -> list[Change]:
    """Caches that grew during the slow side's runs and not during the fast side's, as changes of what was added."""
    sides = [_growth(facts) for facts in view.sides]
    found = []
    for name, count in sides[1].items():
        then = sides[0].get(name, 0)
        if count >= (1 if name in cold else _FEW) and count > 4 * then and name not in _NOT_COMPILED:
            path = path_of("cache[].entries_count", name)
            found.append(Change(path, key_for(path), Value(then), Value(count)))
    return found


def _growth(facts: Facts) -> dict[str, int]:
    """Files that came into each cache between before and after a run, the most of all runs."""
    found = {
        instances_of(path)[0]: count
        for path, count in facts.values("during.cache[].grown_count").items()
        if isinstance(count, int)
    }
    for run in facts.side.runs:
        first, last = run.snapshots.get("before"), run.snapshots.get("after")
        if first is None or last is None:
            continue
        for path, count in grown_in(first, last).items():
            name = instances_of(path)[0]
            found[name] = max(found.get(name, 0), int(count))
    return found


def _words(grown: list[Change]) -> str:
    added = sum(int(after(c) or 0) for c in grown)
    return f"{added} files came into them"
