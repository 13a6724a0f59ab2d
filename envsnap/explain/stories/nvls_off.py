"""The NVSwitch does not reduce (NVLS), although the fabric is ready for it.

Engines set NCCL_NVLS_ENABLE themselves, overwrite what was exported, and derive from the state of the fabric or of
the IMEX daemon whether they may use it. What counts is what NCCL made of it: its channels of kind nvls.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import argument_changes, is_on, of_pattern, variable_changes
from envsnap.explain.story import Clue, Facts, Finding, View, after, before
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of

CODE = "nvls_off"
NEEDS = ("gpu[].fabric_state", "nccl.rank[].channels[]")

_ARGUMENTS = ("enable_nccl_nvls", "enable_symm_mem", "enable_torch_symm_mem", "*nvls*")


def tell(view: View) -> Iterator[Finding]:
    """Yield what switched it off."""
    if view.setting.ranks == 1 or not _is_ready(view.slow):
        return
    channels = [c for c in view.changed("nccl.rank[].channels[]") if instances_of(c.path)[-1] == "nvls"]
    lost = [c for c in channels if before(c) and not after(c)]
    variables = [c for c in variable_changes(view, "NCCL_NVLS_ENABLE") if after(c) is not None and not is_on(after(c))]
    arguments = [c for c in argument_changes(view, *_ARGUMENTS) if is_on(before(c)) and not is_on(after(c))]
    daemons = [
        c
        for c in of_pattern(view.changes, "nvidia.daemon[].running")
        if instances_of(c.path)[0] == "nvidia-imex" and after(c) is not True
    ]
    if lost:
        yield Clue(
            "NCCL has no NVLS channels any more, on a fabric that is ready for them.",
            STRONG,
            (*lost, *variables, *arguments, *daemons),
        )
    elif variables or arguments:
        yield Clue(
            "The fabric is ready for reductions in the NVSwitch, and they are switched off.",
            FAIR,
            (*variables, *arguments),
        )


def _is_ready(facts: Facts) -> bool:
    states = list(facts.values("gpu[].fabric_state").values())
    return bool(states) and all(state == "completed" for state in states)
