"""A GPU or its link reports errors.

Corrected errors cost retries, a row that waits to be remapped or a degraded fabric costs bandwidth, and an
uncorrected error or an Xid may leave the device half working until it is reset. What counts is what came up on the
slow side. Errors of links make transfers longer, those of memory what is read from it, and neither lowers a clock:
where clocks fell by as much as the time grew, they are beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.limits import clocks_under_load
from envsnap.explain.stories._look import numbers
from envsnap.explain.story import Clue, Finding, Together, View, after
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import Effect, instances_of, pattern_of
from envsnap.reading import Unset, Value

CODE = "gpu_errors"
_STATES = ("gpu[].remapped_rows_pending", "gpu[].remapped_rows_failure", "gpu[].channel_repair_pending",
           "gpu[].tpc_repair_pending", "gpu[].unrepairable_memory", "gpu[].retired_pages_pending",
           "gpu[].sram_threshold_exceeded", "gpu[].recovery_action", "gpu[].fabric_health",
           "gpu[].fabric_degraded_bandwidth", "gpu[].fabric_route_unhealthy")  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """One kind of errors. `counts` are counters, and from which number on they tell of trouble."""

    title: str
    mechanism: str
    effects: tuple[Effect, ...]
    counts: Mapping[str, int]
    lowers_clocks: bool = False


_KINDS = (
    Errors(
        "errors on links",
        "Packets are sent again, and a link that is trained anew stands still.",
        (Effect.COMMUNICATION, Effect.PREFILL),
        {
            "gpu[].pcie_replay_count": 1000,
            "during.gpu[].pcie_replay_count": 100,
            "gpu[].nvlink[].crc_error_count": 100,
            "gpu[].nvlink[].replay_error_count": 100,
            "gpu[].nvlink[].recovery_error_count": 10,
            "pci[].aer_nonfatal_count": 0,
            "pci[].aer_correctable_count": 1000,
            "kernel_log.pcie_uncorrected_count": 0,
        },
    ),
    Errors(
        "memory errors",
        "Memory errors are corrected, or what they hit is computed anew.",
        (Effect.MEMORY, Effect.COMPUTE),
        {"gpu[].ecc_uncorrected_volatile_count": 0, "gpu[].ecc_corrected_volatile_count": 100},
    ),
    Errors(
        "faults that the driver reported",
        "A device may work on at less than its speed until it is reset.",
        (Effect.COMPUTE, Effect.MEMORY, Effect.COMMUNICATION),
        {"kernel_log.xid_count[]": 0, "kernel_log.sxid_count[]": 0},
        lowers_clocks=True,
    ),
)
_OF_PROGRAMS = frozenset({"13", "31", "43", "45", "69"})
"""Xids that a program's own error raises, and that end with it."""
NEEDS = (*_STATES, *(key for kind in _KINDS for key in kind.counts))
_FINE = (None, False, "none", "healthy", "ok", "")


def tell(view: View) -> Iterator[Finding]:
    """Yield trouble that came up on the slow side."""
    states = [c for c in view.changed(*_STATES) if after(c) not in _FINE]
    if states:
        yield Clue("The driver reports trouble with the device, on the slow side alone.", FAIR, tuple(states))
    for kind in _KINDS:
        grown = [change for key, some in kind.counts.items() for change in _grown(view, key, some)]
        if grown:
            yield Together(
                f"{kind.title} ({', '.join(_owners(grown)[:4])})",
                kind.mechanism,
                tuple(grown),
                kind.effects,
                tuple(_evidence(kind, grown, view)),
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


def _evidence(kind: Errors, grown: Sequence[Change], view: View) -> Iterator[Evidence]:
    yield Evidence("They are many more on the slow side.", STRONG if len(grown) > 1 else FAIR)
    clocks = clocks_under_load(view)
    slowdown = view.symptom.slowdown or 0.0
    if not kind.lowers_clocks and clocks and slowdown and math.log(clocks.ratio) > slowdown / 2:
        yield Evidence(f"{clocks.says} Such errors lower no clock.", -FAIR)


def _owners(grown: Sequence[Change]) -> list[str]:
    """Whose errors they are: `GPU 3`, `Xid 79`, `the kernel`."""
    names = []
    for change in grown:
        key, held = pattern_of(change.path), instances_of(change.path)
        if key.startswith("kernel_log."):
            names.append(f"{'SXid' if '.sxid' in key else 'Xid'} {held[0]}" if held else "the kernel")
        else:
            names.append(f"GPU {held[0]}" if "gpu[]" in key else held[0])
    return sorted(set(names))


def _grown(view: View, key: str, some: int) -> Iterator[Change]:
    for path, count in numbers(view.slow, key).items():
        if key == "kernel_log.xid_count[]" and instances_of(path)[0] in _OF_PROGRAMS:
            continue
        reading = view.fast.reading(path)
        # NOTE: a counter of which none was seen is not there at all.
        then = 0 if isinstance(reading, Unset) else reading.value if isinstance(reading, Value) else None
        if isinstance(then, (int, float)) and count > some and count > 10 * then:
            yield Change(path, key_for(path), Value(then), Value(count))
