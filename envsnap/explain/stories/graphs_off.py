"""CUDA graphs are off, or no longer capture what is run.

Without graphs the host launches every kernel of every step: a verify step of a large model then takes about 30 ms,
whatever the GPU could do. An argument, a variable left over from debugging, a failed capture or a version that
changed its default can each switch them off; memory taken by graphs and the captured batch sizes tell what became
of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.setting import Setting
from envsnap.explain.stories._look import argument, argument_changes, is_on, variable, variable_changes
from envsnap.explain.story import Clue, Facts, Finding, View, after
from envsnap.explain.weights import STRONG
from envsnap.keys import instances_of

CODE = "graphs_off"
NEEDS = ("server[].argument[]", "record[].argument[]", "worker[].argv", "server[].dp[].graph_memory_bytes",
         "server[].dp[].graph_batch_sizes", "worker[].env[]")  # fmt: skip

_ARGUMENTS = ("*cuda_graph*", "enforce_eager", "*cudagraph*", "compilation_config*")
_SWITCHES = {
    "SGLANG_USE_BREAKABLE_CUDA_GRAPH": True,
    "SGLANG_DISABLE_CUDA_GRAPH": True,
    "SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH": True,
    "VLLM_USE_BREAKABLE_CUDAGRAPH": False,
    "VLLM_DISABLE_COMPILE_CACHE": True,
    "TORCH_COMPILE_DISABLE": True,
    "TORCHDYNAMO_DISABLE": True,
}
"""Variables -> the value with which graphs are off or in pieces."""


def tell(view: View) -> Iterator[Finding]:
    """Yield what switched graphs off on the slow side."""
    then, now = (_captured(facts, setting) for facts, setting in zip(view.sides, view.settings))
    shown = view.changed("server[].dp[].graph_batch_sizes", "record[].graph_batch_sizes[]")
    arguments = [c for c in argument_changes(view, *_ARGUMENTS) if "prefill" not in c.path]
    variables = [c for c in variable_changes(view, *_SWITCHES) if _is_off(view.slow, c.path) and after(c) is not None]
    causes = (*arguments, *variables, *(c for c in shown if not after(c)))
    if then and now is False:
        text = "Graphs were captured on the fast side, and none on the slow side: the host launches every kernel."
        if causes:
            yield Clue(text, STRONG, causes)
    elif variables:
        yield Clue(
            "It takes CUDA graphs away, or cuts them in pieces, and stands there from a workaround.",
            STRONG,
            tuple(variables),
        )
    if now is False and not then:
        on_both = "on both sides" if then is False else "on the slow side; of the fast one that was not recorded"
        yield Mistake(
            f"CUDA graphs are off {on_both}",
            "Each step waits for the host to launch its kernels. Start the server without --disable-cuda-graph, or "
            "find out why the capture failed.",
            tuple(view.slow.values("server[].dp[].graph_memory_bytes")) or ("server[0].argument[disable_cuda_graph]",),
        )
    elif _verifies_without(view):
        yield Mistake(
            "The verify step runs without CUDA graphs",
            "Decoding is captured and verifying is not: see which attention backend the engine captures it with.",
            tuple(view.slow.values("record[].graph_batch_sizes[]")),
        )


def _captured(facts: Facts, setting: Setting) -> bool | None:
    """Whether decoding runs from graphs on a side; None where nothing tells."""
    memory = [v for v in facts.values("server[].dp[].graph_memory_bytes").values() if isinstance(v, (int, float))]
    sizes = [*facts.values("server[].dp[].graph_batch_sizes").values()]
    sizes += [v for p, v in facts.values("record[].graph_batch_sizes[]").items() if p.endswith("[decode]")]
    if sizes:
        return any(sizes)
    if memory:
        return max(memory) > 0
    off = [argument(setting, name) for name in ("disable_cuda_graph", "enforce_eager", "disable_decode_cuda_graph")]
    if any(map(is_on, off)) or str(argument(setting, "cuda_graph_config.decode.backend")) == "disabled":
        return False
    return True if any(value is not None for value in off) else None


def _is_off(facts: Facts, path: str) -> bool:
    name = instances_of(path)[-1]
    value = variable(facts, name)
    return value is not None and is_on(value) is _SWITCHES.get(name, True)


def _verifies_without(view: View) -> bool:
    """Whether the slow side captured graphs for drafting and none for the step that verifies, as the fast side did."""
    held = [{instances_of(p)[1] for p in f.values("record[].graph_batch_sizes[]")} for f in view.sides]
    alike = "decode" not in held[0]
    return bool(view.setting.speculative) and alike and "draft" in held[1] and "decode" not in held[1]
