"""Variables for debugging or for tests are set.

Some make a run no measurement at all (a simulated acceptance length, a launch that waits for its kernel), others write
a log line for each call or check what need not be checked. Fix: unset them for any measurement.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "debug_variables"
SEVERITY = ERROR
NEEDS = ("env[]",)

_OFF = ("", "0", "false", "no", "off")
_RULES = (
    ("CUDA_LAUNCH_BLOCKING", ERROR, "every launch waits for its kernel"),
    ("SGLANG_SIMULATE_ACC_LEN", ERROR, "acceptance lengths are invented"),
    ("SGLANG_SIMULATE_*", ERROR, "results are simulated"),
    ("SGLANG_TEST_*", WARNING, "a switch of SGLang's own tests"),
    ("SGLANG_IS_IN_CI", WARNING, "SGLang behaves as in its own test runs"),
    ("SGLANG_DEBUG_*", WARNING, "a debugging switch"),
    ("SGLANG_INVARIANT_CHECK", WARNING, "SGLang checks itself"),
    ("SGLANG_ENABLE_ASYNC_ASSERT", WARNING, "SGLang checks itself on the GPU"),
    ("SGLANG_USE_BREAKABLE_CUDA_GRAPH", WARNING, "graphs run in pieces"),
    ("SGLANG_RECORD_STEP_TIME", WARNING, "every step is timed"),
    ("VLLM_USE_BREAKABLE_CUDAGRAPH", WARNING, "graphs run in pieces or not at all"),
    ("VLLM_TRACE_FUNCTION", ERROR, "every function call is logged"),
    ("TORCH_LOGS", WARNING, "torch logs its compiler"),
    ("TORCH_COMPILE_DEBUG", WARNING, "torch writes out its compiler's work"),
    ("TORCHDYNAMO_DISABLE", WARNING, "nothing is compiled"),
    ("TORCH_DISTRIBUTED_DEBUG", WARNING, "collectives are checked"),
    ("TORCH_NCCL_BLOCKING_WAIT", WARNING, "the host waits for collectives"),
    ("TORCH_NCCL_ENABLE_TIMING", WARNING, "collectives are timed"),
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", ERROR, "every allocation goes to the driver"),
    ("PYTHONDEVMODE", WARNING, "Python checks itself"),
    ("PYTHONASYNCIODEBUG", WARNING, "asyncio checks itself"),
    ("PYTHONTRACEMALLOC", WARNING, "Python traces its memory"),
    ("PYTHONPROFILEIMPORTTIME", WARNING, "Python times its imports"),
    ("CUDNN_LOGDEST_DBG", WARNING, "cuDNN logs"),
    ("CUBLAS_LOGDEST_DBG", WARNING, "cuBLAS logs"),
    ("CUDA_FORCE_PTX_JIT", WARNING, "every kernel is compiled at start"),
    ("CUDA_DISABLE_PTX_JIT", WARNING, "kernels for other chips fail"),
    ("NCCL_CHECK_POINTERS", WARNING, "NCCL checks every pointer"),
    ("NVIDIA_TF32_OVERRIDE", WARNING, "matrix products run in another precision"),
    ("LD_DEBUG", WARNING, "the loader logs"),
    ("MALLOC_CHECK_", WARNING, "every allocation is checked"),
)  # fmt: skip
_MEANINGFUL_ZERO = ("NVIDIA_TF32_OVERRIDE",)
_LOG_LEVELS = ("TRACE", "INFO", "ABORT")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (name,), path, value in facts.each("env[]"):
        text = str(value)
        rule = next((r for r in _RULES if fnmatchcase(name, r[0])), None)
        if rule and (text.lower() not in _OFF or name in _MEANINGFUL_ZERO) and not _negative(name, text):
            yield Problem(f"{name}={text[:80]}: {rule[2]}", (path,), f"unset {name}", rule[1])
        elif name == "NCCL_DEBUG" and text.upper() in _LOG_LEVELS:
            severity = ERROR if text.upper() == "TRACE" else WARNING
            yield Problem(f"NCCL_DEBUG={text}: NCCL logs {'every call' if severity == ERROR else 'its choices'}",
                          (path,), "NCCL_DEBUG=WARN, once they are known", severity)  # fmt: skip


def _negative(name: str, text: str) -> bool:
    """SGLang's simulators are off below zero."""
    return name.startswith("SGLANG_SIMULATE_") and text.startswith("-")
