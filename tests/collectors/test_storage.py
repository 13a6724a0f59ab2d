from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from envsnap import machine
from envsnap.host import Answer, LiveHost, Request
from envsnap.reading import Unavailable, Unset, Why
from envsnap.snapshot import Section
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost, missing

NVME = "../../devices/pci0000:00/0000:3d:00.0/nvme/nvme0/nvme0n1"
MOUNTS = """26 1 259:2 / / rw,noatime shared:1 - ext4 /dev/nvme0n1p2 rw,discard
27 26 0:40 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw,size=1g,inode64
28 26 0:50 / /home rw,relatime - nfs4 nas:/home rw,vers=4.2,rsize=1048576,hard,nconnect=8,addr=192.0.2.1
29 26 8:16 / /data rw - xfs /dev/sdb rw,attr2,inode64,allocsize=1m
30 26 0:60 /cache /cache rw - btrfs /dev/sdc rw,compress=zstd:3,subvol=/cache
31 26 253:0 / /models ro - ext4 /dev/mapper/vg-models ro
"""
SPACE = {"size_bytes": 1000, "available_bytes": 400, "files": 10, "files_available": 7}


def node(**environ: str) -> FakeHost:
    """A root on a partition of an NVMe disk, home directories on NFS, data on disks of other kinds."""
    files = {
        "/proc/self/mountinfo": MOUNTS,
        "/sys/devices/pci0000:00/0000:3d:00.0/nvme/nvme0/nvme0n1/nvme0n1p2/partition": "2",
    }
    links = {
        "/sys/dev/block/259:2": f"{NVME}/nvme0n1p2",
        "/sys/dev/block/8:16": "../../devices/pci0000:00/ata1/block/sdb",
    }
    links |= {
        "/sys/class/block/sdc": "../../devices/pci0000:00/ata2/block/sdc",
        "/sys/dev/block/253:0": "../../devices/virtual/block/dm-0",
    }
    for place, rotational, scheduler in (
        (NVME, 0, "[none] mq-deadline kyber"),
        ("../../devices/pci0000:00/ata1/block/sdb", 1, "none [mq-deadline]"),
        ("../../devices/pci0000:00/ata2/block/sdc", 0, "none [bfq]"),
        ("../../devices/virtual/block/dm-0", 0, "none"),
    ):
        queue = f"/sys/{place.removeprefix('../../')}/queue"
        files |= {
            f"{queue}/rotational": f"{rotational}\n",
            f"{queue}/scheduler": f"{scheduler}\n",
            f"{queue}/read_ahead_kb": "128\n",
            f"{queue}/nr_requests": "1023\n",
        }
    variables = {"HOME": "/home/ada"} | environ
    replies = {("environ",): variables, ("self",): {"cwd": "/data/run", "uid": 1000}, ("statvfs",): SPACE}
    return FakeHost(files, links, replies)


def read(host: FakeHost) -> Section:
    found = section("storage", host)
    assert found.errors == {}
    return found


def test_each_place_by_its_role() -> None:
    values = read(node()).values
    assert {p: v for p, v in values.items() if p.endswith(".path")} == {
        "storage[cwd].path": "/data/run",
        "storage[home].path": "/home/ada",
        "storage[tmp].path": "/tmp",
        "storage[shm].path": "/dev/shm",
        "storage[cache].path": "/home/ada/.cache",
        "storage[hub].path": "/home/ada/.cache/huggingface/hub",
    }
    assert {p: v for p, v in values.items() if p.endswith(".file_system")} == {
        "storage[cwd].file_system": "xfs",
        "storage[home].file_system": "nfs4",
        "storage[tmp].file_system": "ext4",
        "storage[shm].file_system": "tmpfs",
        "storage[cache].file_system": "nfs4",
        "storage[hub].file_system": "nfs4",
    }


def test_places_that_variables_moved() -> None:
    values = read(node(TMPDIR="/data/tmp", HF_HOME="/models/hf", XDG_CACHE_HOME="/cache/ada")).values
    assert values["storage[tmp].path"] == "/data/tmp"
    assert values["storage[hub].path"] == "/models/hf/hub"
    assert values["storage[cache].path"] == "/cache/ada"
    assert values["storage[hub].options"] == ["ro"]


def test_what_holds_the_data() -> None:
    values = read(node(XDG_CACHE_HOME="/cache", TMPDIR="/models/t")).values
    media = {p.split("[")[1].split("]")[0]: v for p, v in values.items() if p.endswith(".medium")}
    assert media == {
        "cwd": "disk",
        "home": "network",
        "tmp": "flash",
        "shm": "memory",
        "cache": "flash",
        "hub": "flash",
    }
    assert read(node()).values["storage[tmp].medium"] == "nvme"


def test_options_that_tell_something() -> None:
    values = read(node(XDG_CACHE_HOME="/cache")).values
    assert values["storage[home].options"] == ["hard", "nconnect=8", "rsize=1048576", "vers=4.2"]
    assert values["storage[tmp].options"] == ["discard", "noatime"]
    assert values["storage[cache].options"] == ["compress=zstd:3"]
    assert values["storage[shm].options"] == []


def test_a_disk_is_recorded_once_and_a_partition_has_its_disks_queue() -> None:
    values = read(node(HOME="/", TMPDIR="/x")).values
    assert {p: v for p, v in values.items() if p.startswith("disk[nvme0n1]")} == {
        "disk[nvme0n1].rotational": False,
        "disk[nvme0n1].scheduler": "none",
        "disk[nvme0n1].read_ahead_bytes": 131072,
        "disk[nvme0n1].requests_count": 1023,
    }
    assert values["disk[sdb].scheduler"] == "mq-deadline"
    assert (values["storage[home].disk"], values["storage[cwd].disk"]) == ("nvme0n1", "sdb")


def test_a_network_mount_has_no_disk() -> None:
    assert isinstance(read(node()).reading("storage[home].disk"), Unset)


def test_symbolic_links_are_followed_to_the_mount_that_really_holds_a_place() -> None:
    host = node()
    host.links["/home/ada/.cache"] = "/data/cache"
    values = read(host).values
    assert values["storage[cache].file_system"] == "xfs"
    assert values["storage[home].file_system"] == "nfs4"


def test_room() -> None:
    values = read(node()).values
    assert values["storage[cwd].size_bytes"] == 1000
    assert values["storage[cwd].available_bytes"] == 400
    assert values["storage[cwd].available_files_count"] == 7


def test_a_place_that_does_not_exist_yet_has_a_file_system_and_no_room() -> None:
    host = node()
    host.replies[("statvfs", "/home/ada/.cache/huggingface/hub")] = missing("absent", "no such directory")
    found = read(host)
    assert found.values["storage[hub].file_system"] == "nfs4"
    assert found.unavailable["storage[hub].available_bytes"].why is Why.ABSENT


def test_a_dead_mount_still_has_a_type() -> None:
    host = node()
    for operation in ("realpath", "statvfs"):
        host.replies[(operation, "/home/ada")] = missing("timeout", "no answer within 2 s")
    found = read(host)
    assert found.values["storage[home].file_system"] == "nfs4"
    assert found.unavailable["storage[home].available_bytes"].why is Why.TIMEOUT
    assert found.values["storage[cwd].available_bytes"] == 400


def test_no_home_costs_only_what_depends_on_it() -> None:
    host = node()
    host.replies[("environ",)] = {}
    found = read(host)
    assert isinstance(found.reading("storage[home].path"), Unavailable)
    assert found.values["storage[tmp].file_system"] == "ext4"


def test_the_empty_machine() -> None:
    assert on_the_empty_machine("storage").values == {"storage[shm].path": "/dev/shm"}


def test_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = section("storage", LiveHost())
    assert found.errors == {}
    assert found.values["storage[cwd].path"] == os.getcwd()
    assert found.values["storage[cwd].size_bytes"] == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize


# -- a file system that hangs ---------------------------------------------------------------------------------


@pytest.fixture
def dead_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every look at /dead hangs, as on a network mount whose server is gone."""
    woken = threading.Event()
    real = machine.OPERATIONS["statvfs"]

    def statvfs(path: str) -> object:
        if path.startswith("/dead"):
            woken.wait()
        return real(path)

    monkeypatch.setitem(machine.OPERATIONS, "statvfs", statvfs)
    monkeypatch.setenv("HOME", "/dead/home")
    yield
    woken.set()


class Hurried(LiveHost):
    """Waits less for what hangs than a real capture would."""

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        return super().ask([["within", 0.2, r[2]] if r[0] == "within" else r for r in requests])


@pytest.mark.usefixtures("dead_home")
def test_a_hanging_file_system_costs_its_own_readings_alone() -> None:
    started = time.monotonic()
    found = section("storage", Hurried())
    assert time.monotonic() - started < 5
    assert found.status == "ok"
    assert found.unavailable["storage[home].available_bytes"].why is Why.TIMEOUT
    assert found.values["storage[cwd].available_bytes"] > 0
    assert found.values["storage[shm].medium"] == "memory"
