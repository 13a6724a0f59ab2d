from __future__ import annotations

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Unset, Why
from envsnap.snapshot import Section
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost, missing

NET = "/sys/class/net"
PCI = "../../devices/pci0000:15/0000:15:01.0"

DEV = """Inter-|   Receive                          |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 1 2 0 0 0 0 0 0 1 2 0 0 0 0 0 0
  eth0: 100 10 1 2 0 0 0 0 200 20 3 4 0 0 0 0
 bond0:100 10 5 6 0 0 0 0 200 20 7 8 0 0 0 0
"""
ROUTE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t200\t00000000\t0\t0\t0
bond0\t00000000\t010300C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
bond0\t000300C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
ROUTE6 = (
    f"{'0' * 32} 00 {'0' * 32} 00 fd{'0' * 29}1 00000400 00000002 00000000 00000003     eth0\n"
    f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 00000001 00000000 00200200       lo\n"
)
INET6 = "fe8000000000000000fc00fffe000001 02 40 20 80     eth0\nfd000000000000000000000000000002 02 40 00 80     eth0\n"


def server() -> FakeHost:
    """Two cards, of which one is down, a bond, and what Docker and Kubernetes add."""
    files = {
        "/proc/net/dev": DEV,
        "/proc/net/route": ROUTE,
        "/proc/net/ipv6_route": ROUTE6,
        "/proc/net/if_inet6": INET6,
        "/proc/sys/net/core/rmem_max": "212992\n",
        "/proc/sys/net/core/somaxconn": "4096\n",
        "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t33554432\n",
        "/proc/sys/net/ipv4/tcp_congestion_control": "bbr\n",
        f"{NET}/bonding_masters": "bond0\n",
    }
    links = {}
    for name, place, state, mtu, speed in (
        ("eth0", f"{PCI}/0000:16:00.0/net/eth0", "up", 9000, "100000"),
        ("eth1", f"{PCI}/0000:17:00.0/net/eth1", "down", 1500, "-1"),
        ("bond0", "../../devices/virtual/net/bond0", "up", 9000, "200000"),
        ("lo", "../../devices/virtual/net/lo", "unknown", 65536, ""),
        ("docker0", "../../devices/virtual/net/docker0", "down", 1500, "-1"),
        ("veth1a2b", "../../devices/virtual/net/veth1a2b", "up", 1500, "10000"),
        ("cali9", "../../devices/virtual/net/cali9", "up", 1500, "10000"),
    ):
        links[f"{NET}/{name}"] = place
        real = f"/sys/{place.removeprefix('../../')}"
        files |= {
            f"{real}/operstate": f"{state}\n",
            f"{real}/mtu": f"{mtu}\n",
            f"{real}/speed": f"{speed}\n",
            f"{real}/duplex": "full\n" if state == "up" else "unknown\n",
            f"{real}/carrier_changes": "2\n",
            f"{real}/address": "b8:59:9f:00:00:01\n",
            f"{real}/queues/rx-0/rps_cpus": "0\n",
            f"{real}/queues/rx-1/rps_cpus": "0\n",
            f"{real}/queues/tx-0/xps_cpus": "0\n",
        }
        if place.startswith(PCI):
            files[f"{real}/device/numa_node"] = "1\n" if name == "eth0" else "-1\n"
            links[f"{real}/device/driver"] = "../../../../bus/pci/drivers/mlx5_core"
    bond = "/sys/devices/virtual/net/bond0/bonding"
    files |= {
        f"{bond}/mode": "802.3ad 4\n",
        f"{bond}/slaves": "eth1 eth0\n",
        f"{bond}/xmit_hash_policy": "layer3+4 1\n",
    }
    addresses = {("ipv4_address", "eth0"): "192.0.2.7", ("ipv4_address", "eth1"): missing("absent", "none")}
    return FakeHost(files, links, addresses)


def read(host: FakeHost) -> Section:
    found = section("network", host)
    assert found.errors == {}
    return found


def test_a_card() -> None:
    found = read(server())
    eth0 = {p.removeprefix("network[eth0]."): v for p, v in found.values.items() if p.startswith("network[eth0]")}
    assert eth0 == {
        "state": "up",
        "speed_mbps": 100000,
        "duplex": "full",
        "mtu_bytes": 9000,
        "numa_node": 1,
        "carrier_changes_count": 2,
        "mac_address": "b8:59:9f:00:00:01",
        "receive_errors_count": 1,
        "receive_dropped_count": 2,
        "send_errors_count": 3,
        "send_dropped_count": 4,
        "pci_address": "0000:16:00.0",
        "driver": "mlx5_core",
        "receive_queues_count": 2,
        "send_queues_count": 1,
        "ipv4_address": "192.0.2.7",
        "ipv6_addresses": ["fd00::2", "fe80::fc:ff:fe00:1"],
    }


def test_a_card_that_is_down_has_no_speed_of_minus_one() -> None:
    found = read(server())
    for name in ("speed_mbps", "duplex", "numa_node"):
        assert found.unavailable[f"network[eth1].{name}"].why is Why.NOT_SUPPORTED
    assert found.values["network[eth1].state"] == "down"
    assert found.unavailable["network[eth1].ipv4_address"].why is Why.ABSENT
    assert found.values["network[eth1].ipv6_addresses"] == []


def test_a_bond() -> None:
    found = read(server())
    assert found.values["network[bond0].bond_mode"] == "802.3ad"
    assert found.values["network[bond0].bond_members"] == ["eth0", "eth1"]
    assert found.values["network[bond0].bond_hash_policy"] == "layer3+4"
    assert found.values["network[bond0].receive_errors_count"] == 5
    assert found.unavailable["network[bond0].pci_address"].why is Why.ABSENT
    assert isinstance(found.reading("network[eth0].bond_mode"), Unset)


def test_virtual_interfaces_are_counted_and_not_named() -> None:
    found = read(server())
    assert found.values["network.other_interfaces_count"] == 3
    named = " ".join([*found.values, *found.unavailable])
    assert not [name for name in ("veth", "docker0", "cali", "[lo]") if name in named]


def test_the_default_route_is_the_one_of_lowest_metric() -> None:
    values = read(server()).values
    assert values["network.default_route"] == "bond0"
    assert values["network.default_route_v6"] == "eth0"


def test_no_default_route() -> None:
    host = server()
    host.files["/proc/net/route"] = ROUTE.splitlines()[0]
    host.files["/proc/net/ipv6_route"] = ROUTE6.splitlines()[1]
    found = read(host)
    assert found.unavailable["network.default_route"].why is Why.ABSENT
    assert found.unavailable["network.default_route_v6"].why is Why.ABSENT


def test_in_a_container_the_default_routes_interface_is_recorded_though_virtual() -> None:
    place = "/sys/devices/virtual/net/eth0"
    files = {"/proc/net/route": ROUTE.replace("bond0", "eth0"), f"{place}/mtu": "1450\n", f"{place}/operstate": "up\n"}
    values = read(FakeHost(files, {f"{NET}/eth0": "../../devices/virtual/net/eth0"})).values
    assert values["network[eth0].mtu_bytes"] == 1450
    assert values["network.other_interfaces_count"] == 0


def test_settings() -> None:
    found = read(server())
    assert found.values["network.receive_buffer_max_bytes"] == 212992
    assert found.values["network.tcp_receive_buffer_bytes"] == [4096, 131072, 33554432]
    assert found.values["network.listen_backlog_count"] == 4096
    assert found.values["network.tcp_congestion_control"] == "bbr"
    assert found.unavailable["network.send_buffer_max_bytes"].why is Why.ABSENT


@pytest.mark.parametrize("count", [2, 40])
def test_round_trips_do_not_grow_with_interfaces(count: int) -> None:
    host = server()
    for number in range(count):
        host.links[f"{NET}/ens{number}"] = f"{PCI}/0000:20:00.{number % 8}/net/ens{number}"
        host.files[f"/sys/devices/pci0000:15/0000:15:01.0/0000:20:00.{number % 8}/net/ens{number}/device/numa_node"] = (
            "0"
        )
    found = read(host)
    assert f"network[ens{count - 1}].numa_node" in found.values
    assert host.rounds <= 4


def test_the_empty_machine() -> None:
    empty = on_the_empty_machine("network")
    assert empty.values == {}
    assert isinstance(empty.reading("network[eth0].mtu_bytes"), Unavailable)


def test_this_machine() -> None:
    assert section("network", LiveHost()).errors == {}
