"""Variables that the engines set by themselves, as documented in their sources: who wrote what a worker has.

Each entry says in which process it is written and when. A value that fits no entry was not written by the engine as
far as is known here. Read in SGLang 0.5.12 to 0.5.23; marked where a real run has shown it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Write:
    """One documented write. `value` and `role` are patterns: what is written, and in which processes."""

    name: str
    value: str
    by: tuple[str, str]
    note: str

    def fits(self, role: str, value: str) -> bool:
        """Whether a value in a process of that role can come from this write."""
        return re.fullmatch(self.value, value) is not None and re.fullmatch(self.by[1], role) is not None

    def __str__(self) -> str:
        return f"{self.by[0]}: {self.note}"


# Who writes, in words, and the roles that show it first: what a launcher writes, its workers inherit.
_LAUNCHER = ("SGLang's launcher", r"(?:.*/)?main")
_WORKER = ("SGLang's worker", r"(?:.*/)?scheduler.*")
_IMPORT = ("SGLang's import", r".*")
_ANY_TORCH = ("torch", r".*")

SGLANG = (
    # Seen in 0.5.16 on the CPU and on two GPUs.
    Write("CUDA_DEVICE_MAX_CONNECTIONS", "8", _LAUNCHER, "always 8, whatever was exported"),
    Write("NCCL_CUMEM_ENABLE", "[01]", _LAUNCHER, "0 unless it was exported; 1 with symmetric memory"),
    Write(
        "NCCL_NVLS_ENABLE", "[01]", _LAUNCHER, "0 unless it was exported; 1 with --enable-nccl-nvls or symmetric memory"
    ),
    Write("SGLANG_RUN_ID", ".+", _LAUNCHER, "a new random id at each start"),
    Write("TRTLLM_ENABLE_PDL", "1", _LAUNCHER, "1 unless it was 0"),
    Write("CUTE_DSL_LOG_LEVEL", "30", _LAUNCHER, "a default"),
    Write("CUTE_DSL_LOG_TO_CONSOLE", "1", _LAUNCHER, "a default"),
    Write("PROMETHEUS_MULTIPROC_DIR", ".+", _LAUNCHER, "a new folder where metrics are on"),
    Write("SGLANG_ENABLE_TORCH_COMPILE", ".+", _LAUNCHER, "rewritten from the arguments"),
    Write("SGLANG_ENABLE_DETERMINISTIC_INFERENCE", ".+", _LAUNCHER, "rewritten from the arguments"),
    Write("SGLANG_DISABLE_OUTLINES_DISK_CACHE", ".+", _LAUNCHER, "rewritten from the arguments"),
    # Read in the source alone.
    Write("CUDA_MODULE_LOADING", "AUTO", _LAUNCHER, "always AUTO up to 0.5.18"),
    Write("NCCL_GRAPH_MIXING_SUPPORT", "0", _LAUNCHER, "0 with decode context parallelism"),
    Write("NCCL_MNNVL_ENABLE", "1", _LAUNCHER, "a default on several nodes with MNNVL"),
    Write("NCCL_ALGO", "allreduce:tree", _LAUNCHER, "with deterministic inference"),
    Write("NCCL_MIN_NCHANNELS", "1", _LAUNCHER, "with deterministic inference"),
    Write("NCCL_MAX_NCHANNELS", "1", _LAUNCHER, "with deterministic inference"),
    Write("NCCL_GRAPH_REGISTER", "0", _LAUNCHER, "a default with some all-to-all back ends"),
    *(
        Write(name, ".+", _IMPORT, "a default since caches were gathered in one folder")
        for name in (
            "TRITON_CACHE_DIR",
            "TORCHINDUCTOR_CACHE_DIR",
            "CUDA_CACHE_PATH",
            "TILELANG_CACHE_DIR",
            "FLASHINFER_WORKSPACE_BASE",
        )
    ),
    Write("FLASHINFER_CUDA_ARCH_LIST", ".+", _WORKER, "overwritten when the model is loaded"),
    Write("DG_JIT_CACHE_DIR", ".+", _IMPORT, "overwritten by its wrapper of DeepGEMM"),
    Write("DG_JIT_USE_NVRTC", ".+", _IMPORT, "overwritten by its wrapper of DeepGEMM"),
    Write("MASTER_ADDR", ".+", _WORKER, "for torch.distributed"),
    Write("MASTER_PORT", ".+", _WORKER, "for torch.distributed"),
)

_TORCH = (
    Write("TORCH_NCCL_USE_COMM_NONBLOCKING", ".+", _ANY_TORCH, "a default of torch.distributed"),
    Write("KINETO_LOG_LEVEL", ".+", _ANY_TORCH, "set at import"),
)

_BY_NAME: dict[str, list[Write]] = {}
for _write in (*SGLANG, *_TORCH):
    _BY_NAME.setdefault(_write.name, []).append(_write)


def writer(name: str, role: str, value: str) -> Write | None:
    """The documented write that a value in a process can come from; None where none is known."""
    return next((w for w in _BY_NAME.get(name, ()) if w.fits(role, value)), None)
