"""It belongs to something that is not in use.

Variables of an engine that does not run, arguments of features that are off on both sides, settings of an attention
library that no backend uses, NCCL's where ranks exchange by something else: they differ, and nothing reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.ranks import ranks
from envsnap.explain.setting import Setting
from envsnap.explain.stories._look import argument, argument_changes, is_on, package_changes, variable_changes
from envsnap.explain.stories._models import is_dense
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of
from envsnap.known_names import ENGINE_OF_VARIABLE

CODE = "not_in_use"
NEEDS = ("worker[].env[]", "server[].argument[]", "record[].argument[]", "worker[].argv", "env[]", "package[].version")

_FEATURES: dict[str, tuple[str, ...]] = {
    "speculative_algorithm speculative_config": ("speculative_*", "spec_*", "enable_multi_layer_eagle"),
    "enable_lora lora_paths": ("lora_*", "max_lora*", "max_loras*"),
    "enable_hierarchical_cache": ("hicache_*",),
    "enable_eplb": ("eplb_*", "ep_num_redundant_experts"),
    "enable_dp_attention": ("enable_dp_lm_head", "dp_attention_*"),
    "enable_two_batch_overlap": ("tbo_*",),
    "enable_torch_compile": ("torch_compile_*",),
    "disaggregation_mode": ("disaggregation_*", "pd_*", "mooncake_*"),
    "enable_metrics": ("bucket_*", "*_histogram", "prompt_tokens_buckets", "generation_tokens_buckets"),
    "enable_trace": ("trace_*", "otlp_*", "*_trace_*"),
    "enable_elastic_ep elastic_ep_backend": ("elastic_ep_*",),
    "enable_mixed_chunk enable_pdmux": ("pdmux_*",),
    "tool_call_parser": ("tool_*",),
    "enable_hisparse": ("hisparse_*",),
}
"""Arguments that switch a feature on (any of them) -> those that it alone reads."""
_EXPERTS = ("moe_*", "*_moe_*", "ep_size", "expert_*", "eplb_*", "enable_eplb", "deepep_*", "moe_dense_tp_size",
            "*expert*")  # fmt: skip
_VARIABLES_OF_EXPERTS = ("SGLANG_*MOE_*", "VLLM_*MOE_*", "*_DEEPEP_*")
_NONE = ("null", "none", "")
_VARIABLES_OF = {
    "FLASHINFER_": ("flashinfer",),
    "FLASH_ATTENTION_": ("fa", "flash"),
    "TRTLLM_": ("trtllm", "flashinfer"),
}


_GRAPH_SIZES = ("cuda_graph_config.{}.max_bs", "cuda_graph_config.{}.bs", "cuda_graph_config.{}.tc_compiler")
"""Arguments of the CUDA graphs of a phase, which nothing reads where none are captured."""


def tell(view: View) -> Iterator[Finding]:
    """Yield changes of what nothing reads."""
    yield from _features(view)
    yield from _graphs(view)
    engine = _engine(view)
    other: list[Change] = []
    for prefix, owner in ENGINE_OF_VARIABLE.items():
        if engine and owner != engine and not (engine == "sglang" and prefix == "TRTLLM_"):
            other += variable_changes(view, f"{prefix}*")
    if other:
        yield Clue(f"The engine is {engine}, which does not read it.", -STRONG, tuple(other))
    if all(setting.arguments for setting in view.settings):
        yield from _libraries(view)
    yield from _nccl(view)


def _features(view: View) -> Iterator[Finding]:
    for switches, names in _FEATURES.items():
        known = [_is_off(setting, switches.split()) for setting in view.settings]
        if all(known):
            found = [c for c in argument_changes(view, *names) if instances_of(c.path)[-1] not in switches.split()]
            if found:
                yield Clue(f"{switches.split()[0]} is off on both sides: nothing reads it.", -STRONG, tuple(found))
    if all(is_dense(facts, setting) for facts, setting in zip(view.sides, view.settings)):
        found = [*argument_changes(view, *_EXPERTS), *variable_changes(view, *_VARIABLES_OF_EXPERTS)]
        if found:
            yield Clue("The model has no experts.", -STRONG, tuple(found))


def _graphs(view: View) -> Iterator[Finding]:
    """Sizes of CUDA graphs that are not captured on either side."""
    for phase in ("decode", "prefill"):
        backends = [setting.arguments.get(f"cuda_graph_config.{phase}.backend") for setting in view.settings]
        if backends == ["disabled", "disabled"]:
            found = argument_changes(view, *(name.format(phase) for name in _GRAPH_SIZES))
            if found:
                yield Clue(f"No graph of {phase} is captured on either side: nothing reads it.", -STRONG, tuple(found))


def _is_off(setting: Setting, switches: list[str]) -> bool:
    """Whether a feature is known to be off: resolved arguments name every one that has a value."""
    if len(setting.arguments) < 20:  # typed arguments alone: a default is not known
        return False
    return not any(
        is_on(v) and json.dumps(v) not in _NONE and str(v).lower() not in _NONE
        for v in (argument(setting, name) for name in switches)
    )


def _engine(view: View) -> str:
    """The engine that runs on both sides; empty where that is not known."""
    found = set()
    for facts in view.sides:
        named = [*facts.values("server[].engine").values(), *facts.values("record[].engine").values()]
        words = " ".join(str(v) for v in facts.values("worker[].argv").values())
        guessed = [name for name in ("sglang", "vllm") if name in words]
        found.add(str(named[0]) if named else guessed[0] if len(guessed) == 1 else "")
    return found.pop() if len(found) == 1 else ""


def _nccl(view: View) -> Iterator[Finding]:
    """What is NCCL's, where it is known of both sides that no rank can use it."""
    why = [_without_nccl(facts, setting) for facts, setting in zip(view.sides, view.settings)]
    found = [*variable_changes(view, "NCCL_*", "TORCH_NCCL_*"), *view.changed("nccl.conf[].set[]")]
    if not package_changes(view, "torch"):  # NOTE: a torch brings its NCCL along, and acts on more than that
        found += [*package_changes(view, "nvidia-nccl*"), *view.changed("library[*nccl*].version")]
    if found and all(why):
        yield Clue(f"{why[1]}: nothing reads what is NCCL's.", -STRONG, tuple(found))


def _without_nccl(facts: Facts, setting: Setting) -> str:
    """In words why one side's ranks use no NCCL; empty where they may."""
    if str(argument(setting, "device")).partition(":")[0] == "cpu":
        return "The engine runs on CPUs"
    if "gloo" in (argument(setting, "dist_backend"), argument(setting, "distributed_backend")):
        return "The ranks exchange by gloo"
    if facts.get("nvml.gpu_count") == 0:
        return "The machine has no GPU"
    mapped: dict[str, set[str]] = {}
    for path in facts.values("worker[].library[].path"):
        role, kind = instances_of(path)
        mapped.setdefault(role, set()).add(kind)
    held = [mapped.get(role, set()) for role in ranks(facts)]
    if held and all(held) and not any("nccl" in kind for kinds in held for kind in kinds):
        return "No rank has NCCL loaded"
    return ""


def _libraries(view: View) -> Iterator[Finding]:
    """Variables of kernel libraries that no resolved backend names."""
    used = " ".join(str(v) for s in view.settings for n, v in s.arguments.items() if "backend" in n).lower()
    auto = "auto" in used.split()
    for prefix, words in _VARIABLES_OF.items():
        found = variable_changes(view, f"{prefix}*")
        if found and used and not any(word in used for word in words):
            yield Clue(
                "No backend that was resolved names the library that reads it.",
                -FAIR if auto else -STRONG,
                tuple(found),
            )
