"""There are fewer GPUs than the command takes, or than the driver should show.

A GPU that fell off the bus, was left out of a container, or is hidden by CUDA_VISIBLE_DEVICES. Fix: compare
`nvidia-smi -L` with the kernel log (`gpu_errors`), the container's options and CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, VISIBLE_DEVICES, Facts, NotApplicable, Problem, gaps

CODE = "gpu_count"
SEVERITY = ERROR
NEEDS = ("nvml.gpu_count",)
USES = ("nvidia.gpu[].model", "nvidia.gpu[].excluded")
ABSENCE_IS_JUDGED = True


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    seen, taken = facts.value("nvml.gpu_count"), facts.wanted.gpus
    if seen is None:
        if not taken:
            raise NotApplicable("no GPU is here, and none is asked for")
        found = gaps(facts.snapshot, "nvml.gpu_count")
        if found and all(gap.absent for gap in found):
            yield Problem(f"the command takes {taken} GPU, and none can be used: {found[0].why}", ("nvml.gpu_count",))
        return
    excluded = [i for (i, *_), _, value in facts.each("nvidia.gpu[].excluded") if value]
    driven = len(facts.all("nvidia.gpu[].model")) - len(excluded)
    if driven > seen:
        yield Problem(
            f"the driver's module drives {driven} GPUs, and only {seen} answer",
            ("nvml.gpu_count",),
            "Look for what became of it: nvidia-smi -L; dmesg | grep -i nvrm",
        )
    if taken > len(facts.visible_gpus):
        hidden = f" (CUDA_VISIBLE_DEVICES={facts.env('CUDA_VISIBLE_DEVICES')})" if facts.value(VISIBLE_DEVICES) else ""
        yield Problem(
            f"the command takes {taken} GPU, {len(facts.visible_gpus)} can be used{hidden}",
            ("nvml.gpu_count",),
            "Lower --tp, or give it more GPUs.",
        )
