from __future__ import annotations

from collections.abc import Mapping

import pytest

from envsnap.collectors._cgroup_tree import parse_groups
from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Unset, Why
from envsnap.snapshot import Section
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost

V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
UNLIMITED_V1 = "9223372036854771712"


def v2(files: Mapping[str, str], path: str = "/a/b", mount: str = V2_MOUNT) -> FakeHost:
    """A process in a group of the v2 hierarchy; `files` are relative to its mount."""
    given = {f"/sys/fs/cgroup/{name}": f"{text}\n" for name, text in files.items()}
    given |= {"/proc/self/cgroup": f"0::{path}\n", "/proc/self/mountinfo": mount}
    own = f"/sys/fs/cgroup{path.rstrip('/')}/cgroup.procs"
    return FakeHost({own: "1\n"} | given)


def v1(files: Mapping[str, str], root: str = "/", path: str = "/") -> FakeHost:
    """A process in a group of the v1 hierarchies; `files` are CONTROLLER/NAME."""
    names = ("cpu,cpuacct", "cpuset", "memory", "pids", "blkio")
    mounts = "".join(
        f"{number} 1 0:{number} {root} /sys/fs/cgroup/{name} ro - cgroup cgroup rw,{name}\n"
        for number, name in enumerate(names, 30)
    )
    groups = "".join(f"{number}:{name}:{path}\n" for number, name in enumerate(names, 1))
    given = {f"/sys/fs/cgroup/{name}": f"{text}\n" for name, text in files.items()}
    return FakeHost(given | {"/proc/self/cgroup": groups, "/proc/self/mountinfo": mounts})


def read(host: FakeHost) -> Section:
    found = section("cgroup", host)
    assert found.errors == {}
    return found


# -- version 2 ------------------------------------------------------------------------------------------------


def test_the_tightest_limit_on_the_way_up_holds() -> None:
    values = read(
        v2(
            {
                "a/cpu.max": "200000 100000",
                "a/b/cpu.max": "max 100000",
                "a/memory.max": "max",
                "a/b/memory.max": str(8 << 30),
                "a/pids.max": "100",
                "a/b/pids.max": "4096",
            }
        )
    ).values
    assert values["cgroup.mode"] == "unified"
    assert (values["cgroup.cpu_limited"], values["cgroup.cpu_quota_cpus"]) == (True, 2.0)
    assert (values["cgroup.memory_limited"], values["cgroup.memory_limit_bytes"]) == (True, 8 << 30)
    assert values["cgroup.tasks_limit_count"] == 100


def test_unlimited_is_no_number() -> None:
    found = read(v2({"a/b/cpu.max": "max 100000", "a/b/memory.max": "max", "a/b/memory.high": "max", "a/b/io.max": ""}))
    for name in ("cpu_limited", "memory_limited", "memory_high_limited", "io_limited"):
        assert found.values[f"cgroup.{name}"] is False
    for name in ("cpu_quota_cpus", "memory_limit_bytes", "memory_high_bytes"):
        assert isinstance(found.reading(f"cgroup.{name}"), Unset)


def test_the_highest_group_has_no_files_and_no_limits() -> None:
    found = read(v2({"cgroup.procs": "1"}, path="/"))
    assert found.values["cgroup.cpu_limited"] is False
    assert found.values["cgroup.memory_limited"] is False
    assert found.unavailable["cgroup.memory_used_bytes"].why is Why.ABSENT


def test_a_hierarchy_that_cannot_be_looked_into_is_not_without_limits() -> None:
    host = v2({})
    del host.files["/sys/fs/cgroup/a/b/cgroup.procs"]
    found = read(host)
    for name in ("cpu_limited", "cpu_quota_cpus", "memory_limited", "io_limited", "tasks_limited"):
        assert isinstance(found.reading(f"cgroup.{name}"), Unavailable)


def test_a_limit_that_may_not_be_read_hides_the_tightest() -> None:
    host = v2({"a/cpu.max": "100000 100000", "a/b/cpu.max": "400000 100000"})
    host.denied = ("/sys/fs/cgroup/a/cpu.max",)
    assert read(host).unavailable["cgroup.cpu_quota_cpus"].why is Why.DENIED


def test_running_into_limits_is_counted() -> None:
    values = read(
        v2(
            {
                "a/cpu.stat": "usage_usec 9\nnr_periods 100\nnr_throttled 42\nthrottled_usec 1234567",
                "a/b/cpu.stat": "usage_usec 9\nuser_usec 3",
                "a/b/memory.events": "low 0\nhigh 5\nmax 7\noom 1\noom_kill 2",
                "a/b/memory.current": "1048576",
            }
        )
    ).values
    assert values["cgroup.cpu_throttled_count"] == 42
    assert values["cgroup.cpu_throttled_microseconds"] == 1234567
    assert values["cgroup.memory_high_hits_count"] == 5
    assert values["cgroup.memory_limit_hits_count"] == 7
    assert values["cgroup.out_of_memory_kills_count"] == 2
    assert values["cgroup.memory_used_bytes"] == 1 << 20


def test_cpus_of_the_nearest_group_that_has_a_set() -> None:
    values = read(
        v2({"a/cpuset.cpus.effective": "0-15,32", "a/cpuset.mems.effective": "0", "a/b/cpu.weight": "50"})
    ).values
    assert values["cgroup.cpus"] == "0-15,32"
    assert values["cgroup.memory_nodes"] == "0"
    assert values["cgroup.cpu_weight"] == 50


def test_a_limit_on_a_device() -> None:
    assert read(v2({"a/io.max": "259:0 rbps=1048576 wbps=max"})).values["cgroup.io_limited"] is True


def test_a_container_sees_its_own_group_as_the_highest() -> None:
    mount = V2_MOUNT.replace(" / /sys", " /docker/123 /sys")
    inside = v2({"cpu.max": "150000 100000"}, path="/docker/123", mount=mount)
    values = read(inside).values
    assert values["cgroup.cpu_quota_cpus"] == 1.5


def test_a_group_outside_of_the_namespace_is_looked_for_at_the_mount() -> None:
    values = read(v2({"cpu.max": "300000 100000", "cgroup.procs": "1"}, path="/../other")).values
    assert values["cgroup.cpu_quota_cpus"] == 3.0


# -- version 1 ------------------------------------------------------------------------------------------------


def test_version_1_in_a_container() -> None:
    cpu, memory = "cpu,cpuacct", "memory"
    found = read(
        v1(
            {
                f"{cpu}/cpu.cfs_quota_us": "250000",
                f"{cpu}/cpu.cfs_period_us": "100000",
                f"{cpu}/cpu.shares": "2048",
                f"{cpu}/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 5000000",
                f"{memory}/memory.limit_in_bytes": str(4 << 30),
                f"{memory}/memory.usage_in_bytes": "4096",
                f"{memory}/memory.failcnt": "3",
                f"{memory}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
                "cpuset/cpuset.effective_cpus": "0-3",
                "pids/pids.max": "max",
            },
            root="/docker/123",
            path="/docker/123",
        )
    )
    values = found.values
    assert values["cgroup.mode"] == "legacy"
    assert (values["cgroup.cpu_limited"], values["cgroup.cpu_quota_cpus"]) == (True, 2.5)
    assert values["cgroup.cpu_shares"] == 2048
    assert values["cgroup.cpu_throttled_count"] == 4
    assert values["cgroup.cpu_throttled_microseconds"] == 5000
    assert values["cgroup.memory_limit_bytes"] == 4 << 30
    assert values["cgroup.memory_limit_hits_count"] == 3
    assert values["cgroup.out_of_memory_kills_count"] == 1
    assert values["cgroup.cpus"] == "0-3"
    assert values["cgroup.tasks_limited"] is False
    assert found.unavailable["cgroup.cpu_weight"].why is Why.NOT_SUPPORTED
    assert found.unavailable["cgroup.memory_high_limited"].why is Why.NOT_SUPPORTED


def test_version_1_says_unlimited_by_numbers() -> None:
    found = read(
        v1(
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": UNLIMITED_V1,
            }
        )
    )
    assert found.values["cgroup.cpu_limited"] is False
    assert found.values["cgroup.memory_limited"] is False
    assert isinstance(found.reading("cgroup.memory_limit_bytes"), Unset)


def test_both_versions_at_once() -> None:
    host = v1({"memory/memory.limit_in_bytes": str(2 << 30)})
    host.files["/proc/self/mountinfo"] += V2_MOUNT.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
    host.files["/proc/self/cgroup"] += "0::/user.slice\n"
    values = read(host).values
    assert values["cgroup.mode"] == "hybrid"
    assert values["cgroup.path"] == "/user.slice"
    assert values["cgroup.memory_limit_bytes"] == 2 << 30


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("0::/x\n", {"": "/x"}),
        ("4:cpu,cpuacct:/y\n1:name=systemd:/z\n", {"cpu": "/y", "cpuacct": "/y", "name=systemd": "/z"}),
        ("0::/with:colon\n", {"": "/with:colon"}),
        ("garbage\n::\n", {}),
    ],
)
def test_groups_of_a_process(text: str, groups: dict[str, str]) -> None:
    assert parse_groups(text) == groups


def test_no_control_groups_are_mounted() -> None:
    host = FakeHost({"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"})
    found = read(host)
    assert found.unavailable["cgroup.mode"].why is Why.ABSENT
    assert found.unavailable["cgroup.cpu_limited"].why is Why.ABSENT


def test_garbage_costs_its_own_reading() -> None:
    found = section("cgroup", v2({"a/b/cpu.max": "lots", "a/b/memory.max": "1024"}))
    assert set(found.errors) == {"cgroup.cpu_limited", "cgroup.cpu_quota_cpus"}
    assert found.values["cgroup.memory_limit_bytes"] == 1024


def test_the_empty_machine() -> None:
    assert on_the_empty_machine("cgroup").values == {}


def test_this_machine() -> None:
    found = section("cgroup", LiveHost())
    assert found.errors == {}
