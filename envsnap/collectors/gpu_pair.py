"""Pairs of GPUs: which peer-to-peer access they have, and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from envsnap.collectors._nvml import Fact, fact, gpu_count, named
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Type, path_of
from envsnap.reading import Found
from envsnap.scope import Scope

METHOD = "NVML"

EFFECTS = (Effect.COMMUNICATION,)
P2P_STATUS = (
    "ok", "chipset_not_supported", "gpu_not_supported", "topology_not_supported", "disabled_by_regkey",
    "not_supported", "unknown",
)  # fmt: skip
TOPOLOGY = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}
READ, WRITE, NVLINK, ATOMICS, PCI = range(5)
ADVICE = "Not ok where it was: look at the ACS bits of the bridges between, the IOMMU and the driver's registry keys."


def _p2p(name: str, index: int, prior: float, meaning: str) -> Fact:
    """NOTE: pynvml's NVML_P2P_CAPS_INDEX_READ is a tuple, by a stray comma; so numbers stand here."""
    key = Key(f"gpu_pair[].p2p_{name}", Type.STRING, Kind.IDENTITY, meaning, EFFECTS, prior, advice=ADVICE)
    return fact(key, ("nvmlDeviceGetP2PStatus", index), take=named(P2P_STATUS))


FACTS = (
    fact(Key("gpu_pair[].topology", Type.STRING, Kind.IDENTITY, "What lies between the two GPUs: one PCIe switch "
             "(single), several (multiple), a host bridge, a NUMA node, or the link between CPUs (system).",
             EFFECTS, 0.5), ("nvmlDeviceGetTopologyCommonAncestor",), take=named(TOPOLOGY)),
    _p2p("read", READ, 0.6, "Whether one GPU may read the other's memory."),
    _p2p("write", WRITE, 0.6, "Whether one GPU may write to the other's memory."),
    _p2p("nvlink", NVLINK, 0.6, "Whether such access goes over NVLink."),
    _p2p("atomics", ATOMICS, 0.3, "Whether one GPU may do atomic operations on the other's memory."),
    _p2p("pci", PCI, 0.4, "Whether such access goes over PCIe."),
)  # fmt: skip
KEYS = tuple(f.key for f in FACTS)


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings; every pair once, the lower index first."""
    pairs = list(combinations(range(gpu_count(host)), 2))
    calls = [f.calls[0] for f in FACTS]
    found = iter(host.found([["nvml", name, f"gpu:{a}", f"gpu:{b}", *rest] for a, b in pairs for name, *rest in calls]))
    for a, b in pairs:
        for f in FACTS:
            yield path_of(f.key.pattern, f"{a}/{b}"), f.reading({f.calls[0]: next(found)})
