"""One setting by two names: a variable and an argument of an engine that decide the same.

Engines read a variable as the default of an argument, or write one from it: both then differ, and nobody changed both
for two reasons.
"""

from __future__ import annotations

import re

_FILLING = frozenset({"enable", "use", "set", "config", "opt", "enabled", "runner"})
"""Words that a name may have and its other not."""

# Variable (a regular expression) -> the arguments that it decides or is written from, where the words do not tell.
_KNOWN: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = tuple(
    (re.compile(variable), frozenset(arguments.split()))
    for variable, arguments in (
        # NCCL's, which SGLang writes from its arguments.
        (r"NCCL_NVLS_ENABLE", "enable_nccl_nvls enable_symm_mem"),
        (r"NCCL_CUMEM_ENABLE", "enable_symm_mem"),
        # Kernels that a variable chooses, and the argument that took its place or tells the choice.
        (r"SGL(ANG)?_ENABLE_JIT_DEEPGEMM|VLLM_USE_DEEP_GEMM", "fp8_gemm_runner_backend fp8_gemm_backend "
                                                              "moe_runner_backend moe_backend"),
        (r"SGLANG_ENABLE_FLASHINFER_(FP8_)?GEMM|SGLANG_SUPPORT_CUTLASS_BLOCK_FP8", "fp8_gemm_runner_backend "
                                                                                   "fp8_gemm_backend"),
        (r"SGLANG_\w*FP4_GEMM\w*", "fp4_gemm_runner_backend fp4_gemm_backend"),
        (r"SGLANG_CUTLASS_MOE|VLLM_USE_FLASHINFER_MOE_\w+|VLLM_FLASHINFER_MOE_BACKEND",
         "moe_runner_backend moe_backend"),
        (r"SGLANG_\w*ALL_?REDUCE_V2|VLLM_ALLREDUCE_USE_\w+", "disable_custom_all_reduce"),
        (r"VLLM_USE_TRTLLM_ATTENTION|VLLM_USE_TRITON_FLASH_ATTN|VLLM_ROCM_USE_AITER\w*|SGLANG_USE_AITER|VLLM_MLA_DISABLE",
         "attention_backend attention_config.backend"),
        (r"VLLM_USE_(BREAKABLE_)?CUDAGRAPH", "cuda_graph"),
        (r"VLLM_TORCH_COMPILE_LEVEL", "compilation_config.level compilation_config.mode"),
        (r"TORCH(DYNAMO|_COMPILE)_DISABLE", "compilation_config.level compilation_config.mode enable_torch_compile"),
        # Placement.
        (r"CUDA_VISIBLE_DEVICES", "base_gpu_id gpu_id_step"),
        (r"SGLANG_(AUTO_NUMA_BIND|NUMA_BIND_V2)|VLLM_\w*NUMA\w*", "numa_node numa_bind"),
    )
)  # fmt: skip


def same_setting(variable: str, argument: str) -> bool:
    """Whether a variable and an argument (`attention_config.backend`) are names of one setting.

    By the table, or where all telling words of the argument, two at least, stand in the variable's name.
    """
    section, _, name = argument.rpartition(".")
    if any(pattern.fullmatch(variable) and {name, argument} & arguments for pattern, arguments in _KNOWN):
        return True
    if "_" in name and variable.endswith(f"_{name.upper()}"):
        return True
    # NOTE: where arguments stand in sections, the section's name is a part of some: `attention_config.backend`.
    names = [_telling(name), _telling(f"{section.rpartition('.')[2]}_{name}")]
    return any(len(words) >= 2 and words <= _telling(variable) for words in names)


def _telling(name: str) -> frozenset[str]:
    words = name.lower().replace("cudagraph", "cuda_graph").replace("allreduce", "all_reduce").split("_")
    return frozenset("speculative" if word == "spec" else word for word in words) - _FILLING - {""}
