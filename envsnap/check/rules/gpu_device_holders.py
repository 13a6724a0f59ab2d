"""Programs hold the GPUs' device files open without a CUDA context that NVML knows of.

A crashed or stopped worker does, and keeps memory or blocks a reset. Monitors and the driver's daemons do too; they are
left out, as are programs that compute on other GPUs, since CUDA opens every GPU that it can see. Fix: end them
(`fuser -v /dev/nvidia*`). Without root not every process can be looked into.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem
from envsnap.check.rules._processes import foreign

CODE = "gpu_device_holders"
SEVERITY = WARNING
NEEDS = ("gpu_device[].holders",)
USES = ("gpu[].minor_number", "gpu[].process_names")
PASSES_BY_WAITING = True


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    computing = {str(name)[:15] for names in facts.all("gpu[].process_names").values() for name in names}
    for (minor,), gpus in facts.gpus_by("minor_number"):
        path = f"gpu_device[nvidia{minor}].holders"
        names = sorted({name for name in foreign(facts.value(path) or ()) if name[:15] not in computing})
        if names:
            yield Problem(f"{gpus}: held open by {', '.join(names)}", (path,), f"fuser -v /dev/nvidia{minor}")
