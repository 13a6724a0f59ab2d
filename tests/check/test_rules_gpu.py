from __future__ import annotations

from typing import Any

import pytest

from envsnap.check import Status
from tests.check.made import ABSENT, SGLANG, Case, apart, check, fires, gpus, silent, snapshot, warns
from tests.check.made import judge as judged

TP2, TP8 = f"{SGLANG} --tp 2", f"{SGLANG} --tp 8"
IDLE: dict[str, Any] = {"compute_process_count": 0, "process_names": []}
BUSY: dict[str, Any] = {"compute_process_count": (1, 0), "process_names": (["python"], [])}
GIB = 1 << 30
LINK = {"pcie_width_lanes": 16, "max_pcie_width_lanes": 16}
BARE = {"platform.virtualization": "none"}


def pair(**facts: str) -> dict[str, str]:
    return {f"gpu_pair[0/1].{name}": value for name, value in facts.items()}


CASES = [
    # -- who is on them
    fires("gpu_processes", gpus(**BUSY), "GPU 0: python (1 with a CUDA context)"),
    fires("gpu_processes", gpus(compute_process_count=2, process_names=[]), "GPU 0-1: processes that cannot be named"),
    silent("gpu_processes", gpus(**IDLE), "idle"),
    silent("gpu_processes", gpus(compute_process_count=1, process_names=["nvidia-cuda-mps-server"]), "MPS server"),
    silent("gpu_processes", {**gpus(**BUSY), "env[CUDA_VISIBLE_DEVICES]": "1"}, "on a GPU that is not used"),
    silent("gpu_processes", gpus(compute_process_count=(0, 1), process_names=([], ["python"])), "beyond --tp 1",
           SGLANG),
    fires("gpu_processes", {**gpus(uuid=("GPU-aa", "GPU-bb"), **BUSY), "env[CUDA_VISIBLE_DEVICES]": "GPU-a"}, "GPU 0"),
    warns("gpu_device_holders", {**gpus(minor_number=(0, 1)), "gpu_device[nvidia1].holders": ["python3"]},
          "GPU 1: held open by python3"),
    silent("gpu_device_holders",
           {**gpus(minor_number=(0, 1)), "gpu_device[nvidia0].holders": ["nvidia-persiste", "nv-hostengine"]},
           "daemons"),
    silent("gpu_device_holders", {**gpus(minor_number=(0, 1), process_names=([], ["python3"])),
                                  "gpu_device[nvidia0].holders": ["python3"]}, "computes on another GPU", f"{SGLANG}"),
    fires("gpu_memory", gpus(memory_used_bytes=(112 * GIB, 0), memory_total_bytes=140 * GIB), "112.0 of 140 GiB"),
    warns("gpu_memory", gpus(1, memory_used_bytes=2 * GIB, memory_total_bytes=24 * GIB, graphics_process_count=3,
                             compute_process_count=0), "2.0 of 24"),
    silent("gpu_memory", gpus(memory_used_bytes=GIB // 2, memory_total_bytes=140 * GIB), "contexts of monitors"),
    fires("gpu_busy", gpus(utilization_gpu_percent=(0, 97)), "GPU 1: 97 % busy"),
    silent("gpu_busy", gpus(utilization_gpu_percent=3), "a poll of a monitor"),
    # -- how many, how alike, how well
    fires("gpu_count", gpus(2), "takes 8 GPU, 2 can be used", command=TP8),
    fires("gpu_count", {**gpus(8), "env[CUDA_VISIBLE_DEVICES]": "0,1"}, "(CUDA_VISIBLE_DEVICES=0,1)", command=TP8),
    fires("gpu_count", {}, "takes 2 GPU, and none can be used", command=TP2, unavailable={"nvml.gpu_count": ABSENT}),
    fires("gpu_count", {**gpus(1), "nvidia.gpu[0].model": "H200", "nvidia.gpu[1].model": "H200"},
          "module drives 2 GPUs, and only 1 answer"),
    silent("gpu_count", {**gpus(1), "nvidia.gpu[0].model": "x", "nvidia.gpu[1].model": "x",
                         "nvidia.gpu[1].excluded": True}, "left out on purpose"),
    silent("gpu_count", gpus(8), "enough", TP8),
    silent("gpu_count", gpus(4), "two nodes", f"{SGLANG} --tp 8 --nnodes 2"),
    silent("gpu_count", gpus(8), "attention data parallelism", f"{SGLANG} --tp 8 --dp 8 --enable-dp-attention"),
    fires("gpu_count", gpus(8), "takes 16", command=f"{SGLANG} --tp 8 --dp 2"),
    apart("gpu_count", {}, "none asked for", unavailable={"nvml.gpu_count": ABSENT}),
    apart("gpu_count", {}, "on the CPU", f"{SGLANG} --device cpu", unavailable={"nvml.gpu_count": ABSENT}),
    fires("gpus_alike", gpus(name=("NVIDIA A100", "NVIDIA H100")), "GPU 0 NVIDIA A100, GPU 1 NVIDIA H100", command=TP2),
    warns("gpus_alike", gpus(enforced_power_limit_watts=(700, 500)), "enforced_power_limit_watts differs"),
    silent("gpus_alike", gpus(enforced_power_limit_watts=700), "alike"),
    apart("gpus_alike", gpus(1), "one"),
    fires("gpu_health", gpus(recovery_action=("gpu_reset", "none")), "GPU 0: the driver asks for gpu_reset"),
    fires("gpu_health", gpus(1, ecc_uncorrected_volatile_count=2, remapped_rows_pending=True), "errors: 2", "rows of"),
    silent("gpu_health", gpus(recovery_action="none", remapped_rows_pending=False, ecc_uncorrected_volatile_count=0),
           "well"),
    silent("gpu_health", gpus(1), "a board that counts nothing"),
    fires("gpu_errors", {"kernel_log.xid_count[79]": 1}, "Xid 79 (fell off the bus), 1 times"),
    warns("gpu_errors", {"kernel_log.xid_count[74]": 3, "kernel_log.sxid_count[12028]": 1}, "Xid 74,", "12028"),
    silent("gpu_errors", {"kernel_log.xid_count[13]": 4, "kernel_log.xid_count[31]": 9}, "faults of programs"),
    # -- links
    fires("link_width", gpus(pcie_width_lanes=(8, 16), max_pcie_width_lanes=16), "GPU 0: 8 of 16", command=TP2),
    warns("link_width", gpus(pcie_width_lanes=(4, 16), max_pcie_width_lanes=16), "GPU 0: 4 of 16", command=SGLANG),
    fires("link_width", gpus(1, pcie_width_lanes=4, max_pcie_width_lanes=16), "4 of 16",
          command=f"{SGLANG} --cpu-offload-gb 8"),
    silent("link_width", gpus(**LINK), "full"),
    silent("link_width", gpus(pcie_width_lanes=8, max_pcie_width_lanes=8), "a slot of 8 lanes"),
    fires("link_generation", gpus(pcie_generation=(2, 5), max_pcie_generation=5, utilization_gpu_percent=90),
          "GPU 0: PCIe generation 2 of 5 under load"),
    apart("link_generation", gpus(pcie_generation=1, max_pcie_generation=5, utilization_gpu_percent=0),
          "idle GPUs go down to generation 1"),
    silent("link_generation", gpus(pcie_generation=5, max_pcie_generation=5, utilization_gpu_percent=90), "full"),
    warns("pcie_errors", {"pci[gpu0].aer_fatal_count": 1, "gpu[0].pcie_replay_count": 41_000}, "fatal", "41,000"),
    silent("pcie_errors", {"pci[gpu0].aer_fatal_count": 0, "pci[gpu0].aer_correctable_count": 12}, "a few corrected"),
    apart("pcie_errors", {}, "no counters"),
    fires("nvlink_down", gpus(nvlink_active_count=(18, 17)), "GPU 1: 17 of 18"),
    fires("nvlink_down", gpus(nvlink_active_count=0), "GPU 0-1: 0 of 18"),
    fires("nvlink_down", gpus(name="NVIDIA H100 NVL", nvlink_active_count=(12, 6)), "GPUs with 6 and 12 NVLinks up"),
    fires("nvlink_down", {**gpus(nvlink_active_count=18), "nvml.nvlink_bandwidth_mode": "half"}, "half bandwidth"),
    fires("nvlink_down", {**gpus(nvlink_active_count=18), "nvidia.module[nvidia].parameter[NvLinkDisable]": 1}, "off"),
    silent("nvlink_down", {**gpus(nvlink_active_count=18), "nvml.nvlink_bandwidth_mode": "full"}, "all up"),
    silent("nvlink_down", gpus(1, nvlink_active_count=0), "a single GPU of a larger board in a virtual machine"),
    silent("nvlink_down", gpus(name="NVIDIA A100-PCIE-80GB", nvlink_active_count=0), "no bridge"),
    apart("nvlink_down", gpus(), "a board without NVLink by design", unavailable={
        f"gpu[{i}].nvlink_active_count": ABSENT for i in (0, 1)}),
    fires("fabric", gpus(fabric_state=("in_progress", "completed")), "GPU 0: joining the fabric is in_progress"),
    fires("fabric", gpus(fabric_state="completed", fabric_status_code=(0, 3)), "GPU 1: joining the fabric failed"),
    fires("fabric", gpus(fabric_state="completed", fabric_health="unhealthy"), "fabric health is unhealthy"),
    warns("fabric", gpus(fabric_state="completed", fabric_degraded_bandwidth=True), "degraded bandwidth"),
    silent("fabric", gpus(fabric_state="completed", fabric_status_code=0, fabric_health="healthy"), "well"),
    apart("fabric", gpus(), "none by design", unavailable={"gpu[0].fabric_state": ABSENT,
          "gpu[1].fabric_state": ABSENT}),
    fires("fabric_manager", {**gpus(), "nvidia.device_files": ["nvidia-nvswitch0"], "container.kind": "none",
                             "nvidia.daemon[nv-fabricmanager].running": False}, "nv-fabricmanager does not run"),
    silent("fabric_manager", {**gpus(fabric_state="completed"), "nvidia.device_files": ["nvidia-nvswitch0"],
                              "container.kind": "none", "nvidia.daemon[nv-fabricmanager].running": False}, "joined"),
    apart("fabric_manager", {**gpus(), "nvidia.device_files": ["nvidiactl"], "container.kind": "none"}, "no NVSwitch"),
    apart("fabric_manager", {**gpus(), "nvidia.device_files": ["nvidia-nvswitch0"], "container.kind": "docker"},
          "docker"),
    warns("p2p_refused", {**gpus(), **pair(p2p_read="chipset_not_supported")},
          "chipset_not_supported) between GPUs 0/1"),
    warns("p2p_refused", {**gpus(3), "gpu_pair[0/1].p2p_read": "ok", "gpu_pair[0/2].p2p_read": "not_supported",
                          "gpu_pair[1/2].p2p_read": "ok"}, "GPUs 0/2"),
    silent("p2p_refused", {**gpus(), **pair(p2p_read="gpu_not_supported")}, "GeForce"),
    silent("p2p_refused", {**gpus(), **pair(p2p_read="ok")}, "ok"),
    fires("p2p_cache", {**pair(p2p_read="ok"), "cache[sglang].p2p_refused_count": 1, "cache[sglang].path": "/c"},
          "/c holds that 1 pairs"),
    silent("p2p_cache", {**pair(p2p_read="chipset_not_supported"), "cache[sglang].p2p_refused_count": 1}, "true"),
    warns("iommu", {**gpus(), **BARE, "pci[gpu0].iommu_type": "DMA-FQ", "pci[gpu1].iommu_type": "DMA-FQ"},
          "translates for 2 GPUs (DMA-FQ)"),
    silent("iommu", {**gpus(), **BARE, "pci[gpu0].iommu_type": "identity"}, "passes through"),
    apart("iommu", {**gpus(), **BARE, **pair(p2p_nvlink="ok"), "pci[gpu0].iommu_type": "DMA"}, "NVLink"),
    apart("iommu", {**gpus(), "platform.virtualization": "kvm", "pci[gpu0].iommu_type": "DMA"}, "virtual machine"),
    warns("acs", {**gpus(), **BARE, "pci[gpu0/up1].acs_enabled": ["request_redirect"]}, "at 1 bridges"),
    silent("acs", {**gpus(), **BARE, "pci[gpu0/up1].acs_enabled": ["source_validation"]}, "no redirect"),
    apart("acs", {**gpus(), "platform.virtualization": "kvm", "pci[gpu0/up1].acs_enabled": ["request_redirect"]},
          "a virtual machine needs ACS"),
    warns("speculation_over_pcie", {**gpus(), **pair(p2p_nvlink="not_supported")}, "EAGLE3 over 2 ranks, 1 pairs",
          command=f"{TP2} --speculative-algorithm EAGLE3"),
    silent("speculation_over_pcie", {**gpus(), **pair(p2p_nvlink="ok")}, "NVLink",
           f"{TP2} --speculative-algorithm EAGLE3"),
    apart("speculation_over_pcie", {**gpus(), **pair(p2p_nvlink="not_supported")}, "no speculation", TP2),
    # -- speed
    fires("clocks_held_down", gpus(clocks_event_reasons=(["hw_thermal_slowdown", "hw_slowdown"], [])), "GPU 0: clocks"),
    warns("clocks_held_down", gpus(1, clocks_event_reasons=["sw_thermal_slowdown"]), "sw_thermal_slowdown"),
    silent("clocks_held_down", gpus(clocks_event_reasons=["gpu_idle"]), "idle"),
    silent("clocks_held_down", gpus(clocks_event_reasons=["sw_power_cap"]), "at its cap under load"),
    warns("clocks_set", gpus(1, application_graphics_clock_mhz=1200, default_application_graphics_clock_mhz=1980),
          "graphics clock set to 1200 MHz, default 1980"),
    warns("clocks_set", gpus(1, clocks_event_reasons=["applications_clocks_setting"], memory_vf_offset_mhz=-500),
          "held at a setting", "memory clock lowered by 500"),
    silent("clocks_set", gpus(1, application_graphics_clock_mhz=1980, default_application_graphics_clock_mhz=1755),
           "up"),
    warns("power_limited", gpus(enforced_power_limit_watts=(500, 700), default_power_limit_watts=700),
          "GPU 0: power limit 500 W, default 700 W"),
    warns("power_limited", gpus(1, enforced_power_limit_watts=400, default_power_limit_watts=700,
          power_limit_watts=700),
          "700 W were asked for, something else caps it"),
    silent("power_limited", gpus(enforced_power_limit_watts=700, default_power_limit_watts=700, power_source="ac"),
           "ok"),
    warns("persistence_off", gpus(persistence_mode=(True, False)), "GPU 1: persistence mode is off"),
    silent("persistence_off", gpus(persistence_mode=True), "on"),
    silent("persistence_off", gpus(persistence_mode=False, virtualization_mode="vgpu"), "a vGPU has none"),
    fires("gpu_modes", gpus(1, mig_mode=True), "GPU 0: divided into MIG", command=TP2),
    warns("gpu_modes", gpus(1, ecc_mode=True, ecc_mode_pending=False), "ECC mode will change"),
    fires("gpu_modes", gpus(1, compute_mode="prohibited"), "closed to computing"),
    silent("gpu_modes", gpus(mig_mode=False, mig_mode_pending=False, ecc_mode=True, ecc_mode_pending=True,
                             compute_mode="default"), "usual"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_gpus_beyond_the_first_unreadable_one_are_judged_and_the_gap_is_told() -> None:
    from envsnap.reading import Unavailable, Why

    lost = Unavailable(Why.GONE, "GPU is lost")
    made = snapshot(gpus(pcie_width_lanes=(4, 16), max_pcie_width_lanes=(16, 16)), {"gpu[1].pcie_width_lanes": lost})
    del made.sections["gpu"].values["gpu[1].pcie_width_lanes"]
    found = judged("link_width", made, TP2)
    assert [(f.status, f.required) for f in found] == [(Status.FAIL, True), (Status.UNKNOWN, False)]
    assert "gpu[1].pcie_width_lanes: unavailable (gone: GPU is lost)" in found[1].title
