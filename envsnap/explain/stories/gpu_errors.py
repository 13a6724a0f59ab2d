"""A GPU or its link reports errors.

Corrected errors cost retries, a row that waits to be remapped or a degraded fabric costs bandwidth, and an
uncorrected error or an Xid may leave the device half working until it is reset. What counts is what came up on the
slow side.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.stories._look import numbers
from envsnap.explain.story import Clue, Finding, Together, View, after
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import Effect, instances_of
from envsnap.reading import Unset, Value

CODE = "gpu_errors"
NEEDS = ("gpu[].ecc_uncorrected_volatile_count", "gpu[].remapped_rows_pending", "gpu[].recovery_action",
         "gpu[].pcie_replay_count", "gpu[].fabric_health", "kernel_log.xid_count[]")  # fmt: skip

_STATES = ("gpu[].remapped_rows_pending", "gpu[].remapped_rows_failure", "gpu[].channel_repair_pending",
           "gpu[].tpc_repair_pending", "gpu[].unrepairable_memory", "gpu[].retired_pages_pending",
           "gpu[].sram_threshold_exceeded", "gpu[].recovery_action", "gpu[].fabric_health",
           "gpu[].fabric_degraded_bandwidth", "gpu[].fabric_route_unhealthy")  # fmt: skip
_COUNTS = {
    "gpu[].ecc_uncorrected_volatile_count": 0,
    "gpu[].ecc_corrected_volatile_count": 100,
    "gpu[].pcie_replay_count": 1000,
    "during.gpu[].pcie_replay_count": 100,
    "gpu[].nvlink[].crc_error_count": 100,
    "gpu[].nvlink[].replay_error_count": 100,
    "gpu[].nvlink[].recovery_error_count": 10,
    "pci[].aer_nonfatal_count": 0,
    "pci[].aer_correctable_count": 1000,
    "kernel_log.xid_count[]": 0,
    "kernel_log.pcie_uncorrected_count": 0,
}
"""Counters, and from which number on they tell of trouble."""
_FINE = (None, False, "none", "healthy", "ok", "")


def tell(view: View) -> Iterator[Finding]:
    """Yield trouble that came up on the slow side."""
    states = [c for c in view.changed(*_STATES) if after(c) not in _FINE]
    if states:
        yield Clue("The driver reports trouble with the device, on the slow side alone.", FAIR, tuple(states))
    grown = [change for key, some in _COUNTS.items() for change in _grown(view, key, some)]
    if grown:
        gpus = sorted({"the kernel" if c.path.startswith("kernel_log") else instances_of(c.path)[0] for c in grown})
        yield Together(
            f"errors of {', '.join(gpus[:4])}",
            "Transfers are sent again, or memory errors corrected.",
            tuple(grown),
            (Effect.COMMUNICATION, Effect.MEMORY),
            (Evidence("They are many more on the slow side.", STRONG if len(grown) > 1 else FAIR),),
            prior=0.3,
        )
    wrong = sorted(
        p for key in _STATES for p, v in view.slow.values(key).items() if v not in _FINE and view.fast.get(p) == v
    )
    if wrong:
        yield Mistake(
            "A GPU waits for a reset or a repair, on both sides",
            "Reset it (nvidia-smi -r) or drain the node.",
            tuple(wrong),
        )


def _grown(view: View, key: str, some: int) -> Iterator[Change]:
    for path, count in numbers(view.slow, key).items():
        reading = view.fast.reading(path)
        # NOTE: a counter of which none was seen is not there at all.
        then = 0 if isinstance(reading, Unset) else reading.value if isinstance(reading, Value) else None
        if isinstance(then, (int, float)) and count > some and count > 10 * then:
            yield Change(path, key_for(path), Value(then), Value(count))
