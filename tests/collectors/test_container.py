from __future__ import annotations

from collections.abc import Mapping

import pytest

from envsnap.collectors._mounts import mount_at, parse_mountinfo
from envsnap.host import LiveHost
from envsnap.reading import Why
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost

NS = {"cgroup": 4026531835, "ipc": 4026531839, "pid": 4026531836, "time": 4026531834, "user": 4026531837}
NS |= {"uts": 4026531838}
HOST_MOUNTS = "26 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
LAYERED_MOUNTS = "600 500 0:60 / / rw,relatime - overlay overlay rw,lowerdir=/a:/b,upperdir=/c\n"


def machine(
    files: Mapping[str, str],
    apart: Mapping[str, int] | None = None,
    mounts: str = LAYERED_MOUNTS,
    environ: Mapping[str, str] | None = None,
) -> FakeHost:
    """A system with some namespaces `apart` from the host's."""
    links = {f"/proc/self/ns/{name}": f"{name}:[{inode}]" for name, inode in (NS | dict(apart or {})).items()}
    base = {"/proc/self/mountinfo": mounts, "/proc/self/uid_map": "         0          0 4294967295\n"}
    return FakeHost(base | dict(files), links, {("environ",): dict(environ or {})})


APART = {"pid": 4026532601, "ipc": 4026532599, "uts": 4026532598, "cgroup": 4026532602}


@pytest.mark.parametrize(
    ("files", "environ", "expected"),
    [
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/run/.containerenv": 'engine="podman-4.9"\n'}, {}, "podman"),
        ({"/.dockerenv": "", "/var/run/secrets/kubernetes.io/serviceaccount/token": "x"}, {}, "kubernetes"),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/.singularity.d/env": ""}, {}, "apptainer"),
        ({"/proc/1/environ": "PATH=/bin\0container=lxc\0TERM=linux\0"}, {}, "lxc"),
        ({"/proc/1/environ": "container=podman\0"}, {}, "podman"),
        ({"/run/host/container-manager": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({"/proc/self/cgroup": "4:memory:/docker/0123abcd\n"}, {}, "docker"),
        ({"/proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope\n"}, {}, "kubernetes"),
        ({"/proc/self/cgroup": "0::/machine.slice/libpod-123.scope/container\n"}, {}, "podman"),
        ({}, {}, "other"),
    ],
)
def test_kinds(files: Mapping[str, str], environ: Mapping[str, str], expected: str) -> None:
    read = section("container", machine(files, APART, environ=environ))
    assert read.errors == {}
    assert read.values["container.kind"] == expected


def test_no_container() -> None:
    values = section("container", machine({"/proc/self/cgroup": "0::/user.slice\n"}, mounts=HOST_MOUNTS)).values
    assert values["container.kind"] == "none"
    assert values["container.namespaces"] == []
    assert values["container.root_file_system"] == "ext4"
    assert values["container.user_ids_mapped"] is False


def test_a_host_with_docker_running_is_no_container() -> None:
    files = {"/proc/self/cgroup": "0::/system.slice/docker.service\n"}
    assert section("container", machine(files, mounts=HOST_MOUNTS)).values["container.kind"] == "none"


def test_a_virtual_machine_made_of_an_image_is_no_container() -> None:
    values = section("container", machine({"/.dockerenv": ""}, mounts=HOST_MOUNTS)).values
    assert values["container.kind"] == "none"


def test_a_container_that_shares_the_hosts_processes_is_one() -> None:
    shared = machine({"/.dockerenv": ""}, {"ipc": 1})
    values = section("container", shared).values
    assert values["container.kind"] == "docker"
    assert values["container.namespaces"] == ["ipc"]


def test_rootless() -> None:
    host = machine({"/proc/self/uid_map": "0 1000 1\n1 100000 65536\n"}, APART | {"user": 7})
    values = section("container", host).values
    assert values["container.user_ids_mapped"] is True
    assert values["container.namespaces"] == ["cgroup", "ipc", "pid", "user", "uts"]


def test_namespaces_that_nobody_may_see_leave_the_marker_to_be_believed() -> None:
    host = machine({"/.dockerenv": ""}, mounts=HOST_MOUNTS)
    host.denied = ("/proc/self/ns",)
    read = section("container", host)
    assert read.values["container.kind"] == "docker"
    assert read.unavailable["container.namespaces"].why is Why.DENIED


def test_without_any_evidence_nothing_is_claimed() -> None:
    host = machine({}, mounts=HOST_MOUNTS)
    host.denied = ("/proc/self/ns",)
    assert section("container", host).unavailable["container.kind"].why is Why.DENIED


# -- the mount table ------------------------------------------------------------------------------------------

MOUNTS = parse_mountinfo(
    "26 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,stripe=4\n"
    "30 26 0:50 /team /data rw,relatime shared:2 master:1 - nfs4 nas:/team rw,vers=4.2,nconnect=8\n"
    "31 26 0:51 / /data/my\\040models rw - tmpfs tmpfs rw\n"
    "32 26 0:52 / /data rw - overlay over rw\n"
    "nonsense\n"
)


def test_a_line_of_the_mount_table() -> None:
    nfs = MOUNTS[1]
    assert (nfs.device, nfs.root, nfs.point, nfs.type, nfs.source) == ("0:50", "/team", "/data", "nfs4", "nas:/team")
    assert nfs.options == ("rw", "relatime")
    assert nfs.super_options == ("rw", "vers=4.2", "nconnect=8")
    assert len(MOUNTS) == 4


@pytest.mark.parametrize(
    ("path", "type"),
    [
        ("/", "ext4"),
        ("/home/x", "ext4"),
        ("/database", "ext4"),
        ("/data", "overlay"),
        ("/data/x", "overlay"),
        ("/data/my models/llama", "tmpfs"),
    ],
)
def test_the_mount_that_holds_a_path(path: str, type: str) -> None:
    mount = mount_at(path, MOUNTS)
    assert mount is not None
    assert mount.type == type


def test_no_mount_table_holds_nothing() -> None:
    assert mount_at("/x", ()) is None


def test_the_empty_machine() -> None:
    assert on_the_empty_machine("container").values == {}


def test_this_machine() -> None:
    read = section("container", LiveHost())
    assert read.errors == {}
    assert read.values["container.root_file_system"]
