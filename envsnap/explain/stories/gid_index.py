"""NCCL_IB_GID_INDEX names an entry of the address table that is not RoCE v2 over IPv4 here.

The index is right for the host and the moment that it was found on. Another host, a new address, a driver reset or
another order of interfaces moves the entries, and the index, unchanged, points to RoCE v1, to a link-local address
or to nothing. RDMA then fails, or takes a path that the switches do not carry.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.stories._look import variable, variable_changes
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import STRONG
from envsnap.keys import instances_of

CODE = "gid_index"
NEEDS = ("rdma[].port[].gid[].type",)


def tell(view: View) -> Iterator[Finding]:
    """Yield an index that leads nowhere on the slow side."""
    wrong = [_wrong(facts) for facts in view.sides]
    if not wrong[1]:
        return
    index = variable(view.slow, "NCCL_IB_GID_INDEX")
    where = ", ".join(f"{device} ({what})" for device, what in wrong[1].items())
    if wrong[0]:
        yield Mistake(
            f"NCCL_IB_GID_INDEX={index} is no entry of RoCE v2 over IPv4 on {where}",
            "Unset it, so that NCCL looks for one, or set it for each host.",
            tuple(view.slow.values("rdma[].port[].gid[].type")),
        )
        return
    named = variable_changes(view, "NCCL_IB_GID_INDEX")
    table = view.changed("rdma[].port[].gid[].type", "rdma[].port[].gid[].family", "rdma[].port[].gids_count")
    if named or table:
        what = "" if named else "The variable is the same as before, and the table is not: "
        yield Clue(
            f"{what}NCCL_IB_GID_INDEX={index} is no entry of RoCE v2 over IPv4 on {where}.", STRONG, (*named, *table)
        )


def _wrong(facts: Facts) -> dict[str, str]:
    """Active Ethernet ports on which the index leads to something else: device -> what it is there."""
    index = variable(facts, "NCCL_IB_GID_INDEX") or ""
    if not index.isdecimal():
        return {}
    found = {}
    for path, layer in facts.values("rdma[].port[].link_layer").items():
        device, port = instances_of(path)
        base = f"rdma[{device}].port[{port}]"
        if str(layer).lower() == "ethernet" and str(facts.get(f"{base}.state")).upper() == "ACTIVE":
            kind, family = (facts.get(f"{base}.gid[{index}].{name}") for name in ("type", "family"))
            if kind != "RoCE v2" or family not in (None, "ipv4"):
                found[device] = f"{kind}, {family}" if kind else "empty"
    return found
