"""Some GPUs cannot reach each other's memory although others can, or something forbids it.

Between those NCCL copies through host memory, and custom all-reduce kernels are off. Boards that never have
peer-to-peer access (GeForce) are not judged. Fix: ACS and IOMMU (`acs`, `iommu`), the driver's registry keys, GPUs of
one root complex.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "p2p_refused"
SEVERITY = WARNING
NEEDS = ("gpu_pair[].p2p_read",)

_BY_DESIGN = ("gpu_not_supported", "not_supported", "unknown")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    used = set(facts.some_gpus(at_least=2).indices)
    pairs = {pair: (path, str(value)) for (pair,), path, value in facts.each("gpu_pair[].p2p_read")
             if set(pair.split("/")) <= used}  # fmt: skip
    some_can = any(value == "ok" for _, value in pairs.values())
    told: dict[str, list[str]] = {}
    for pair, (_, value) in pairs.items():
        if value != "ok" and (some_can or value not in _BY_DESIGN):
            told.setdefault(value, []).append(pair)
    for value, members in told.items():
        shown = ", ".join(members[:6]) + (f" and {len(members) - 6} more" if len(members) > 6 else "")
        yield Problem(f"no peer access ({value}) between GPUs {shown}", tuple(pairs[pair][0] for pair in members))
