"""GPUs and RDMA adapters on the PCI bus, and the bridges above them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.collectors import pci
from envsnap.host import LiveHost
from envsnap.keys import Kind
from envsnap.reading import Missing, Why
from envsnap.snapshot import Section
from tests.fakes import FakeHost, Reply, missing

DEVICES = "/sys/bus/pci/devices"
ROOT, UPSTREAM, PORT, GPU = "0000:14:01.0", "0000:15:00.0", "0000:16:00.0", "0000:17:00.0"
NIC_PORT, NIC = "0000:16:01.0", "0000:18:00.0"
SECOND_ROOT, SECOND_GPU = "0000:94:01.0", "0000:97:00.0"
PLACES = {
    ROOT: f"pci0000:14/{ROOT}",
    UPSTREAM: f"pci0000:14/{ROOT}/{UPSTREAM}",
    PORT: f"pci0000:14/{ROOT}/{UPSTREAM}/{PORT}",
    GPU: f"pci0000:14/{ROOT}/{UPSTREAM}/{PORT}/{GPU}",
    NIC_PORT: f"pci0000:14/{ROOT}/{UPSTREAM}/{NIC_PORT}",
    NIC: f"pci0000:14/{ROOT}/{UPSTREAM}/{NIC_PORT}/{NIC}",
    SECOND_ROOT: f"pci0000:94/{SECOND_ROOT}",
    SECOND_GPU: f"pci0000:94/{SECOND_ROOT}/{SECOND_GPU}",
}
UEVENTS = {
    GPU: "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2335\n",
    SECOND_GPU: "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2335\n",
    NIC: "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1021\n",
    ROOT: "DRIVER=pcieport\nPCI_CLASS=60400\nPCI_ID=8086:352A\n",
}
ATTRIBUTES = {
    "current_link_speed": "32.0 GT/s PCIe\n", "max_link_speed": "32.0 GT/s PCIe\n", "current_link_width": "16\n",
    "max_link_width": "16\n", "numa_node": "0\n", "iommu_group/type": "identity\n", "d3cold_allowed": "1\n",
    "power/control": "on\n", "aer_dev_correctable": "RxErr 0\nBadTLP 2\nTOTAL_ERR_COR 2\n",
    "aer_dev_nonfatal": "TLP 0\nTOTAL_ERR_NONFATAL 0\n", "aer_dev_fatal": "TLP 0\nTOTAL_ERR_FATAL 0\n",
}  # fmt: skip
RESOURCE = (
    "0x00000c0000000000 0x00000c0000ffffff 0x000000000014220c\n"
    "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
    "0x00000c4000000000 0x00000c7fffffffff 0x000000000014220c\n"
    "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
    "0x00000c8000000000 0x00000c8001ffffff 0x000000000014220c\n"
    "0x000000000000d000 0x000000000000d07f 0x0000000000040101\n"
)


def express(device_control: int = 0x5930, link_control: int = 0x40, link_control_2: int = 0x5) -> bytes:
    """The PCI Express capability, as long as version 2 of it is."""
    words = bytearray(0x3C)
    words[0:2] = bytes([0x10, 0])
    words[0x08:0x0A] = device_control.to_bytes(2, "little")
    words[0x10:0x12] = link_control.to_bytes(2, "little")
    words[0x30:0x32] = link_control_2.to_bytes(2, "little")
    return bytes(words)


CONFIG = {"express": express().hex(), "acs": "0d00010001000d00"}


def machine(
    attributes: Mapping[str, Mapping[str, str]] | None = None,
    places: Mapping[str, str] = PLACES,
    uevents: Mapping[str, str] = UEVENTS,
    config: Reply = CONFIG,
    rdma: Mapping[str, str] | None = None,
    of_driver: Iterable[str] = (GPU, SECOND_GPU),
) -> FakeHost:
    files = {f"{DEVICES}/{a}/{name}": text for a in places for name, text in ATTRIBUTES.items()}
    files.update({f"{DEVICES}/{a}/uevent": uevents.get(a, "PCI_CLASS=60400\nPCI_ID=11F8:4000\n") for a in places})
    files[f"{DEVICES}/{GPU}/resource"] = RESOURCE
    files[f"{DEVICES}/{GPU}/resource2_resize"] = "000000000007ffff\n"
    files.update({f"/proc/driver/nvidia/gpus/{a}/information": "" for a in of_driver})
    for address, changed in (attributes or {}).items():
        files.update({f"{DEVICES}/{address}/{name}": text for name, text in changed.items()})
    rdma = {"mlx5_0": f"../../devices/{PLACES[NIC]}/infiniband/mlx5_0"} if rdma is None else rdma
    return FakeHost(
        files=files,
        replies={
            ("links", DEVICES): {a: f"../../../devices/{place}" for a, place in places.items()},
            ("links", "/sys/class/infiniband"): dict(rdma),
            ("link", f"{DEVICES}/{GPU}/iommu_group"): "../../../../kernel/iommu_groups/31",
            ("pci_config",): config,
        },
    )


def section(host: FakeHost | None = None, **changed: Any) -> Section:
    return capture(host=host or machine(**changed), only=["pci"]).sections["pci"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("pci[gpu0].address", GPU),
        ("pci[gpu0].id", "10de:2335"),
        ("pci[gpu0].driver", "nvidia"),
        ("pci[gpu0].link_speed_gts", 32.0),
        ("pci[gpu0].link_width_lanes", 16),
        ("pci[gpu0].numa_node", 0),
        ("pci[gpu0].iommu_group", 31),
        ("pci[gpu0].iommu_type", "identity"),
        ("pci[gpu0].d3cold_allowed", True),
        ("pci[gpu0].power_control", "on"),
        ("pci[gpu0].aer_correctable_count", 2),
        ("pci[gpu0].aer_fatal_count", 0),
        ("pci[gpu0].bar[0].size_bytes", 16 << 20),
        ("pci[gpu0].bar[2].size_bytes", 256 << 30),
        ("pci[gpu0].bar[2].largest_size_bytes", 256 << 30),
        ("pci[gpu0].max_payload_bytes", 256),
        ("pci[gpu0].max_read_request_bytes", 4096),
        ("pci[gpu0].relaxed_ordering", True),
        ("pci[gpu0].extended_tags", True),
        ("pci[gpu0].aspm_enabled", []),
        ("pci[gpu0].target_link_speed_gts", 32.0),
        ("pci[gpu0].autonomous_speed_disabled", False),
        ("pci[gpu0/up1].address", PORT),
        ("pci[gpu0/up1].acs_enabled", ["completion_redirect", "request_redirect", "source_validation"]),
        ("pci[gpu0/up2].address", UPSTREAM),
        ("pci[gpu0/up3].address", ROOT),
        ("pci[gpu0/up3].driver", "pcieport"),
        ("pci[gpu1].address", SECOND_GPU),
        ("pci[gpu1/up1].address", SECOND_ROOT),
        ("pci[nic0].address", NIC),
        ("pci[nic0].rdma_devices", ["mlx5_0"]),
        ("pci[nic0/up2].address", UPSTREAM),
    ],
)
def test_gpus_and_adapters_up_to_their_root(path: str, value: Any) -> None:
    found = section()
    assert (found.status, found.errors) == ("ok", {})
    assert found.values[path] == value


def test_the_walk_ends_at_the_root() -> None:
    names = {path.split("]")[0] for path in section().values}
    assert "pci[gpu0/up4" not in names
    assert "pci[gpu1/up2" not in names


def test_windows_of_ports_and_bridges_are_not_sizes() -> None:
    bars = [path for path in section().values if ".bar[" in path]
    assert sorted(bars) == [
        "pci[gpu0].bar[0].size_bytes",
        "pci[gpu0].bar[2].largest_size_bytes",
        "pci[gpu0].bar[2].size_bytes",
        "pci[gpu0].bar[4].size_bytes",
    ]


def test_speed_is_compared_under_load_and_width_always() -> None:
    kinds = {key.name: key.kind for key in pci.KEYS}
    assert kinds["link_speed_gts"] is Kind.CONDITION
    assert kinds["link_width_lanes"] is Kind.IDENTITY
    assert kinds["aer_correctable_count"] is Kind.COUNTER


@pytest.mark.parametrize(
    ("text", "value"), [("2.5 GT/s PCIe", 2.5), ("8 GT/s", 8.0), ("16.0 GT/s PCIe", 16.0), ("64.0 GT/s PCIe", 64.0)]
)
def test_speeds_are_numbers(text: str, value: float) -> None:
    found = section(attributes={GPU: {"current_link_speed": text}})
    assert found.values["pci[gpu0].link_speed_gts"] == value


@pytest.mark.parametrize(
    ("name", "text", "reading"),
    [
        ("current_link_speed", "Unknown", "link_speed_gts"),
        ("current_link_speed", "Unknown speed", "link_speed_gts"),
        ("max_link_speed", "", "max_link_speed_gts"),
        ("current_link_width", "0", "link_width_lanes"),
        ("current_link_width", "63", "link_width_lanes"),
        ("max_link_width", "255", "max_link_width_lanes"),
        ("numa_node", "-1", "numa_node"),
        ("iommu_group/type", "", "iommu_type"),
        ("aer_dev_fatal", "", "aer_fatal_count"),
    ],
)
def test_words_for_nothing_are_no_numbers(name: str, text: str, reading: str) -> None:
    found = section(attributes={GPU: {name: text}})
    assert found.unavailable[f"pci[gpu0].{reading}"].why is Why.NOT_SUPPORTED


@pytest.mark.parametrize("name", [*ATTRIBUTES, "resource", "resource2_resize", "uevent"])
def test_garbage_costs_its_own_reading(name: str) -> None:
    found = section(attributes={GPU: {name: "\x00\udcff{]"}})
    assert found.status == "ok"
    assert SECOND_GPU in found.values.values()


def test_without_root_the_configuration_space_is_denied_not_empty() -> None:
    denied = missing("denied", "configuration space from byte 64 on is for root")
    found = section(config=denied)
    assert found.status == "ok"
    for name in ("acs_enabled", "max_payload_bytes", "target_link_speed_gts"):
        assert found.unavailable[f"pci[gpu0/up1].{name}"].why is Why.DENIED


def test_a_device_without_acs_does_not_have_it_all_off() -> None:
    found = section(config={"express": express().hex(), "acs": None})
    assert found.unavailable["pci[gpu0].acs_enabled"].why is Why.NOT_SUPPORTED
    assert found.values["pci[gpu0].relaxed_ordering"] is True


def test_acs_all_off_is_an_empty_list() -> None:
    found = section(config={"express": express().hex(), "acs": "0d0001001f000000"})
    assert found.values["pci[gpu0].acs_enabled"] == []


def test_a_link_told_to_stay_slow() -> None:
    config = {"express": express(link_control=0x42, link_control_2=0x22).hex(), "acs": None}
    found = section(config=config)
    assert found.values["pci[gpu0].target_link_speed_gts"] == 5.0
    assert found.values["pci[gpu0].autonomous_speed_disabled"] is True
    assert found.values["pci[gpu0].aspm_enabled"] == ["l1"]


def test_gpus_that_the_driver_does_not_show_here_come_last() -> None:
    """In a container sysfs shows every GPU and NVML only those that it was given; both have to count alike."""
    found = section(of_driver=[SECOND_GPU])
    assert found.values["pci[gpu0].address"] == SECOND_GPU
    assert found.values["pci[gpu1].address"] == GPU


def test_other_accelerators_and_no_other_cards() -> None:
    uevents = {
        GPU: "DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_ID=1002:74A1\n",
        SECOND_GPU: "PCI_CLASS=30000\nPCI_ID=1A03:2000\n",  # the management controller's own graphics
        NIC: "DRIVER=igb\nPCI_CLASS=20000\nPCI_ID=8086:1521\n",
    }
    found = section(uevents=uevents, rdma={})
    names = {path.split("]")[0].split("/")[0] for path in found.values}
    assert names == {"pci[gpu0"}
    assert found.values["pci[gpu0].driver"] == "amdgpu"


def test_an_infiniband_adapter_without_a_driver_is_there_with_no_driver() -> None:
    found = section(uevents={**UEVENTS, NIC: "PCI_CLASS=20700\nPCI_ID=15B3:1021\n"}, rdma={})
    assert found.values["pci[nic0].id"] == "15b3:1021"
    assert "pci[nic0].driver" not in {*found.values, *found.unavailable}


def test_a_switch_that_several_devices_share_is_read_once() -> None:
    host = machine()
    section(host)
    asked = [request for request in host.asked if request[:2] == ["read", f"{DEVICES}/{UPSTREAM}/current_link_speed"]]
    assert len(asked) == 1


def test_more_devices_than_are_looked_at_are_said() -> None:
    places = {f"0000:{bus:02x}:00.0": f"pci0000:00/0000:{bus:02x}:00.0" for bus in range(70)}
    uevents = dict.fromkeys(places, "PCI_CLASS=30200\nPCI_ID=10DE:2335\n")
    found = section(places=places, uevents=uevents, rdma={}, of_driver=[])
    assert (found.status, found.reason) == ("partial", "only the first 64 of 70 GPUs and RDMA adapters were looked at")


def test_a_machine_without_any_of_them() -> None:
    found = section(uevents={}, rdma={})
    assert (found.status, found.reason) == ("unavailable", "absent: no GPU and no RDMA adapter on the PCI bus")


def test_the_empty_machine() -> None:
    found = capture(host=FakeHost(), only=["pci"]).sections["pci"]
    assert (found.status, found.values, found.errors) == ("unavailable", {}, {})


# -- the configuration space itself, from files with its layout -------------------------------------------------------


def config_space(tmp_path: Path, space: bytes, status: str = "active") -> str:
    (tmp_path / "power").mkdir()
    (tmp_path / "power/runtime_status").write_text(status + "\n")
    (tmp_path / "config").write_bytes(space)
    return str(tmp_path)


def space(size: int = 4096, capabilities: Mapping[int, bytes] | None = None, first: int = 0x40) -> bytes:
    """A configuration space: vendor, a list of capabilities that begins at `first`."""
    words = bytearray(4096)
    words[0:2] = b"\xde\x10"
    words[0x06] = 0x10
    words[0x34] = first
    for offset, capability in (capabilities or {}).items():
        words[offset : offset + len(capability)] = capability
    return bytes(words[:size])


POWER_MANAGEMENT = bytes([0x01, 0x60, 3, 0])
EXPRESS = bytes([0x10, 0x00]) + express()[2:]
AER = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
ACS = (0x000D | 1 << 16).to_bytes(4, "little") + bytes([0x1F, 0, 0x1D, 0])
WHOLE = {0x40: POWER_MANAGEMENT, 0x60: EXPRESS, 0x100: AER, 0x148: ACS}


def test_both_capabilities_are_found_by_their_lists(tmp_path: Path) -> None:
    found = LiveHost().one("pci_config", config_space(tmp_path, space(capabilities=WHOLE)))
    assert found == {"express": EXPRESS.hex(), "acs": ACS.hex()}


def test_a_space_of_256_bytes_has_no_acs(tmp_path: Path) -> None:
    found = LiveHost().one("pci_config", config_space(tmp_path, space(256, WHOLE)))
    assert found == {"express": EXPRESS.hex(), "acs": None}


@pytest.mark.parametrize(
    ("content", "status", "why"),
    [
        (space(64, WHOLE), "active", Why.DENIED),
        (space(4096, WHOLE), "suspended", Why.OFF),
        (space(4096, {0x40: bytes([0x01, 0])}), "active", Why.NOT_SUPPORTED),
        (space(4096, {0x40: bytes([0x01, 0x40])}), "active", Why.NOT_SUPPORTED),  # a list that leads to itself
        (bytes(4096), "active", Why.NOT_SUPPORTED),
        (b"\xff" * 4096, "active", Why.NOT_SUPPORTED),  # what is read of a device that fell off the bus
        (b"", "active", Why.DENIED),
    ],
)
def test_what_cannot_be_had(content: bytes, status: str, why: Why, tmp_path: Path) -> None:
    with pytest.raises(Missing) as raised:
        LiveHost().one("pci_config", config_space(tmp_path, content, status))
    assert raised.value.why is why


def test_an_endless_list_of_extended_capabilities_ends(tmp_path: Path) -> None:
    loop = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    found = LiveHost().one("pci_config", config_space(tmp_path, space(capabilities={**WHOLE, 0x100: loop})))
    assert found["acs"] is None
