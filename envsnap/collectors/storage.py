"""Storage: the file systems under the directories that programs use, and the devices under those.

Any of them may be a dead network mount, so they are asked side by side within a deadline of their own. Their types
are in the mount table, which always answers.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envsnap.collectors._files import chosen, natural, read_files, switch, times
from envsnap.collectors._homes import home, hub, placed
from envsnap.collectors._mounts import Mount, mount_at, mounts
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "/proc/self/mountinfo, statvfs, /sys/dev/block"

DEADLINE_SECONDS = 2.0
"""How long a file system may take to answer; half of a hurried capture, and long for a healthy mount."""

_STORAGE = (Effect.STORAGE,)
_LOADING = (Effect.STORAGE, Effect.HOST_LAUNCH)

_SPACE = (
    (Key("storage[].size_bytes", Type.INTEGER, Kind.IDENTITY, "Size of the file system.", _STORAGE, 0.05, rel_tol=0.01),
     "size_bytes"),
    (Key("storage[].available_bytes", Type.INTEGER, Kind.VOLATILE, "Room left for this user; caches fail without.",
         _STORAGE, 0.2, rel_tol=0.1),
     "available_bytes"),
    (Key("storage[].available_files_count", Type.INTEGER, Kind.VOLATILE, "Files that can still be made.",
         _STORAGE, 0.1, rel_tol=0.1),
     "files_available"),
)  # fmt: skip

_QUEUE = (
    (Key("disk[].rotational", Type.BOOLEAN, Kind.IDENTITY,
         "Whether the device says that it turns; virtual disks often say so and do not.", _LOADING, 0.2),
     "rotational", switch),
    (Key("disk[].scheduler", Type.STRING, Kind.TUNABLE, "Order in which requests go to the device.", _STORAGE, 0.1,
         Lever.ROOT),
     "scheduler", chosen),
    (Key("disk[].read_ahead_bytes", Type.INTEGER, Kind.TUNABLE,
         "How far ahead files are read; little of it makes loading weights slow.", _STORAGE, 0.2, Lever.ROOT),
     "read_ahead_kb", times(1024)),
    (Key("disk[].requests_count", Type.INTEGER, Kind.TUNABLE, "Requests that may wait for the device.", _STORAGE,
         0.05, Lever.ROOT),
     "nr_requests", natural),
)  # fmt: skip

KEYS = (
    Key("storage[].path", Type.STRING, Kind.LABEL,
        "Directory that the name stands for: cwd, home, tmp, shm, cache (~/.cache) or hub (Hugging Face)."),
    Key("storage[].mount_point", Type.STRING, Kind.LABEL, "Where its file system is mounted."),
    Key("storage[].file_system", Type.STRING, Kind.TUNABLE, "Type of its file system.", _LOADING, 0.35, Lever.ROOT,
        "Move compile caches and models from a network mount to a local disk."),
    Key("storage[].options", Type.STRINGS, Kind.TUNABLE,
        "Mount options that bear on speed or on writing at all.", _LOADING, 0.2, Lever.ROOT),
    Key("storage[].medium", Type.STRING, Kind.IDENTITY,
        "What holds the data: nvme, flash, disk, virtual, memory, network, host, overlay, loop or fuse.",
        _LOADING, 0.3),
    Key("storage[].disk", Type.STRING, Kind.IDENTITY, "Block device, which stands under disk.", _STORAGE, 0.1),
    *(key for key, *_ in (*_SPACE, *_QUEUE)),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    places = {name: attempt(_place, host, name) for name in ("cwd", "home", "tmp", "shm", "cache", "hub")}
    known = {name: place.value for name, place in places.items() if isinstance(place, Value)}
    for name, place in places.items():
        yield path_of("storage[].path", name), place
    table = mounts(host)
    requests = [[operation, path] for path in known.values() for operation in ("realpath", "statvfs")]
    answers = host.within(DEADLINE_SECONDS, requests)
    found = list(zip(known.items(), answers[::2], answers[1::2]))
    # NOTE: what does not answer still has a type: that of the mount at the path as it is written.
    holding = {
        name: mount_at(str(real.value) if isinstance(real, Value) else path, table) for (name, path), real, _ in found
    }
    devices = _devices(host, [mount for mount in holding.values() if mount])
    for (name, path), _, space in found:
        mount = holding[name]
        if mount is None:
            yield path_of("storage[].file_system", name), Unavailable(Why.ABSENT, f"no mount holds {path}")
        else:
            yield from _mount(name, mount, devices.get(_block(mount)))
        for key, field in _SPACE:
            yield path_of(key.pattern, name), attempt(lambda space=space, field=field: value_of(space)[field])
    for disk in {device.name: device for device in devices.values()}.values():
        for key, file, _ in _QUEUE:
            yield path_of(key.pattern, disk.name), disk.queue[file]


def _place(host: Host, name: str) -> str:
    """Where a directory is that programs know by this name. Raises: Missing."""
    if name == "shm":
        return "/dev/shm"
    if name == "cwd":
        return str(host.self()["cwd"])
    environ = host.environ()
    if name == "home":
        return home(host, environ)
    if name == "hub":
        return hub(host, environ).path
    if name == "cache":
        return placed(host, environ, {"XDG_CACHE_HOME": ""}, "~/.cache").path
    return next((environ[variable] for variable in ("TMPDIR", "TEMP", "TMP") if environ.get(variable)), "/tmp")


def _block(mount: Mount) -> str:
    """Where sysfs has the device of a mount; empty where there is none."""
    if not mount.device.startswith("0:"):
        return f"/sys/dev/block/{mount.device}"
    # NOTE: btrfs mounts carry a device number of their own, and the real device as source.
    return f"/sys/class/block/{posixpath.basename(mount.source)}" if mount.source.startswith("/dev/") else ""


@dataclass(frozen=True)
class _Device:
    """A disk: its name, where it stands among the devices, and the readings of its queue."""

    name: str
    place: str
    queue: Mapping[str, Found]


def _devices(host: Host, holding: list[Mount]) -> dict[str, _Device]:
    """The disks under the mounts, by where sysfs has the mount's device."""
    blocks = sorted({block for mount in holding if (block := _block(mount))})
    # NOTE: a partition has no queue: that of its disk, one directory up, counts.
    queues = [f"{block}/{up}queue/{file}" for block in blocks for up in ("", "../") for _, file, _ in _QUEUE]
    files = read_files(host, (*queues, *(f"{block}/partition" for block in blocks)))
    devices = {}
    for block, link in zip(blocks, host.found([["link", block] for block in blocks])):
        if isinstance(link, Value):
            place = str(link.value)
            up = "../" if isinstance(files[f"{block}/partition"], Value) else ""
            disk = posixpath.dirname(place) if up else place
            queue = {file: files.value(f"{block}/{up}queue/{file}", parse) for _, file, parse in _QUEUE}
            devices[block] = _Device(posixpath.basename(disk), disk, queue)
    return devices


def _mount(name: str, mount: Mount, device: _Device | None) -> Iterator[tuple[str, Found]]:
    yield path_of("storage[].mount_point", name), Value(mount.point)
    yield path_of("storage[].file_system", name), Value(mount.type)
    yield path_of("storage[].options", name), Value(_options(mount))
    yield path_of("storage[].medium", name), attempt(_medium, mount, device)
    if device:
        yield path_of("storage[].disk", name), Value(device.name)


_TELLING = (
    "ro sync dirsync noatime strictatime discard dax nobarrier hard soft softerr nolock noac nocto fsc nodelalloc "
    "volatile vers proto nconnect rsize wsize actimeo acregmin acregmax acdirmin acdirmax timeo retrans local_lock "
    "lookupcache sec cache msize trans data commit compress compress-force huge barrier allocsize stripe"
)


def _options(mount: Mount) -> list[str]:
    telling = set(_TELLING.split())
    every = {*mount.options, *mount.super_options}
    return sorted(option for option in every if option.partition("=")[0] in telling)


_BY_TYPE = {
    "memory": "tmpfs ramfs devtmpfs hugetlbfs",
    "network": "nfs nfs4 cifs smb3 ceph lustre beegfs gpfs wekafs afs glusterfs pvfs2 panfs daos fuse.sshfs fuse.s3fs "
    "fuse.gcsfuse fuse.juicefs fuse.JuiceFS fuse.glusterfs fuse.rclone fuse.mountpoint-s3 fuse.blobfuse "
    "fuse.blobfuse2 fuse.goofys fuse.ceph fuse.dfuse",
    "host": "9p virtiofs vboxsf fuse.vmhgfs-fuse",
    "overlay": "overlay aufs fuse.fuse-overlayfs",
}


def _medium(mount: Mount, device: _Device | None) -> str:
    for medium, types in _BY_TYPE.items():
        if mount.type in types.split():
            return medium
    if mount.type == "fuse" or mount.type.startswith("fuse."):
        return "fuse"
    if device is None:
        raise Missing(Why.ABSENT, "its device is not known here")
    for sign, medium in (("/nvme", "nvme"), ("/virtio", "virtual"), ("/vbd-", "virtual"), ("/loop", "loop")):
        if sign in device.place:
            return medium
    return "disk" if value_of(device.queue["rotational"]) else "flash"
