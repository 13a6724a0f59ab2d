"""The driver is too old for the CUDA that torch was built with, or is bypassed.

A driver of an older CUDA generation runs nothing of it without the compatibility package; of an older minor version it
runs what was compiled ahead, and fails or falls back where kernels are compiled on the spot (PTX). A compatibility
libcuda that is older than the driver makes new hardware look unsupported. Fix: a newer driver, a torch of an older
CUDA, or take the compat directory out of the loader's way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem

CODE = "cuda_runtime"
SEVERITY = ERROR
NEEDS = ("nvml.cuda_driver_version", "library[].cuda_version")
USES = ("library[].path", "nvml.driver_version", "nvidia.cuda_compat_versions")

_TORCH, _DRIVER = "library[torch].cuda_version", "nvml.cuda_driver_version"


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    yield from _bypassed(facts)
    built, runs = _numbers(facts.value(_TORCH)), _numbers(facts.value(_DRIVER))
    if not built or not runs:
        raise NotApplicable("no torch with CUDA is here")
    compatible = bool(facts.value("nvidia.cuda_compat_versions"))
    if built > runs:
        graver = built[0] > runs[0] and not compatible
        yield Problem(
            f"torch was built with CUDA {facts.value(_TORCH)}, the driver runs up to {facts.value(_DRIVER)}",
            (_TORCH, _DRIVER),
            "Install a newer driver, or torch for an older CUDA.",
            ERROR if graver else WARNING,
        )


def _bypassed(facts: Facts) -> Iterable[Problem]:
    """A libcuda of a compatibility package that the loader takes although the driver is no older."""
    path, driver = facts.value("library[cuda_driver/0].path"), _numbers(facts.value("nvml.driver_version"))
    compat = max((_numbers(v) for v in facts.value("nvidia.cuda_compat_versions") or ()), default=())
    if isinstance(path, str) and "/compat/" in path and compat and driver and driver[0] >= compat[0]:
        yield Problem(f"{path} takes the place of the driver's own libcuda, which is no older",
                      ("library[cuda_driver/0].path",), "Take the compat directory out of LD_LIBRARY_PATH.",
                      WARNING)  # fmt: skip


def _numbers(text: object) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(text or ""))[:2])
