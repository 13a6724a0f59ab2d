"""Ranks on several machines talk over TCP although there is RDMA.

NCCL falls back to sockets without an error: where the container has no /dev/infiniband, where its plug-in is not
found, where adapters are named that this host does not have, where locked memory is limited, where a port is down.
It costs a factor of five to seven in bandwidth. NCCL's log names the network that it took; what took RDMA away
stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.stories._look import is_on, of_pattern, variable, variable_changes
from envsnap.explain.story import Clue, Facts, Finding, Together, View, after
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import Effect, instances_of

CODE = "sockets_despite_rdma"
NEEDS = ("nccl.rank[].network", "rdma.verbs_files_count", "rdma[].port[].state", "worker[].library[].path")

_ADVICE = (
    "Start the container with `--device /dev/infiniband --ulimit memlock=-1`, keep NCCL's plug-in on LD_LIBRARY_PATH, "
    "and unset NCCL_IB_DISABLE, NCCL_NET and NCCL_IB_HCA."
)
_CAUSES = ("rdma.verbs_files_count", "rdma.devices_count", "rdma[].port[].state", "rdma[].port[].physical_state",
           "worker[].memlock_soft_bytes", "worker[].memlock_soft_unlimited", "limits.memlock_soft_bytes",
           "limits.memlock_soft_unlimited", "nccl.rank[].plugins", "container.namespaces")  # fmt: skip
_VARIABLES = ("NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "FI_PROVIDER",
              "LD_LIBRARY_PATH", "NCCL_IB_GID_INDEX")  # fmt: skip


def tell(view: View) -> Iterator[Finding]:
    """Yield a fall-back to sockets, with what caused it."""
    if view.setting.hosts == 1:
        return
    fell = [c for c in view.changed("nccl.rank[].network") if _is_socket(after(c))]
    plugins = [c for c in view.changed("worker[].library[].path") if _is_plugin(c) and after(c) is None]
    causes = [*of_pattern(view.changes, *_CAUSES), *variable_changes(view, *_VARIABLES), *plugins]
    causes += [c for c in view.changed("kernel.modules") if "ib" in str(c.before)]
    if fell:
        text = "NCCL's log names Socket as its network, and named another before."
        yield Together(
            "NCCL talks over sockets",
            "What ranks on different machines exchange goes through TCP and host memory.",
            (*fell, *causes),
            (Effect.COMMUNICATION, Effect.VERIFY),
            (Evidence(text, STRONG, tuple(c.path for c in fell)), *_why(causes)),
        )
    elif view.setting.hosts is not None or plugins:
        yield from _without_log(view, causes, plugins)
    if not fell and all(_is_on_sockets(facts) and _has_rdma(facts) for facts in view.sides):
        yield Mistake(
            "NCCL talks over sockets on both sides, although RDMA ports are up",
            _ADVICE,
            tuple(view.slow.values("nccl.rank[].network")),
        )


def _why(causes: list[Change]) -> Iterator[Evidence]:
    if causes:
        yield Evidence("What gives NCCL its way to RDMA changed with it.", FAIR, tuple(c.path for c in causes))


def _without_log(view: View, causes: list[Change], plugins: list[Change]) -> Iterator[Finding]:
    """What takes RDMA away, where no log says that NCCL does without."""
    for change in of_pattern(causes, "rdma.verbs_files_count"):
        if after(change) == 0 and _devices(view.slow):
            yield Clue(
                "The host has RDMA devices, and no program here can open them (/dev/infiniband).", STRONG, (change,)
            )
    if plugins:
        how = variable_changes(view, "LD_LIBRARY_PATH")
        text = "NCCL's network plug-in was mapped before and is not now"
        yield Clue(f"{text}{', and LD_LIBRARY_PATH changed' if how else ''}.", STRONG, (*plugins, *how))
    down = [c for c in of_pattern(causes, "rdma[].port[].state") if after(c) is not None and not _is_active(after(c))]
    if down:
        yield Clue("An RDMA port is no longer active.", FAIR, tuple(down))
    named = variable_changes(view, "NCCL_IB_HCA")
    if named and (missing := _missing_adapters(view.slow)):
        yield Clue(f"NCCL_IB_HCA names {', '.join(missing)}, which this host does not have.", STRONG, tuple(named))


def _is_active(state: object) -> bool:
    return str(state).upper() == "ACTIVE"


def _is_socket(value: object) -> bool:
    return str(value).lower().replace("net/", "").startswith("socket")


def _is_plugin(change: Change) -> bool:
    return instances_of(change.path)[1].startswith(("nccl_net", "fabric"))


def _is_on_sockets(facts: Facts) -> bool:
    networks = list(facts.values("nccl.rank[].network").values())
    return bool(networks) and all(map(_is_socket, networks))


def _has_rdma(facts: Facts) -> bool:
    return any(map(_is_active, facts.values("rdma[].port[].state").values())) and not is_on(
        variable(facts, "NCCL_IB_DISABLE")
    )


def _devices(facts: Facts) -> bool:
    count = facts.get("rdma.devices_count")
    return isinstance(count, int) and count > 0


def _missing_adapters(facts: Facts) -> list[str]:
    """Adapters that NCCL_IB_HCA asks for and that are not there."""
    asked = variable(facts, "NCCL_IB_HCA") or ""
    present = {instances_of(path)[0] for path in facts.values("rdma[].port[].state")}
    if not present or asked.startswith("^"):
        return []
    names = [part.strip().lstrip("=").partition(":")[0] for part in asked.split(",") if part.strip("= ")]
    return [name for name in names if not any(device.startswith(name) for device in present)]
