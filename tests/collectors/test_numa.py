from __future__ import annotations

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost

NODES = "/sys/devices/system/node"


def machine() -> FakeHost:
    """Two sockets, and a node that is memory alone, as a GPU's is on Grace."""
    files = {
        f"{NODES}/online": "0-2\n",
        f"{NODES}/has_memory": "0-2\n",
        "/proc/sys/kernel/numa_balancing": "1\n",
        "/sys/kernel/mm/numa/demotion_enabled": "false\n",
    }
    for node, cpus, total, free, distances in (
        (0, "0-55,112-167", 1056, 1000, "10 21 80"),
        (1, "56-111,168-223", 1057, 900, "21 10 80"),
        (2, "", 96, 95, "80 80 10"),
    ):
        files |= {
            f"{NODES}/node{node}/cpulist": f"{cpus}\n",
            f"{NODES}/node{node}/meminfo": f"Node {node} MemTotal:     {total} kB\nNode {node} MemFree:    {free} kB\n",
            f"{NODES}/node{node}/distance": f"{distances}\n",
            f"{NODES}/node{node}/numastat": f"numa_hit 9\nnuma_miss {node + 4}\nnuma_foreign 2\nlocal_node 1\n",
        }
    return FakeHost(files)


def test_nodes() -> None:
    read = section("numa", machine())
    values = read.values
    assert read.errors == {}
    assert values["numa.nodes"] == "0-2"
    assert values["numa[0].cpus"] == "0-55,112-167"
    assert values["numa[1].memory_bytes"] == 1057 * 1024
    assert values["numa[1].free_bytes"] == 900 * 1024
    assert values["numa[0].distances"] == [10, 21, 80]
    assert values["numa[1].missed_pages_count"] == 5
    assert values["numa[1].foreign_pages_count"] == 2


def test_a_node_of_memory_alone() -> None:
    values = section("numa", machine()).values
    assert values["numa[2].cpus"] == ""
    assert values["numa[2].memory_bytes"] == 96 * 1024


def test_balancing() -> None:
    values = section("numa", machine()).values
    assert values["numa.balancing_mode"] == 1
    assert values["numa.demotion"] is False


def test_one_round_trip() -> None:
    host = machine()
    section("numa", host)
    assert host.rounds == 1


def test_a_kernel_without_numa() -> None:
    read = section("numa", FakeHost({"/proc/sys/kernel/osrelease": "6.8.0\n"}))
    assert read.unavailable["numa.balancing_mode"].why is Why.ABSENT
    assert isinstance(read.reading("numa[0].cpus"), Unavailable)


def test_the_empty_machine() -> None:
    assert on_the_empty_machine("numa").values == {}


def test_this_machine() -> None:
    read = section("numa", LiveHost())
    assert read.errors == {}
    if "numa[0].distances" in read.values:
        assert read.values["numa[0].distances"][0] == 10
