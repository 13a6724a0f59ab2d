from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import Any

from envsnap.host import LiveHost
from envsnap.reading import Unset, Why
from envsnap.snapshot import Section
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost

STATUS = """Name:\tpython3
Umask:\t0027
Groups:\t
CapEff:\t00000000a80425fb
NoNewPrivs:\t1
Seccomp:\t2
Speculation_Store_Bypass:\tthread force mitigated
THP_enabled:\t0
Mems_allowed_list:\t0-1
"""


def container() -> FakeHost:
    """A process in a container under Docker's default profile."""
    files = {"/proc/self/status": STATUS, "/proc/self/oom_score_adj": "-500\n"}
    limits = {"memlock": [65536, 65536], "nofile": [1024, 1048576], "core": [0, -1], "as": [-1, -1]}
    scheduler = {"policy": 3, "priority": 0, "nice": 5}
    replies = {("limits",): limits, ("affinity",): [0, 1, 2, 3, 112], ("scheduler",): scheduler}
    return FakeHost(files, replies=replies)


def read(host: FakeHost) -> Section:
    found = section("inherited", host)
    assert found.errors == {}
    return found


def test_cpus_and_scheduling() -> None:
    values = read(container()).values
    assert (values["inherited.cpus"], values["inherited.cpus_count"]) == ("0-3,112", 5)
    assert values["inherited.scheduling_policy"] == "batch"
    assert (values["inherited.nice"], values["inherited.realtime_priority"]) == (5, 0)
    assert values["inherited.memory_nodes"] == "0-1"
    assert values["inherited.oom_score_adjustment"] == -500


def test_a_policy_with_the_flag_for_forks() -> None:
    host = container()
    host.replies[("scheduler",)] = {"policy": 1 | 1 << 30, "priority": 10, "nice": 0}
    assert read(host).values["inherited.scheduling_policy"] == "fifo"


def test_privileges() -> None:
    values = read(container()).values
    assert values["inherited.umask"] == "0027"
    assert values["inherited.seccomp"] == "filter"
    assert values["inherited.no_new_privileges"] is True
    assert values["inherited.transparent_huge_pages"] is False
    assert values["inherited.store_bypass"] == "thread force mitigated"
    assert " ".join(values["inherited.capabilities"]) == (
        "audit_write chown dac_override fowner fsetid kill mknod net_bind_service net_raw setfcap setgid setpcap "
        "setuid sys_chroot"
    )


def test_an_unlimited_limit_is_a_flag_and_no_number() -> None:
    found = read(container())
    assert found.values["limits.as_soft_unlimited"] is True
    assert isinstance(found.reading("limits.as_soft_bytes"), Unset)
    assert found.values["limits.core_soft_bytes"] == 0
    assert found.values["limits.core_soft_unlimited"] is False
    assert found.values["limits.core_hard_unlimited"] is True
    assert found.values["limits.memlock_hard_bytes"] == 65536
    assert found.values["limits.nofile_soft_count"] == 1024


def test_a_limit_that_a_system_does_not_have_is_unavailable() -> None:
    assert read(container()).unavailable["limits.rtprio_soft_count"].why is Why.NOT_SUPPORTED
    assert read(container()).unavailable["limits.rtprio_soft_unlimited"].why is Why.NOT_SUPPORTED


def test_an_older_kernel_has_fewer_fields() -> None:
    host = container()
    host.files["/proc/self/status"] = "Name:\tpython3\nCapEff:\t0000000000000000\n"
    found = read(host)
    assert found.values["inherited.capabilities"] == []
    assert found.unavailable["inherited.seccomp"].why is Why.NOT_SUPPORTED


def test_an_unknown_capability_keeps_its_number() -> None:
    host = container()
    host.files["/proc/self/status"] = "CapEff:\t0000060000000000\n"
    assert read(host).values["inherited.capabilities"] == ["capability_41", "capability_42"]


def test_the_empty_machine() -> None:
    assert on_the_empty_machine("inherited").values == {}


IN_A_PROCESS = """
import json, os, resource
os.nice(3)
os.umask(0o077)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from envsnap.capture import capture
section = capture(only=["inherited"]).sections["inherited"]
print(json.dumps([section.values, section.errors]))
"""


def test_what_a_process_was_given_is_what_is_read() -> None:
    printed = subprocess.run([sys.executable, "-c", IN_A_PROCESS], capture_output=True, check=True, timeout=60).stdout
    values: dict[str, Any]
    values, errors = json.loads(printed)
    assert errors == {}
    assert values["inherited.cpus"] == str(min(os.sched_getaffinity(0)))
    assert values["inherited.nice"] == os.nice(0) + 3
    assert values["inherited.umask"] == "0077"
    assert (values["limits.nofile_soft_count"], values["limits.nofile_hard_count"]) == (200, 300)
    assert values["limits.core_hard_bytes"] == 0


def test_this_process() -> None:
    found = section("inherited", LiveHost())
    assert found.errors == {}
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    expected = {} if soft == resource.RLIM_INFINITY else {"limits.nofile_soft_count": soft}
    assert {p: v for p, v in found.values.items() if p == "limits.nofile_soft_count"} == expected
