"""More ranks over PCIe cost more than they bring.

Each layer ends in an all-reduce, and a draft's small layers in as many: without NVLink their latency is added to
every step. A model that ran on one GPU at 30 tokens a second with speculation ran at 21 on four.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import argument_changes
from envsnap.explain.story import Clue, Finding, View
from envsnap.explain.weights import FAIR, STRONG

CODE = "ranks_over_pcie"
NEEDS = ("server[].argument[]", "record[].argument[]", "worker[].argv")

_SIZES = ("tp_size", "tensor_parallel_size", "ep_size", "pp_size", "dp_size", "attn_tp_size", "enable_dp_attention")


def tell(view: View) -> Iterator[Finding]:
    """Yield another number of ranks."""
    then, now = (setting.ranks for setting in view.settings)
    changed = argument_changes(view, *_SIZES)
    if not changed or then is None or now is None or then == now:
        return
    if now > then and view.setting.nvlink is False:
        weight = STRONG if view.setting.speculative else FAIR
        yield Clue(
            f"{now} ranks instead of {then}, over PCIe: each layer waits for an all-reduce, the draft's too.",
            weight,
            tuple(changed),
        )
    elif now < then:
        yield Clue(
            f"{now} ranks instead of {then}: each of them reads a larger part of the weights in every step.",
            FAIR,
            tuple(changed),
        )
