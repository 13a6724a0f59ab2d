"""NVSwitches are here, and nothing manages them.

Without nv-fabricmanager CUDA does not start on such a board (error 802), unless the GPUs have joined their fabric by
other means: then it is not missed. A container does not show the host's daemons, so none is judged there. Fix:
`systemctl enable --now nvidia-fabricmanager`, in the driver's own version.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, NotApplicable, Problem

CODE = "fabric_manager"
SEVERITY = ERROR
NEEDS = ("nvidia.device_files",)
USES = ("nvidia.daemon[].running", "container.kind", "gpu[].fabric_state")

_DAEMON = "nvidia.daemon[nv-fabricmanager].running"


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    if not any("nvswitch" in name for name in facts.value("nvidia.device_files") or ()):
        raise NotApplicable("no NVSwitch is here")
    if facts.value("container.kind") != "none":
        raise NotApplicable("a container does not show the host's daemons")
    joined = set(facts.all("gpu[].fabric_state").values()) == {"completed"}
    if facts.value(_DAEMON) is False and not joined:
        yield Problem("nv-fabricmanager does not run", (_DAEMON,), "systemctl enable --now nvidia-fabricmanager")
