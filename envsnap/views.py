"""Views of one machine: its own, and those from inside its containers.

Two snapshots are views of one machine where they were taken in the same boot; one is the host's view of the other
where it could see the other's processes, which live in a PID namespace of their own. What the kernel has once for
all (its log, the PCI bus, the driver) and does not show inside is then taken from the host's view.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.reading import Json, Unavailable, Value
from envsnap.snapshot import Section, Snapshot

BOOT_ID = "kernel.boot_id"

SHARED = (
    *("clock", "cpu", "gpu", "gpu_device", "gpu_pair", "kernel", "kernel_log", "numa", "nvidia_driver"),
    *("pci", "platform", "rdma"),
)
"""Sections about what a machine has once, however many containers look at it."""

_BEYOND = {
    "pid": "processes outside (who else takes CPU time, memory and GPUs)",
    "cgroup": "limits set above it",
    "user": "what the host's root alone may read",
    "ipc": "shared memory outside",
}
_ENTERS = {
    "docker", "podman", "nerdctl", "crictl", "pct", "lxc", "lxc-attach", "incus", "nsenter", "enroot", "machinectl",
    "apptainer", "singularity",
}  # fmt: skip
"""Programs that lead from a host into one of its containers (kubectl leads there from anywhere)."""


@dataclass(frozen=True)
class View:
    """A snapshot with the PID namespaces that could be seen where it was taken."""

    snapshot: Snapshot
    sees: frozenset[str] = frozenset()

    @property
    def boot_id(self) -> Json:
        """Which boot of which machine it is; None where that could not be read."""
        return self.snapshot.values.get(BOOT_ID)

    @property
    def namespace(self) -> Json:
        """The PID namespace that it was taken in; None where that could not be read."""
        return self.snapshot.via.get("pid_namespace")


def joined(views: Sequence[View]) -> list[Snapshot]:
    """The snapshots, in their order; one taken inside of another's machine is filled from that one's."""
    hosts = [_host_of(view, views) for view in views]
    return [_filled(view.snapshot, host.snapshot) if host else view.snapshot for view, host in zip(views, hosts)]


def _host_of(inner: View, views: Sequence[View]) -> View | None:
    """The view from which this one's processes can be seen and which cannot be seen from it."""
    for view in views:
        if view is inner or not inner.boot_id or view.boot_id != inner.boot_id:
            continue
        if view.namespace != inner.namespace and inner.namespace in view.sees and view.namespace not in inner.sees:
            return view
    return None


def _filled(inner: Snapshot, host: Snapshot) -> Snapshot:
    """The snapshot with what it lacks of the machine itself, and in `via` where that is from."""
    gpus = _same_gpus(inner, host)
    sections, taken = dict(inner.sections), []
    for name in SHARED:
        mine, theirs = inner.sections.get(name), host.sections.get(name)
        if mine is None or theirs is None:
            continue
        section, paths = _section(mine, theirs, gpus)
        if paths:
            sections[name] = section
            taken += paths
    about = {"prefix": host.via.get("prefix", ""), "captured_at": host.captured_at, "paths": sorted(taken)}
    return replace(inner, sections=sections, via={**inner.via, "host_view": about})


def _section(mine: Section, theirs: Section, gpus: dict[str, str]) -> tuple[Section, list[str]]:
    """A section with the values that it lacks and the other one has, and their paths."""
    if mine.status == "unavailable" and not mine.values:
        return replace(theirs, method=f"{theirs.method} (on the host)"), sorted(theirs.values)
    found = {}
    for path, value in theirs.values.items():
        here = _here(path, gpus)
        if here and not isinstance(mine.reading(here), Value) and _is_missing(mine, here):
            found[here] = value
    if not found:
        return mine, []
    return (
        replace(
            mine,
            values={**mine.values, **found},
            unavailable={path: why for path, why in mine.unavailable.items() if path not in found},
            method=f"{mine.method} (in part on the host)",
        ),
        sorted(found),
    )


def _is_missing(section: Section, path: str) -> bool:
    """Whether it could not be read inside; what is *unset* there is so, and stays."""
    return isinstance(section.reading(path), Unavailable)


def _here(path: str, gpus: dict[str, str]) -> str:
    """The same path inside, where GPUs may be fewer and have other numbers; empty where there is none."""
    if not path.startswith("gpu["):
        return path
    index, *others = instances_of(path)
    return path_of(pattern_of(path), gpus[index], *others) if index in gpus else ""


def _same_gpus(inner: Snapshot, host: Snapshot) -> dict[str, str]:
    """Number on the host -> number inside, of every GPU whose UUID both know."""
    inside = _uuids(inner)
    return {number: inside[uuid] for uuid, number in _uuids(host).items() if uuid in inside}


def _uuids(snapshot: Snapshot) -> dict[str, str]:
    found = {}
    for path, value in snapshot.values.items():
        match = re.fullmatch(r"gpu\[(\d+)\]\.uuid", path)
        if match and isinstance(value, str):
            found[value] = match[1]
    return found


def unseen(snapshot: Snapshot) -> list[str]:
    """What cannot be seen from inside the container that a snapshot was taken in; empty where it is none."""
    apart = snapshot.values.get("container.namespaces")
    if snapshot.values.get("container.kind") in (None, "none") or not isinstance(apart, list):
        return []
    found = [words for name, words in _BEYOND.items() if name in apart]
    if snapshot.sections.get("kernel_log", _NOTHING).status == "unavailable":
        found.append("the kernel's log")
    return found


_NOTHING = Section("unavailable", False, 0.0, "")


def host_prefix(prefix: Collection[str]) -> list[str] | None:
    """The part of a prefix that leads to the container's host; None where nothing in it enters a container."""
    words = list(prefix)
    for at, word in enumerate(words):
        if os.path.basename(word) in _ENTERS:
            return words[:at]
    return None
