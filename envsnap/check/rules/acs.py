"""PCIe bridges above the GPUs send traffic between them up to the root complex (ACS).

Peer-to-peer access, also between GPU and network adapter, then takes the long way: a half to a tenth of the bandwidth,
or a crash with GPUDirect. Virtual machines need ACS, so none is judged there. The bits come back at each boot. Fix, on
bare metal: `setpci -s ADDRESS ECAP_ACS+6.w=0` for each bridge; reading them needs root.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem
from envsnap.check.rules import _peer_traffic

CODE = "acs"
SEVERITY = WARNING
NEEDS = ("pci[].acs_enabled",)
USES = _peer_traffic.USES

_REDIRECTS = {"request_redirect", "completion_redirect"}


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    _peer_traffic.on_bare_metal_over_pcie(facts)
    found = [path for (name,), path, value in facts.each("pci[].acs_enabled")
             if name.startswith("gpu") and "/up" in name and _REDIRECTS & set(value)]  # fmt: skip
    if found:
        yield Problem(f"ACS redirects peer-to-peer traffic at {len(found)} bridges above GPUs", tuple(found),
                      "setpci -s ADDRESS ECAP_ACS+6.w=0 on each, after every boot")  # fmt: skip
