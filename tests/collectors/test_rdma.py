from __future__ import annotations

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Unset, Why
from envsnap.snapshot import Section
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost

CLASS = "/sys/class/infiniband"
NONE = "0000:0000:0000:0000:0000:0000:0000:0000"
GUID = "b83f:d203:0012:3456"


def node() -> FakeHost:
    """A card on InfiniBand, one on RoCE, and one without a link."""
    files = {
        "/dev/infiniband/uverbs0": "",
        "/dev/infiniband/uverbs1": "",
        "/dev/infiniband/rdma_cm": "",
        "/sys/module/nvidia_peermem/version": "580.95\n",
        "/sys/kernel/mm/memory_peers/nv_mem/version": "2.1\n",
    }
    links = {}
    for place, (name, layer, state, physical, rate) in enumerate(
        (
            ("mlx5_0", "InfiniBand", "4: ACTIVE", "5: LinkUp", "400 Gb/sec (4X NDR)"),
            ("mlx5_1", "Ethernet", "4: ACTIVE", "5: LinkUp", "100 Gb/sec (4X EDR)"),
            ("mlx5_10", "Ethernet", "1: DOWN", "3: Disabled", "2.5 Gb/sec (1X SDR)"),
        )
    ):
        links[f"{CLASS}/{name}"] = f"../../devices/pci0000:15/0000:1{place}:00.0/infiniband/{name}"
        real = f"/sys/devices/pci0000:15/0000:1{place}:00.0/infiniband/{name}"
        port = f"{real}/ports/1"
        files |= {
            f"{real}/fw_ver": "28.39.3004\n",
            f"{real}/hca_type": "MT4129\n",
            f"{real}/board_id": "MT_0000000838\n",
            f"{real}/node_type": "1: CA\n",
            f"{real}/node_guid": f"{GUID}\n",
            f"{real}/device/numa_node": f"{place - 1}\n",
            f"{real}/device/net/ibs{place}/mtu": "4092\n",
            f"{port}/state": f"{state}\n",
            f"{port}/phys_state": f"{physical}\n",
            f"{port}/rate": f"{rate}\n",
            f"{port}/link_layer": f"{layer}\n",
            f"{port}/counters/symbol_error": "0\n",
            f"{port}/counters/link_downed": "2\n",
            f"{port}/counters/port_rcv_data": "123456\n",
            f"{port}/hw_counters/out_of_sequence": "17\n",
            f"{port}/pkeys/0": "0xffff\n",
            f"{port}/pkeys/1": "0x0000\n",
            f"{port}/pkeys/2": "0x8001\n",
        }
        gids = [f"fe80:0000:0000:0000:{GUID}"]
        if layer == "Ethernet":
            gids += [gids[0], "0000:0000:0000:0000:0000:ffff:0a00:0007", "0000:0000:0000:0000:0000:ffff:0a00:0007"]
            gids += ["2001:0db8:0000:0000:0000:0000:0000:0007"]
        for index, gid in enumerate([*gids, NONE, NONE]):
            files[f"{port}/gids/{index}"] = f"{gid}\n"
            if gid != NONE:
                files[f"{port}/gid_attrs/types/{index}"] = "RoCE v2\n" if index % 2 else "IB/RoCE v1\n"
                files[f"{port}/gid_attrs/ndevs/{index}"] = f"eth{place}\n"
    return FakeHost(files, links)


def read(host: FakeHost) -> Section:
    found = section("rdma", host)
    assert found.errors == {}
    return found


def test_a_device() -> None:
    found = read(node())
    values = found.values
    assert values["rdma.devices_count"] == 3
    assert values["rdma[mlx5_0].firmware"] == "28.39.3004"
    assert values["rdma[mlx5_0].model"] == "MT4129"
    assert values["rdma[mlx5_0].board"] == "MT_0000000838"
    assert values["rdma[mlx5_0].node_type"] == "CA"
    assert values["rdma[mlx5_1].pci_address"] == "0000:11:00.0"
    assert values["rdma[mlx5_1].interfaces"] == ["ibs1"]
    assert values["rdma[mlx5_1].numa_node"] == 0


def test_a_device_of_no_numa_node_is_not_on_node_minus_one() -> None:
    assert read(node()).unavailable["rdma[mlx5_0].numa_node"].why is Why.NOT_SUPPORTED


def test_a_port() -> None:
    port = {p.split("].")[-1]: v for p, v in read(node()).values.items() if p.startswith("rdma[mlx5_0].port[1].")}
    assert port["state"] == "ACTIVE"
    assert port["physical_state"] == "LinkUp"
    assert (port["rate_gbps"], port["width_lanes"], port["signalling"]) == (400.0, 4, "NDR")
    assert port["link_layer"] == "InfiniBand"
    assert port["gids_count"] == 1
    assert port["partitions"] == ["0xffff", "0x8001"]


def test_a_port_without_a_link() -> None:
    values = read(node()).values
    assert values["rdma[mlx5_10].port[1].state"] == "DOWN"
    assert values["rdma[mlx5_10].port[1].rate_gbps"] == 2.5


@pytest.mark.parametrize(
    ("rate", "gbps", "lanes"),
    [("56 Gb/sec (4X FDR)", 56.0, 4), ("40 Gb/sec (4X QDR)", 40.0, 4), ("200 Gb/sec", 200.0, None)],
)
def test_rates(rate: str, gbps: float, lanes: int | None) -> None:
    host = node()
    host.files["/sys/devices/pci0000:15/0000:10:00.0/infiniband/mlx5_0/ports/1/rate"] = rate
    values = read(host).values
    assert values["rdma[mlx5_0].port[1].rate_gbps"] == gbps
    assert values.get("rdma[mlx5_0].port[1].width_lanes") == lanes


def test_the_gid_that_roce_over_ipv4_needs_can_be_told() -> None:
    found = read(node())
    entries = {
        index: (
            found.values[f"rdma[mlx5_1].port[1].gid[{index}].type"],
            found.values[f"rdma[mlx5_1].port[1].gid[{index}].family"],
        )
        for index in range(5)
    }
    assert entries == {
        0: ("IB/RoCE v1", "link_local"),
        1: ("RoCE v2", "link_local"),
        2: ("IB/RoCE v1", "ipv4"),
        3: ("RoCE v2", "ipv4"),
        4: ("IB/RoCE v1", "ipv6"),
    }
    assert found.values["rdma[mlx5_1].port[1].gids_count"] == 5
    assert isinstance(found.reading("rdma[mlx5_1].port[1].gid[5].type"), Unset)


def test_counters_that_a_device_has() -> None:
    found = read(node())
    counters = {p: v for p, v in found.values.items() if p.startswith("rdma[mlx5_0].port[1].counter")}
    assert counters == {
        "rdma[mlx5_0].port[1].counter[symbol_error]": 0,
        "rdma[mlx5_0].port[1].counter[link_downed]": 2,
        "rdma[mlx5_0].port[1].counter[out_of_sequence]": 17,
    }


def test_registration_of_gpu_memory() -> None:
    host = node()
    values = read(host).values
    assert values["rdma.peer_memory_loaded"] is True
    assert values["rdma.peer_memory[nv_mem].version"] == "2.1"
    del host.files["/sys/module/nvidia_peermem/version"]
    host.files["/sys/module/kernel/parameters/panic"] = "0\n"
    assert read(host).values["rdma.peer_memory_loaded"] is False


def test_modules_that_cannot_be_listed_are_not_modules_that_are_not_loaded() -> None:
    host = node()
    host.denied = ("/sys/module",)
    assert read(host).unavailable["rdma.peer_memory_loaded"].why is Why.DENIED


def test_a_container_without_device_files_cannot_use_what_it_sees() -> None:
    host = node()
    host.files = {path: text for path, text in host.files.items() if not path.startswith("/dev/")}
    found = read(host)
    assert found.values["rdma.devices_count"] == 3
    assert found.unavailable["rdma.verbs_files_count"].why is Why.ABSENT


def test_no_rdma_at_all_takes_one_round_trip() -> None:
    host = FakeHost({"/sys/module/kernel/parameters/panic": "0\n"})
    found = read(host)
    assert found.unavailable["rdma.devices_count"].why is Why.ABSENT
    assert isinstance(found.reading("rdma[mlx5_0].firmware"), Unavailable)
    assert host.rounds == 1


def test_the_empty_machine() -> None:
    assert on_the_empty_machine("rdma").values == {}


def test_this_machine() -> None:
    assert section("rdma", LiveHost()).errors == {}
