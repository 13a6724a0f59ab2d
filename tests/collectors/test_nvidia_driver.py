"""The NVIDIA driver's kernel modules, daemons and libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.reading import Why
from envsnap.snapshot import Section
from tests.fakes import FakeHost

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22-I3-B17)  "
    "Tue Sep 23 09:55:41 UTC 2025\nGCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
)
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
    "GCC version:  Selected multilib: .;@m64\n"
)
INFORMATION = (
    "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nGPU UUID: \t GPU-00000006-0000-0000-0000-000000000006\n"
    "Video BIOS: \t 96.00.a5.00.1a\nBus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n"
    "Bus Location: \t 0000:00:06.0\nDevice Minor: \t 0\nGPU Firmware: \t 580.159.04\nGPU Excluded:\t No\n"
)
POWER = "Runtime D3 status:          Disabled by default\nVideo Memory:               Active\n"
PARAMS = (
    "ResmanDebugLevel: 4294967295\nNvLinkDisable: 0\nEnableGpuFirmware: 18\nDmaRemapPeerMmio: 1\n"
    'CoherentGPUMemoryMode: ""\nRegistryDwords: "ForceP2P=17;RMForceP2PType=1"\nTemporaryFilePath: "/var/tmp"\n'
)
LIB = "/usr/lib/x86_64-linux-gnu"
FILES = {
    "/proc/driver/nvidia/version": OPEN,
    "/proc/driver/nvidia/params": PARAMS,
    "/proc/driver/nvidia/gpus/0000:00:06.0/information": INFORMATION,
    "/proc/driver/nvidia/gpus/0000:00:06.0/power": POWER,
    "/proc/driver/nvidia/gpus/0000:00:07.0/information": INFORMATION.replace("Excluded:\t No", "Excluded:\t Yes"),
    "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm": "N\n",
    "/sys/module/nvidia_drm/parameters/modeset": "Y\n",
    "/sys/module/nvidia_peermem/parameters/peerdirect_support": "1\n",
    "/dev/nvidia0": "",
    "/dev/nvidiactl": "",
    "/dev/nvidia-uvm": "",
    f"{LIB}/libcuda.so.580.159.04": "ELF",
    "/lib/firmware/nvidia/580.159.04/gsp_ga10x.bin": "",
}
LINKS = {f"{LIB}/libcuda.so.1": "libcuda.so.580.159.04", "/proc/self/ns/pid": "pid:[4026531836]"}


def stat(pid: int, name: str, argv: str) -> list[str]:
    return [f"{pid} ({name}) S 1 " + " ".join(["0"] * 48), argv + "\0"]


PROCESSES = [
    stat(700, "nvidia-persiste", "/usr/bin/nvidia-persistenced\0--user"),
    stat(701, "nv-hostengine", "nv-hostengine"),
]


def section(
    files: Mapping[str, str] = FILES, links: Mapping[str, str] = LINKS, processes: Any = PROCESSES, denied: Any = ()
) -> Section:
    host = FakeHost(files=files, links=links, replies={("processes",): processes}, denied=denied)
    return capture(host=host, only=["nvidia_driver"]).sections["nvidia_driver"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("nvidia.module_version", "580.159.04"),
        ("nvidia.module_flavour", "open"),
        ("nvidia.module_compiler", "13.3.0"),
        ("nvidia.module[nvidia].parameter[ResmanDebugLevel]", 4294967295),
        ("nvidia.module[nvidia].parameter[NvLinkDisable]", 0),
        ("nvidia.module[nvidia].text_parameter[RegistryDwords]", "ForceP2P=17;RMForceP2PType=1"),
        ("nvidia.module[nvidia].text_parameter[CoherentGPUMemoryMode]", ""),
        ("nvidia.module[nvidia_uvm].parameter[uvm_disable_hmm]", 0),
        ("nvidia.module[nvidia_drm].parameter[modeset]", 1),
        ("nvidia.module[nvidia_peermem].parameter[peerdirect_support]", 1),
        ("nvidia.gpu[0].model", "NVIDIA H200"),
        ("nvidia.gpu[0].pci_address", "0000:00:06.0"),
        ("nvidia.gpu[0].excluded", False),
        ("nvidia.gpu[1].excluded", True),
        ("nvidia.gpu[0].dma_address_bits", 52),
        ("nvidia.gpu[0].runtime_d3", "disabled by default"),
        ("nvidia.daemon[nvidia-persistenced].running", True),
        ("nvidia.daemon[nv-hostengine].running", True),
        ("nvidia.daemon[nv-fabricmanager].running", False),
        ("nvidia.device_files", ["nvidia-uvm", "nvidiactl"]),
        ("nvidia.library_versions", ["580.159.04"]),
        ("nvidia.library_matches_module", True),
        ("nvidia.cuda_compat_versions", []),
        ("nvidia.firmware_versions", ["580.159.04"]),
    ],
)
def test_a_machine_with_the_driver(path: str, value: Any) -> None:
    found = section()
    assert (found.status, found.errors) == ("ok", {})
    assert found.values[path] == value


def test_the_proprietary_module() -> None:
    found = section({**FILES, "/proc/driver/nvidia/version": PROPRIETARY})
    assert found.values["nvidia.module_version"] == "535.129.03"
    assert found.values["nvidia.module_flavour"] == "proprietary"
    assert found.unavailable["nvidia.module_compiler"].why is Why.NOT_SUPPORTED


def test_libraries_upgraded_under_a_loaded_module() -> None:
    files = {path: text for path, text in FILES.items() if "libcuda" not in path}
    files[f"{LIB}/libcuda.so.580.178.04"] = "ELF"
    found = section(files, {**LINKS, f"{LIB}/libcuda.so.1": "libcuda.so.580.178.04"})
    assert found.values["nvidia.library_matches_module"] is False
    assert found.values["nvidia.library_versions"] == ["580.178.04"]


def test_forward_compatibility_packages_are_named() -> None:
    found = section({**FILES, "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06": "ELF"})
    assert found.values["nvidia.cuda_compat_versions"] == ["580.65.06"]
    assert found.values["nvidia.library_matches_module"] is True


def test_without_libcuda_nothing_matches_and_nothing_differs() -> None:
    files = {path: text for path, text in FILES.items() if "libcuda" not in path}
    found = section(files, {"/proc/self/ns/pid": LINKS["/proc/self/ns/pid"]})
    assert found.unavailable["nvidia.library_matches_module"].why is Why.ABSENT
    assert found.values["nvidia.library_versions"] == []


def test_a_daemon_not_seen_from_a_container_may_run_outside_it() -> None:
    found = section(links={**LINKS, "/proc/self/ns/pid": "pid:[4026532290]"})
    assert found.unavailable["nvidia.daemon[nv-fabricmanager].running"].why is Why.DENIED
    assert found.values["nvidia.daemon[nvidia-persistenced].running"] is True


def test_two_programs_whose_names_are_cut_to_the_same_are_told_apart() -> None:
    found = section(processes=[stat(9, "nvidia-cuda-mps", "nvidia-cuda-mps-control\0-d")])
    assert found.values["nvidia.daemon[nvidia-cuda-mps-control].running"] is True
    assert found.values["nvidia.daemon[nvidia-cuda-mps-server].running"] is False


def test_what_an_old_driver_does_not_say_is_unavailable() -> None:
    files = {
        **FILES,
        "/proc/driver/nvidia/gpus/0000:00:06.0/information": "Model: \t\t Tesla V100\nDMA Size: \t ??? bits\n",
    }
    del files["/proc/driver/nvidia/gpus/0000:00:06.0/power"]
    found = section(files)
    assert found.values["nvidia.gpu[0].model"] == "Tesla V100"
    for name in ("excluded", "dma_address_bits", "runtime_d3"):
        assert found.unavailable[f"nvidia.gpu[0].{name}"].why is Why.NOT_SUPPORTED
    assert not found.errors


def test_parameters_that_may_not_be_read() -> None:
    found = section(denied=["/proc/driver/nvidia/params"])
    assert found.reading("nvidia.module[nvidia].parameter[NvLinkDisable]") == found.unavailable["nvidia.module[nvidia]"]
    assert found.unavailable["nvidia.module[nvidia]"].why is Why.DENIED


def test_garbage_is_an_error_of_its_own_reading() -> None:
    found = section({**FILES, "/proc/driver/nvidia/version": "\x00\udcff no version here"})
    assert set(found.errors) >= {"nvidia.module_version", "nvidia.module_flavour"}
    assert found.values["nvidia.gpu[0].model"] == "NVIDIA H200"


def test_the_empty_machine() -> None:
    found = capture(host=FakeHost(), only=["nvidia_driver"]).sections["nvidia_driver"]
    assert (found.status, found.values, found.errors) == ("unavailable", {}, {})
