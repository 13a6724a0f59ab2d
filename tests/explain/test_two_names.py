"""A variable and an argument that are names of one setting."""

from __future__ import annotations

import pytest

from envsnap.explain.two_names import same_setting


@pytest.mark.parametrize(
    ("variable", "argument"),
    [
        ("SGLANG_ENABLE_TORCH_COMPILE", "enable_torch_compile"),
        ("SGLANG_TORCH_COMPILE", "enable_torch_compile"),
        ("SGLANG_SPEC_NUM_STEPS", "speculative_num_steps"),
        ("SGLANG_MOE_BACKEND", "moe_runner_backend"),
        ("NCCL_NVLS_ENABLE", "enable_nccl_nvls"),
        ("VLLM_ATTENTION_BACKEND", "attention_config.backend"),
        ("VLLM_ALL2ALL_BACKEND", "parallel_config.all2all_backend"),
        ("SGL_ENABLE_JIT_DEEPGEMM", "fp8_gemm_runner_backend"),
        ("VLLM_USE_DEEP_GEMM", "kernel_config.moe_backend"),
        ("VLLM_TORCH_COMPILE_LEVEL", "compilation_config.mode"),
    ],
)
def test_one_setting(variable: str, argument: str) -> None:
    assert same_setting(variable, argument)


@pytest.mark.parametrize(
    ("variable", "argument"),
    [
        ("NCCL_PROTO", "page_size"),
        ("SGLANG_CHUNKED_PREFIX_CACHE_THRESHOLD", "disable_chunked_prefix_cache"),
        ("VLLM_ATTENTION_BACKEND", "structured_outputs_config.backend"),
        ("SGLANG_LOG_LEVEL", "compilation_config.level"),
        ("VLLM_LOG_STATS_INTERVAL", "stream_interval"),
        ("SGLANG_ENABLE_PROFILING", "enable_lora"),
        ("OMP_NUM_THREADS", "num_reserved_decode_tokens"),
    ],
)
def test_two_settings(variable: str, argument: str) -> None:
    assert not same_setting(variable, argument)
