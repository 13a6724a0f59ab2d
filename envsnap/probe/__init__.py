"""Short active measurements of what no reading shows: a link that is slow without an error, a clock that sags.

    run_all ──> Child ──> worker (a process of its own) ──> measure_… ──> Figure* ──> ProbeResult ──> compare

`declared` says what there is to measure. Nothing is measured in the process that asks, so that whatever hangs can be
ended; no setting of the machine is changed, and no process is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envsnap.probe.result import Busy, Figure, ProbeResult

__all__ = ["Busy", "Figure", "ProbeResult", "run_all"]


def run_all(
    only: Sequence[str] = (),
    gpus: Sequence[int] | None = None,
    folder: str = "",
    force: bool = False,
    allow_multicast: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> ProbeResult:
    """Measure; what could not be measured is among the figures, with the reason.

    `only` names probes (`declared.PROBES`; all of them where it is empty). `gpus` are NVML's indices, by default those
    that CUDA_VISIBLE_DEVICES leaves. The disk is read in `folder`, by default the one for temporary files. `tell` is
    called with what is being done.

    Raises: Busy where a GPU is in use and not `force`, ValueError for a probe or a GPU that does not exist.
    """
    from envsnap.probe.run import run

    return run(only, gpus, folder, force, allow_multicast, tell)
