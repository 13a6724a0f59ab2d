"""The engine resolved a backend otherwise than before, though nobody asked it to.

Left to `auto`, the attention, sampling and expert kernels are chosen at start from the GPU, the CUDA and driver
version, whether FlashInfer is there, and the speculation's top-k. A package update, a missing wheel or one more
draft candidate changes the kernels of every step, and the arguments look the same. What was typed the same and
resolved to something else points to what decides it.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.explanation import Evidence
from envsnap.explain.stories._look import argument, argument_changes, package_changes, variable_changes
from envsnap.explain.stories._models import is_dense
from envsnap.explain.story import Clue, Finding, Together, View, after, before
from envsnap.explain.weights import FAIR, WEAK
from envsnap.keys import instances_of, pattern_of

CODE = "resolved_otherwise"
NEEDS = ("server[].argument[]", "record[].argument[]")

_BACKENDS = ("attention_backend", "*_attention_backend", "sampling_backend", "*moe_runner_backend", "*_gemm_backend",
             "*_gemm_runner_backend", "mm_attention_backend", "flashinfer_backend", "moe_a2a_backend", "kv_cache_dtype",
             "page_size")  # fmt: skip
_NAMES = ("server[].argument[]", "record[].argument[]", "server[].dp[].runtime_argument[]")


def tell(view: View) -> Iterator[Finding]:
    """Yield backends that changed by themselves, with what decided it."""
    changed = [
        c
        for c in argument_changes(view, *_BACKENDS)
        if not c.leaf and pattern_of(c.path) in _NAMES and after(c) != before(c)
    ]
    free = [c for c in changed if not _typed(view, instances_of(c.path)[-1])]
    dense = is_dense(view.slow, view.settings[1])
    backends = [c for c in free if "backend" in c.path and not (dense and "moe" in c.path)]
    if not backends:
        return
    causes, why = _why(view, backends)
    what = ", ".join(dict.fromkeys(f"{instances_of(c.path)[-1]} {before(c)} → {after(c)}" for c in backends))
    text = f"Nobody typed it: the engine chose {what} by itself."
    if causes:
        yield Together(
            f"{instances_of(backends[0].path)[-1]}: {before(backends[0])} → {after(backends[0])}, chosen by the engine",
            "Other kernels run in every step.",
            (*free, *causes),
            backends[0].key.effects,
            (Evidence(text, FAIR, tuple(c.path for c in backends)), Evidence(why, FAIR, tuple(c.path for c in causes))),
        )
    else:
        yield Clue(text, WEAK, tuple(free))


def _typed(view: View, name: str) -> bool:
    """Whether it was typed otherwise on one side than on the other."""
    option = f"[--{name}]"
    typed = [setting.typed.get(name) for setting in view.settings]
    return typed[0] != typed[1] or any(c.leaf == option for c in view.changes)


def _why(view: View, backends: list[Change]) -> tuple[list[Change], str]:
    """What decides such a choice and changed with it; empty where nothing known did."""
    flashinfer = [*package_changes(view, "flashinfer*"), *variable_changes(view, "SGLANG_IS_FLASHINFER_AVAILABLE")]
    involved = any("flashinfer" in str(v) for c in backends for v in (before(c), after(c)))
    gone = [c for c in flashinfer if after(c) is None]
    if gone and involved:
        return gone, "FlashInfer is not there any more."
    topk = argument_changes(view, "speculative_eagle_topk", "speculative_num_draft_tokens")
    wide = argument(view.settings[1], "speculative_eagle_topk")
    if topk and str(wide).isdecimal() and int(wide) > 1:
        return topk, f"With {wide} candidates a draft step the engine takes other attention kernels."
    if flashinfer and involved:
        return flashinfer, "FlashInfer changed, and with it what the engine takes by default."
    driver = view.changed("nvml.driver_version", "nvml.cuda_driver_version", "nvidia.module_version")
    moe = any("moe" in c.path for c in backends)
    if driver and moe:
        return driver, "The driver changed, and some expert kernels are chosen by its version."
    gpu = view.changed("gpu[].compute_capability", "gpu[].name")
    if gpu:
        return gpu, "The kernels are chosen by the GPU's architecture."
    engine = [*view.changed("server[].version", "record[].engine_version"), *package_changes(view, "sglang", "vllm")]
    if engine:
        return engine, "The engine's version changed, and with it its defaults."
    return [], ""
