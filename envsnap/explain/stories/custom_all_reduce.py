"""The engine's own all-reduce is gated off, or should be.

SGLang and vLLM have an all-reduce for small messages that NCCL cannot match, and switch it off with a line in the
log at most: on several machines, for odd numbers of ranks, for more than two GPUs that NVLink does not join fully,
where their test of peer access fails. They keep that test's result in a file for ever, whatever driver or machine
comes after. Memory in expandable segments cannot be shared with it either. Over a peer path that a patched driver
opened it can also return wrong data, so that a draft's tokens are never accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.stories._look import argument, argument_changes, is_on, variable, variable_changes
from envsnap.explain.story import Clue, Facts, Finding, Together, View, after
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import Effect

CODE = "custom_all_reduce"
NEEDS = ("cache[].p2p_refused_count", "worker[].env[]", "server[].argument[]", "record[].argument[]", "worker[].argv",
         "nvidia.module_flavour")  # fmt: skip

_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_SIZES = (2, 4, 6, 8)


def tell(view: View) -> Iterator[Finding]:
    """Yield what takes the engine's all-reduce away on the slow side, or lets it run where it must not."""
    ranks = view.settings[1].ranks or view.setting.ranks
    if ranks == 1 or (view.setting.hosts or 1) > 1:
        return
    off = argument(view.settings[1], "disable_custom_all_reduce")
    if not is_on(off):
        yield from _segments(view)
        yield from _kept_test(view)
    yield from _reasons(view, ranks)
    yield from _wrong_data(view, is_on(off))


def _segments(view: View) -> Iterator[Finding]:
    changed = [c for c in variable_changes(view, *_ALLOCATOR) if _expands(str(after(c)))]
    if changed:
        yield Clue(
            "Memory in expandable segments cannot be shared with the other ranks: the engine's all-reduce gives "
            "way to NCCL, or fails.",
            FAIR,
            tuple(changed),
        )


def _expands(value: str) -> bool:
    return "expandable_segments:true" in value.lower().replace(" ", "")


def _kept_test(view: View) -> Iterator[Finding]:
    """The engine holds pairs for unreachable that the driver says are not."""
    refused = [_refused(facts) for facts in view.sides]
    if not refused[1] or not _all_reach(view.slow):
        return
    advice = "Delete gpu_p2p_access_cache_for_*.json in the engine's cache; it tests again at the next start."
    if refused[0] and _all_reach(view.fast):
        yield Mistake(
            "The engine's kept test says that GPUs do not reach each other; the driver says they do",
            advice,
            tuple(view.slow.values("cache[].p2p_refused_count")),
        )
        return
    changed = view.changed("cache[].p2p_refused_count", "cache[].p2p_sha256")
    if changed:
        yield Clue(
            "The engine's kept test says that GPUs do not reach each other, the driver says they do: it is out "
            "of date, and the engine's all-reduce is off.",
            STRONG,
            tuple(changed),
        )


def _refused(facts: Facts) -> int:
    return sum(v for v in facts.values("cache[].p2p_refused_count").values() if isinstance(v, int))


def _all_reach(facts: Facts) -> bool:
    pairs = [*facts.values("gpu_pair[].p2p_read").values(), *facts.values("gpu_pair[].p2p_write").values()]
    return bool(pairs) and all(pair == "ok" for pair in pairs)


def _reasons(view: View, ranks: int | None) -> Iterator[Finding]:
    """What the engine's own gate objects to now and did not before."""
    sizes = argument_changes(view, "tp_size", "tensor_parallel_size")
    then = view.settings[0].ranks
    if sizes and ranks and then in _SIZES and ranks not in _SIZES:
        yield Clue(f"The engine's all-reduce knows 2, 4, 6 and 8 ranks, not {ranks}.", FAIR, tuple(sizes))
    links = [
        c
        for c in view.changed("gpu[].nvlink[].active", "gpu_pair[].p2p_nvlink")
        if after(c) in (False, "not_supported")
    ]
    if links and (ranks or 2) > 2:
        yield Clue(
            "NVLink no longer joins all GPUs, so that the engine's all-reduce is off for more than two.",
            STRONG,
            tuple(links),
        )
    v2 = [c for c in variable_changes(view, "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2") if after(c) is not None]
    if v2 and not is_on(variable(view.slow, "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2")):
        yield Clue("The engine's newer all-reduce is switched off.", FAIR, tuple(v2))


def _wrong_data(view: View, off: bool) -> Iterator[Finding]:
    """Acceptance that collapsed with it on: it may compute on wrong data."""
    changed = [c for c in argument_changes(view, "disable_custom_all_reduce") if not is_on(after(c))]
    module = view.changed("nvidia.module_flavour", "nvidia.module[].text_parameter[]", "kernel.taints")
    collapsed = view.symptom.figures.get("accept_length", (0.0, 0.0))[1]
    if off or not (changed or module) or view.symptom.moved("accept_length") is not True:
        return
    if 0 < collapsed < 1.1 and view.setting.nvlink is not True:
        yield Together(
            "the engine's all-reduce over PCIe may return wrong data",
            "What is computed is wrong, so that nothing that was drafted is accepted: compare the answers first.",
            tuple(changed or module),
            (Effect.VALIDITY, Effect.ACCEPTANCE),
            (
                Evidence("Next to nothing is accepted any more, and a step takes no longer.", STRONG),
                Evidence("It exchanges over PCIe peer access, which a driver may open without making it right.", FAIR),
            ),
        )
