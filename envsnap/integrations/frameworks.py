"""Settings of frameworks that this process has imported; nothing is imported or initialised for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def own_thread() -> dict[str, Any]:
    """What PyTorch answers by thread, and so only the process's own thread can tell."""
    torch = sys.modules.get("torch")
    return _found({"num_threads": lambda: torch.get_num_threads()}) if torch else {}


def torch() -> dict[str, Any]:
    """PyTorch's versions and the settings that choose its kernels and numerics; empty where it is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    matmul = torch.backends.cuda.matmul
    found = _found(
        {
            "version": lambda: str(torch.__version__),
            "git_version": lambda: torch.version.git_version,
            "cuda_version": lambda: torch.version.cuda,
            "hip_version": lambda: torch.version.hip,
            "num_interop_threads": torch.get_num_interop_threads,
            "default_dtype": lambda: str(torch.get_default_dtype()).replace("torch.", ""),
            "float32_matmul_precision": torch.get_float32_matmul_precision,
            # NOTE: where the newer setting exists, asking for the older one warns.
            "allow_tf32": lambda: (
                matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
            ),
            "deterministic": torch.are_deterministic_algorithms_enabled,
            "cudnn_enabled": lambda: torch.backends.cudnn.enabled,
            "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
            "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
            "nccl_built_version": lambda: _dotted(torch.cuda.nccl.version()),
        }
    )
    if torch.cuda.is_initialized():
        found.update(
            _found(
                {
                    "device_index": torch.cuda.current_device,
                    "device_name": torch.cuda.get_device_name,
                    "cudnn_version": torch.backends.cudnn.version,
                    "allocator": torch.cuda.get_allocator_backend,
                    "allocator_settings": lambda: torch._C._accelerator_getAllocatorSettings(),
                }
            )
        )
    return found


def _found(reads: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """What answered; a build without NCCL, an older version without a setting, are no failure."""
    found = {}
    for name, read in reads.items():
        try:
            value = read()
        except Exception:
            continue
        if isinstance(value, (bool, int, float, str)):
            found[name] = value
    return found


def _dotted(version: Any) -> str:
    return ".".join(str(part) for part in version) if isinstance(version, tuple) else str(version)
