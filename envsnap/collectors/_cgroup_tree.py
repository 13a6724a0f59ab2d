"""Where the control groups of this process are, of either version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envsnap.collectors._files import Parse, read_files
from envsnap.collectors._mounts import Mount
from envsnap.host import Host, value_of
from envsnap.reading import Json, Missing, Unavailable, Why

_FILES = {
    (1, "cpu"): ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares", "cpu.stat"),
    (2, "cpu"): ("cpu.max", "cpu.weight", "cpu.stat"),
    (1, "cpuset"): ("cpuset.effective_cpus", "cpuset.effective_mems"),
    (2, "cpuset"): ("cpuset.cpus.effective", "cpuset.mems.effective"),
    (1, "memory"): ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.failcnt", "memory.oom_control"),
    (2, "memory"): ("memory.max", "memory.high", "memory.swap.max", "memory.current", "memory.events"),
    (1, "pids"): ("pids.max",),
    (2, "pids"): ("pids.max",),
    (1, "blkio"): ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"),
    (2, "blkio"): ("io.max",),
}
"""What is read of each group, by version and controller (blkio is v1's name of io)."""


@dataclass(frozen=True)
class Place:
    """A controller's hierarchy: its version, and the process's own group followed by those above it."""

    version: int
    folders: tuple[str, ...]


def parse_groups(text: str) -> dict[str, str]:
    """Controller -> path of the process's group, of /proc/self/cgroup; v2 stands under the empty name."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdecimal() and path.startswith("/"):
            groups.update((name, path) for name in controllers.split(","))
    return groups


def place_of(controller: str, groups: Mapping[str, str], table: tuple[Mount, ...]) -> Place | None:
    """The v1 hierarchy that has the controller, else the v2 one; None where neither is mounted."""
    for version, kind, name in ((1, "cgroup", controller), (2, "cgroup2", "")):
        for mount in reversed(table):
            if name in groups and mount.type == kind and (version == 2 or name in mount.super_options):
                return Place(version, tuple(_upwards(mount, groups[name])))
    return None


def _upwards(mount: Mount, path: str) -> Iterator[str]:
    root = mount.root.rstrip("/")
    below = path[len(root) :].split("/") if path == root or path.startswith(root + "/") else []
    parts = [part for part in below if part]
    if ".." in parts:
        # NOTE: the group lies outside of what this cgroup namespace shows; the mount's own group is all there is.
        parts = []
    for depth in range(min(len(parts), 32), -1, -1):
        yield "/".join([mount.point, *parts[:depth]])


class Tree:
    """The files of all groups on the way up, by controller."""

    def __init__(self, host: Host, groups: Mapping[str, str], table: tuple[Mount, ...]) -> None:
        self._places = {name: place_of(name, groups, table) for name in ("cpu", "cpuset", "memory", "pids", "blkio")}
        wanted = (
            f"{folder}/{name}"
            for controller, place in self._places.items()
            if place
            for folder in place.folders
            for name in (*_FILES[place.version, controller], "cgroup.procs")
        )
        self._files = read_files(host, wanted)

    def place(self, controller: str) -> Place:
        """Raises: Missing where the controller is not mounted."""
        place = self._places[controller]
        if place is None:
            raise Missing(Why.ABSENT, f"no {controller} controller is mounted here")
        return place

    def name(self, controller: str, v1: str, v2: str) -> str:
        """The file's name in the controller's version. Raises: Missing where that version has none."""
        name = v1 if self.place(controller).version == 1 else v2
        if not name:
            raise Missing(Why.NOT_SUPPORTED, f"cgroup v{self.place(controller).version} has none")
        return name

    def all(self, controller: str, name: str, parse: Parse = str) -> list[Json]:
        """Values in those groups, own first, that have the file. Raises: Missing or HostError if one is unreadable."""
        found = [self._files.value(f"{folder}/{name}", parse) for folder in self.place(controller).folders]
        return [value_of(f) for f in found if not (isinstance(f, Unavailable) and f.why is Why.ABSENT)]

    def nearest(self, controller: str, name: str, parse: Parse = str) -> Json:
        """The value in the process's own group, else in the next one above that has the file."""
        values = self.all(controller, name, parse)
        if not values:
            raise Missing(Why.ABSENT, f"no {name} from {self.place(controller).folders[0]} upwards")
        return values[0]

    def limits(self, controller: str, name: str, parse: Parse = str) -> list[Json]:
        """As `all`; none where the process's own group can be looked into and no group has the file: no limit then."""
        values = self.all(controller, name, parse)
        if not values:
            value_of(self._files[f"{self.place(controller).folders[0]}/cgroup.procs"])
        return values
