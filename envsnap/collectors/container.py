"""Container: which kind, and what it keeps apart from the host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envsnap.collectors._mounts import mount_at, mounts
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Type
from envsnap.reading import Found, Missing, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "marker files, /proc/1/environ, /proc/self/{cgroup,mountinfo,ns,uid_map}"

_HOST = (Effect.HOST_LAUNCH, Effect.COMMUNICATION)

KEYS = (
    Key("container.kind", Type.STRING, Kind.IDENTITY,
        "What this system is contained in: none, docker, podman, kubernetes, lxc, systemd-nspawn, apptainer, or other.",
        _HOST, 0.3),
    Key("container.namespaces", Type.STRINGS, Kind.IDENTITY,
        "Namespaces that are not the host's own, among those that can be told apart; "
        "CUDA IPC and shared memory between two containers need a common one.",
        _HOST, 0.2, advice="Start with `--ipc=host`, or `--pid=host`, where processes of two containers share a GPU."),
    Key("container.root_file_system", Type.STRING, Kind.IDENTITY,
        "Type of the file system at the root; overlay means that imports go through layers.", (Effect.STORAGE,), 0.1),
    Key("container.user_ids_mapped", Type.BOOLEAN, Kind.IDENTITY,
        "Whether user ids here are others than the host's (rootless containers).", (Effect.HOST_LAUNCH,), 0.1),
)  # fmt: skip

# NOTE: inode numbers of the host's own namespaces, fixed in the kernel's source.
_HOSTS_OWN = {
    "cgroup": 0xEFFFFFFB,
    "ipc": 0xEFFFFFFF,
    "pid": 0xEFFFFFFC,
    "time": 0xEFFFFFFA,
    "user": 0xEFFFFFFD,
    "uts": 0xEFFFFFFE,
}

_MARKERS = ("/.dockerenv", "/run/.containerenv", "/.singularity.d", "/var/run/secrets/kubernetes.io")
_TEXTS = ("/run/host/container-manager", "/proc/1/environ", "/proc/self/cgroup", "/proc/self/uid_map")

_LAYERED = ("overlay", "fuse-overlayfs", "aufs", "fuse.fuse-overlayfs")

_IN_CGROUP_PATHS = (
    (r"kubepods", "kubernetes"),
    (r"/docker[/-]", "docker"),
    (r"/libpod", "podman"),
    (r"/lxc[./]", "lxc"),
    (r"machine\.slice/systemd-nspawn", "systemd-nspawn"),
)


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    answers = host.found(
        [
            *(["link", f"/proc/self/ns/{name}"] for name in _HOSTS_OWN),
            *(["stat", path] for path in _MARKERS),
            *(["read", path, 65536] for path in _TEXTS),
        ]
    )
    names, rest = answers[: len(_HOSTS_OWN)], answers[len(_HOSTS_OWN) :]
    namespaces = attempt(_namespaces, dict(zip(_HOSTS_OWN, names)))
    marked = {path for path, found in zip(_MARKERS, rest) if isinstance(found, Value)}
    texts = dict(zip(_TEXTS, rest[len(_MARKERS) :]))
    root = attempt(_root_type, host)
    environ = attempt(host.environ)
    known = environ.value if isinstance(environ, Value) else {}
    yield "container.kind", attempt(_kind, known, marked, texts, namespaces, root)
    yield "container.namespaces", namespaces
    yield "container.root_file_system", root
    yield "container.user_ids_mapped", attempt(lambda: value_of(texts["/proc/self/uid_map"]).split() != _ALL_IDS)


_ALL_IDS = ["0", "0", "4294967295"]


def _namespaces(links: Mapping[str, Found]) -> list[str]:
    """Names of the namespaces that are not the host's. Raises: Missing where not even one can be read."""
    read = {name: str(link.value) for name, link in links.items() if isinstance(link, Value)}
    if not read:
        value_of(links["pid"])
    return sorted(name for name, link in read.items() if link != f"{name}:[{_HOSTS_OWN[name]}]")


def _root_type(host: Host) -> str:
    root = mount_at("/", mounts(host))
    if root is None:
        raise Missing(Why.ABSENT, "no mount at /")
    return root.type


def _kind(
    environ: Mapping[str, str], marked: set[str], texts: Mapping[str, Found], namespaces: Found, root: Found
) -> str:
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or "/.singularity.d" in marked:
        return "apptainer"
    if environ.get("KUBERNETES_SERVICE_HOST") or "/var/run/secrets/kubernetes.io" in marked:
        return "kubernetes"
    manager = texts["/run/host/container-manager"]
    if isinstance(manager, Value) and manager.value.strip():
        return str(manager.value.strip())
    first = texts["/proc/1/environ"]
    named = re.search(r"(?:^|\0)container=([\w.-]+)", first.value) if isinstance(first, Value) else None
    if named:
        return named.group(1)
    cgroup = texts["/proc/self/cgroup"]
    for sign, kind in _IN_CGROUP_PATHS:
        if isinstance(cgroup, Value) and re.search(sign, cgroup.value):
            return kind
    apart = namespaces.value if isinstance(namespaces, Value) else None
    # NOTE: a virtual machine whose disk was made of an image still has the image's /.dockerenv: it counts only
    # where something is really kept apart.
    if apart is None or "pid" in apart or (isinstance(root, Value) and root.value in _LAYERED):
        if "/.dockerenv" in marked:
            return "docker"
        if "/run/.containerenv" in marked:
            return "podman"
    return "other" if "pid" in value_of(namespaces) else "none"
