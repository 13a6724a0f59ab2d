"""A GPU has not joined its NVSwitch fabric, or the fabric is not well.

Without it CUDA does not start, or runs without NVLink. Boards without a fabric are not judged. Fix: start
nvidia-fabricmanager in the driver's own version, wait until `nvidia-smi -q | grep -A3 Fabric` says Completed, look at
/var/log/fabricmanager.log; in a virtual machine the host runs it.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "fabric"
SEVERITY = ERROR
NEEDS = ("gpu[].fabric_state",)
USES = (
    "gpu[].fabric_status_code", "gpu[].fabric_health", "gpu[].fabric_degraded_bandwidth",
    "gpu[].fabric_route_unhealthy", "gpu[].fabric_misconfiguration",
)  # fmt: skip

_FIX = "systemctl restart nvidia-fabricmanager; journalctl -u nvidia-fabricmanager"


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (state, code), gpus in facts.gpus_by("fabric_state", "fabric_status_code"):
        if state != "completed":
            yield Problem(f"{gpus}: joining the fabric is {state}", gpus.paths("fabric_state"), _FIX)
        elif code:
            yield Problem(f"{gpus}: joining the fabric failed (code {code})", gpus.paths("fabric_status_code"), _FIX)
    for name, well in (
        ("fabric_health", "healthy"), ("fabric_degraded_bandwidth", False), ("fabric_route_unhealthy", False),
        ("fabric_misconfiguration", "none"),
    ):  # fmt: skip
        for (value,), gpus in facts.gpus_by(name):
            if value is not None and value != well:
                severity = ERROR if name == "fabric_health" and value == "unhealthy" else WARNING
                yield Problem(f"{gpus}: {name} is {value}".replace("_", " "), gpus.paths(name), _FIX, severity)
