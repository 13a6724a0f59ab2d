"""RDMA devices are here that programs cannot use.

Ports that are down beside others that work, or devices that a container does not let in: NCCL then takes fewer, or
falls back to TCP sockets at a tenth of the speed. A command that stays on one machine does not need them. Fix: cable
and switch (DOWN), subnet manager (INIT), `--device /dev/infiniband` for the container.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem

CODE = "rdma_ports"
SEVERITY = WARNING
NEEDS = ("rdma.devices_count",)
USES = ("rdma.verbs_files_count", "rdma[].port[].state")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    if not facts.value("rdma.devices_count"):
        raise NotApplicable("no RDMA device is here")
    if facts.wanted.engine and facts.wanted.nodes < 2:
        raise NotApplicable("the command stays on one machine")
    needed = ERROR if facts.wanted.nodes > 1 else ""
    if facts.value("rdma.verbs_files_count") == 0:
        yield Problem("programs here can open none of the RDMA devices", ("rdma.verbs_files_count",),
                      "Start the container with --device /dev/infiniband", needed)  # fmt: skip
    states = facts.all("rdma[].port[].state")
    down = [path for path, state in states.items() if state != "ACTIVE"]
    if down and len(down) < len(states):
        yield Problem(f"{len(down)} of {len(states)} RDMA ports are not ACTIVE", tuple(down), "ibstat; rdma link")
