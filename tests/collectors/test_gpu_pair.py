"""Pairs of GPUs."""

from __future__ import annotations

from typing import Any

from envsnap.capture import capture
from envsnap.reading import Why
from envsnap.snapshot import Section
from tests.fakes import FakeHost, Reply, missing
from tests.nvml_fixture import replies


def section(**getters: Reply) -> Section:
    return capture(host=FakeHost(replies=replies(**getters)), only=["gpu_pair"]).sections["gpu_pair"]


def test_a_recorded_machine() -> None:
    found = section()
    assert (found.status, found.errors, found.unavailable) == ("ok", {}, {})
    assert found.values == {
        "gpu_pair[0/1].topology": "hostbridge",
        "gpu_pair[0/1].p2p_read": "ok",
        "gpu_pair[0/1].p2p_write": "ok",
        "gpu_pair[0/1].p2p_nvlink": "ok",
        "gpu_pair[0/1].p2p_atomics": "ok",
        "gpu_pair[0/1].p2p_pci": "not_supported",
    }


def test_every_pair_once_with_its_own_answer() -> None:
    def status(function: str, a: str, b: str, index: int) -> Any:
        return {("gpu:0", "gpu:2"): 1, ("gpu:1", "gpu:2"): 4}.get((a, b), 0)

    found = section(nvmlDeviceGetCount=3, nvmlDeviceGetP2PStatus=status, nvmlDeviceGetTopologyCommonAncestor=50)
    read = {path: value for path, value in found.values.items() if path.endswith("p2p_read")}
    assert read == {
        "gpu_pair[0/1].p2p_read": "ok",
        "gpu_pair[0/2].p2p_read": "chipset_not_supported",
        "gpu_pair[1/2].p2p_read": "disabled_by_regkey",
    }
    assert found.values["gpu_pair[1/2].topology"] == "system"


def test_one_gpu_has_no_pairs() -> None:
    found = section(nvmlDeviceGetCount=1)
    assert (found.status, found.values, found.unavailable) == ("ok", {}, {})


def test_a_lost_gpu_costs_its_pairs_only() -> None:
    def status(function: str, a: str, b: str, *index: int) -> Any:
        return missing("gone", "NVML: GPU is lost") if "gpu:2" in (a, b) else 0

    found = section(nvmlDeviceGetCount=3, nvmlDeviceGetP2PStatus=status, nvmlDeviceGetTopologyCommonAncestor=status)
    assert found.unavailable["gpu_pair[0/2].p2p_write"].why is Why.GONE
    assert found.values["gpu_pair[0/1].p2p_write"] == "ok"
    assert not found.errors


def test_the_empty_machine() -> None:
    found = capture(host=FakeHost(), only=["gpu_pair"]).sections["gpu_pair"]
    assert (found.status, found.errors) == ("unavailable", {})
