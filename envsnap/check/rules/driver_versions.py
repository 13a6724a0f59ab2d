"""The driver's kernel module and its libraries are of different versions.

After an upgrade without a reboot, or in a container that was started before it: NVML and CUDA fail, or one of several
libcuda files is taken by chance. Fix: reboot, or load the modules again; start the container anew; remove the other
version's libraries.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "driver_versions"
SEVERITY = ERROR
NEEDS = ("nvidia.module_version",)
USES = ("nvml.driver_version", "nvidia.library_matches_module", "nvidia.library_versions")

_FIX = "Reboot, or load the modules again."


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    module, driver = facts.value("nvidia.module_version"), facts.value("nvml.driver_version")
    versions = facts.value("nvidia.library_versions") or []
    if driver is not None and driver != module:
        yield Problem(f"NVML is of driver {driver}, the loaded module of {module}",
                      ("nvml.driver_version", "nvidia.module_version"), _FIX)  # fmt: skip
    elif facts.value("nvidia.library_matches_module") is False:
        yield Problem(f"libcuda is of {', '.join(versions) or 'another version'}, the loaded module of {module}",
                      ("nvidia.library_matches_module",), _FIX)  # fmt: skip
    elif len(versions) > 1:
        yield Problem(f"libcuda is here in {len(versions)} versions: {', '.join(versions)}",
                      ("nvidia.library_versions",), "Remove all but the driver's own.", WARNING)  # fmt: skip
