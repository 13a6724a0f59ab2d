"""Names that several parts of envsnap know: variables that spoil a measurement, and what their values mean.

What a change of a variable can do stands beside its key (`collectors/_env_rules.py`) and in `explain/harm_tables.py`;
here is only what is wrong by itself, whatever it was before.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

ON = frozenset({"1", "true", "yes", "on", "y", "t"})
OFF = frozenset({"", "0", "false", "no", "off", "n", "f", "none"})

DEBUGGING: dict[str, str] = {
    "CUDA_LAUNCH_BLOCKING": "every kernel launch waits for its kernel",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every allocation goes to the driver",
    "SGLANG_SIMULATE_ACC_LEN": "acceptance is made up",
    "SGLANG_SIMULATE_ACC_METHOD": "acceptance is made up",
    "SGLANG_SIMULATE_UNIFORM_EXPERTS": "expert loads are made up",
    "SGLANG_DEBUG_*": "the engine debugs itself",
    "SGLANG_TEST_*": "a switch for the engine's own tests",
    "SGLANG_IS_IN_CI": "the engine behaves as in its own tests",
    "SGLANG_INVARIANT_CHECK": "the engine checks itself while it runs",
    "SGLANG_ENABLE_ASYNC_ASSERT": "the engine checks itself on the GPU",
    "SGLANG_FORCE_FUSED_OP_BACKEND": "kernels are chosen by hand",
    "VLLM_TRACE_FUNCTION": "every call is written down",
    "VLLM_DEBUG_*": "the engine debugs itself",
    "TORCH_DISTRIBUTED_DEBUG": "every collective is checked against the other ranks",
    "TORCH_SHOW_CPP_STACKTRACES": "errors carry stack traces",
    "PYTHONDEVMODE": "Python checks itself",
    "PYTHONTRACEMALLOC": "Python traces allocations",
    "PYTHONASYNCIODEBUG": "asyncio checks itself",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": "the GPU waits for a debugger",
    "COMPUTE_SANITIZER_*": "every memory access is checked",
    "NSYS_*": "a profiler is attached",
    "LD_DEBUG": "the loader logs what it does",
    "MALLOC_CHECK_": "every allocation is checked",
    "NCCL_DEBUG": "every call of NCCL is logged",
}
"""Variables (patterns) under which a run measures something else than the engine, and what they do.

NOTE: some are harmless up to a point: see `is_debugging`.
"""

_HARMLESS: dict[str, frozenset[str]] = {
    "NCCL_DEBUG": frozenset({"", "version", "warn", "info", "abort"}),
    "TORCH_DISTRIBUTED_DEBUG": OFF | {"info"},
    "TORCH_SHOW_CPP_STACKTRACES": OFF | ON,
}


def is_debugging(name: str, value: str) -> str:
    """What a variable spoils with that value; empty where nothing."""
    low = value.strip().lower()
    for pattern, says in DEBUGGING.items():
        if fnmatchcase(name, pattern):
            return "" if low in _HARMLESS.get(pattern, OFF) or low == "-1" else says
    return ""


FORCED_IN_NCCL = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
                  "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_BUFFSIZE", "NCCL_GRAPH_FILE", "NCCL_TUNER_CONFIG_FILE",
                  "NCCL_NCHANNELS_PER_NET_PEER", "NCCL_P2P_NET_CHUNKSIZE")  # fmt: skip
"""Variables that take a choice from NCCL that its own model makes by size and topology."""

ENGINE_OF_VARIABLE: dict[str, str] = {
    "SGLANG_": "sglang",
    "SGL_": "sglang",
    "VLLM_": "vllm",
    "TRTLLM_": "tensorrt_llm",
    "TLLM_": "tensorrt_llm",
}
"""Prefix of a variable -> the engine that reads it."""
