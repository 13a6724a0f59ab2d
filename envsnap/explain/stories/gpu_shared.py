"""The GPU is divided or shared: MIG, MPS, time slices.

A MIG instance has a part of the multiprocessors, of the memory and of its bandwidth, and no peer access; under MPS
several processes share the device within limits that their environment sets. A worker may see "a GPU" and have a
seventh of one.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import is_on, variable_changes
from envsnap.explain.story import Clue, Finding, View, after
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of

CODE = "gpu_shared"
NEEDS = ("gpu[].mig_mode", "nvidia.daemon[].running", "worker[].env[]")


def tell(view: View) -> Iterator[Finding]:
    """Yield a GPU that is shared now."""
    divided = [c for c in view.changed("gpu[].mig_mode") if after(c) is True]
    if divided:
        yield Clue(
            "The GPU is divided into instances with a part of its memory bandwidth each.", STRONG, tuple(divided)
        )
    daemons = [
        c
        for c in view.changed("nvidia.daemon[].running")
        if instances_of(c.path)[0].startswith("nvidia-cuda-mps") and after(c) is True
    ]
    limits = [c for c in variable_changes(view, "CUDA_MPS_*") if after(c) is not None]
    share = [c for c in limits if "PERCENTAGE" in c.path and str(after(c)) != "100"]
    if share:
        yield Clue("A process gets a share of the multiprocessors alone.", STRONG, (*share, *daemons))
    elif daemons:
        yield Clue("Processes share the GPU through MPS now.", FAIR, (*daemons, *limits))
    slices = [c for c in view.changed("gpu[].virtualization_mode") if str(after(c)) == "vgpu"]
    if slices:
        yield Clue("The GPU is a virtual one, of which others have time slices.", STRONG, tuple(slices))
    excluded = [c for c in view.changed("nvidia.gpu[].excluded") if is_on(after(c))]
    if excluded:
        yield Clue("The driver leaves a GPU alone that it drove before.", FAIR, tuple(excluded))
