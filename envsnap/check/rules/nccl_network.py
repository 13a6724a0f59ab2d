"""NCCL's network variables name what this host does not have.

A list of adapters, or an index into the table of addresses (GID), that was right on another host. NCCL then fails,
hangs, or takes a slower way. Not judged where none of these variables is set. Fix: unset them and let NCCL choose, or
set them for each host.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem
from envsnap.keys import instances_of

CODE = "nccl_network"
SEVERITY = ERROR
NEEDS = ("rdma.devices_count",)
USES = ("rdma[].model", "rdma[].port[].state", "rdma[].port[].gid[].type", "rdma[].port[].gid[].family",
        "rdma[].port[].link_layer")  # fmt: skip
ABSENCE_IS_JUDGED = True

HCA, GID, DISABLE = "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_DISABLE"


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    hca, gid, off = facts.env(HCA), facts.env(GID), facts.env(DISABLE)
    if hca is None and gid is None and off is None:
        raise NotApplicable("none of NCCL's variables for RDMA is set")
    ports = facts.all("rdma[].port[].state")
    devices = {instances_of(path)[0] for path in ports}
    if hca and not hca.startswith("^"):
        lost = [name for name in _names(hca) if not any(d == name[1:] or d.startswith(name) for d in devices)]
        if lost:
            yield Problem(f"{HCA}={hca}: this host has no {', '.join(lost)}", (f"env[{HCA}]",))
    if gid and gid.isdecimal() and devices:
        yield from _gid(facts, gid)
    if off not in (None, "", "0") and any(state == "ACTIVE" for state in ports.values()):
        yield Problem(f"{DISABLE}={off}: RDMA ports are up and not used", (f"env[{DISABLE}]",), severity=WARNING)


def _names(hca: str) -> list[str]:
    """The devices of a list such as `=mlx5_0:1,mlx5_1`; a leading = asks for the exact name."""
    exact = "=" if hca.startswith("=") else ""
    return [exact + part.strip().lstrip("=").partition(":")[0] for part in hca.split(",") if part.strip("= ")]


def _gid(facts: Facts, index: str) -> Iterable[Problem]:
    for path, layer in facts.all("rdma[].port[].link_layer").items():
        device, port = instances_of(path)
        base = f"rdma[{device}].port[{port}]"
        if layer != "Ethernet" or facts.value(f"{base}.state") != "ACTIVE":
            continue
        kind, family = (facts.value(f"{base}.gid[{index}].{name}") for name in ("type", "family"))
        if kind != "RoCE v2" or family == "link_local":
            told = f"{kind}, {family}" if kind else "empty"
            yield Problem(f"{GID}={index} is {told} on {device}", (f"env[{GID}]", f"{base}.gid[{index}].type"),
                          "Unset it: NCCL finds a RoCE v2 entry by itself.")  # fmt: skip
