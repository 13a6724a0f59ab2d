"""torch is no build for these GPUs: without CUDA, or a debug build.

Another package's dependency, or a plain `pip install`, replaces a vendor's build by a generic one; a CPU build serves
from the CPU or not at all. Fix: install the build again, from the index that it came from.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem

CODE = "torch_build"
SEVERITY = ERROR
NEEDS = ("library[].version",)
USES = ("library[].cuda_version", "library[].hip_version", "library[].debug", "nvml.gpu_count")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    version = facts.value("library[torch].version")
    if version is None:
        raise NotApplicable("no torch is here")
    if facts.value("library[torch].debug"):
        yield Problem("torch is a debug build", ("library[torch].debug",), severity=WARNING)
    for_gpus = facts.value("library[torch].cuda_version") or facts.value("library[torch].hip_version")
    if not for_gpus and facts.value("nvml.gpu_count"):
        needed = ERROR if facts.wanted.gpus else WARNING
        yield Problem(f"torch {version} was built without CUDA, and GPUs are here", ("library[torch].version",),
                      "pip install torch from the index of a CUDA version", needed)  # fmt: skip
