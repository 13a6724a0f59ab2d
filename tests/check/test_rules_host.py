from __future__ import annotations

import pytest

from envsnap.check import Status
from tests.check.made import ABSENT, SGLANG, Case, apart, check, fires, gpus, silent, warns

TP2, TP8 = f"{SGLANG} --tp 2", f"{SGLANG} --tp 8"
TWO_NODES = f"{SGLANG} --tp 16 --nnodes 2"
GIB, MIB = 1 << 30, 1 << 20
LIMITS = {"limits.nofile_hard_unlimited": False, "limits.memlock_soft_unlimited": True}
QUOTA = {"cgroup.cpu_limited": True, "inherited.cpus_count": 64}
MEMORY = {"memory.available_bytes": 200 * GIB, "memory.total_bytes": 256 * GIB}
QUIET = {"load.average_1m": 0.2, "inherited.cpus_count": 64, "load.process_cpu_percent[sshd]": 2.0}
CLOCK = {"clock.synchronised": True}
DISK = {"storage[cache].available_bytes": 90 * GIB, "storage[cache].options": [], "storage[cache].medium": "nvme"}
RDMA = {"rdma.devices_count": 1, "rdma[mlx5_0].port[1].state": "ACTIVE", "rdma[mlx5_0].port[1].link_layer": "Ethernet"}
GID3 = {"rdma[mlx5_0].port[1].gid[3].type": "RoCE v2", "rdma[mlx5_0].port[1].gid[3].family": "ipv4"}
FLAT_VM = {
    "platform.virtualization": "kvm", **{f"pci[{n}].id": "x" for n in ("gpu0", "gpu0/up1", "gpu1", "nic0", "nic1")},
}  # fmt: skip
PINNED = {"inherited.cpus": "0-7", "inherited.cpus_count": 8}


def bridges(device: str, *above: str) -> dict[str, str]:
    """A PCI device and what lies above it, nearest first."""
    return {f"pci[{device}].address": device, **{f"pci[{device}/up{n}].address": a for n, a in enumerate(above, 1)}}


CASES = [
    fires("shared_memory", {**gpus(2), "memory.shm_size_bytes": 64 * MIB}, "/dev/shm has 64 MiB"),
    warns("shared_memory", {**gpus(2), "memory.shm_size_bytes": 64 * MIB}, "64 MiB", command=SGLANG),
    warns("shared_memory", {**gpus(2), "memory.shm_size_bytes": 2 * GIB, "memory.total_bytes": 512 * GIB}, "under 5 %"),
    fires("shared_memory", {"memory.shm_size_bytes": 64 * GIB, "memory.shm_available_bytes": MIB}, "1 MiB left"),
    silent("shared_memory", {**gpus(8), "memory.shm_size_bytes": 64 * GIB, "memory.shm_available_bytes": 60 * GIB,
                             "memory.total_bytes": 512 * GIB}, "large enough"),
    silent("shared_memory", {**gpus(8), "memory.shm_size_bytes": 8 * GIB, "cgroup.memory_limit_bytes": 100 * GIB,
                             "memory.total_bytes": 2048 * GIB}, "the container's memory counts"),
    warns("limits_low", {**LIMITS, "limits.nofile_hard_count": 1024}, "at most 1,024 open files"),
    fires("limits_low", {**LIMITS, "limits.as_soft_bytes": 8 * GIB}, "address space limited to 8 GiB"),
    fires("limits_low", {**LIMITS, "limits.memlock_soft_bytes": 64 << 10, "rdma.devices_count": 4},
          "at most 64 KiB can be locked", command=TWO_NODES),
    silent("limits_low", {**LIMITS, "limits.nofile_hard_count": 1 << 20, "limits.memlock_soft_bytes": 8 << 20},
           "no RDMA, nothing to lock"),
    fires("cpu_quota", {**QUOTA, "cgroup.cpu_quota_cpus": 4.0, "env[OMP_NUM_THREADS]": "4"}, "4 CPUs for 8 ranks",
          command=TP8),
    warns("cpu_quota", {**QUOTA, "cgroup.cpu_quota_cpus": 8.0}, "programs see 64 CPUs and may use the time of 8"),
    warns("cpu_quota", {**QUOTA, "cgroup.cpu_quota_cpus": 8.0, "env[OMP_NUM_THREADS]": "32"}, "OMP_NUM_THREADS=32"),
    silent("cpu_quota", {**QUOTA, "cgroup.cpu_quota_cpus": 8.0, "env[OMP_NUM_THREADS]": "1"}, "threads set", TP2),
    silent("cpu_quota", {"cgroup.cpu_limited": False, "inherited.cpus_count": 224}, "no quota", TP8),
    fires("cpu_binding", {**PINNED, "inherited.cpus": "3", "inherited.cpus_count": 1, "cpu.threads_count": 64},
          "may run on 1 CPUs (3), for 2 ranks", command=TP2),
    warns("cpu_binding", {**PINNED, **gpus(1, cpu_affinity="32-63")}, "GPU 0: near CPUs 32-63"),
    warns("cpu_binding", {**PINNED, "inherited.nice": 10, "inherited.scheduling_policy": "batch"}, "nice value 10",
          "policy batch"),
    silent("cpu_binding", {**PINNED, **gpus(1, cpu_affinity="0-31"), "inherited.nice": -5}, "near"),
    silent("cpu_binding", {"inherited.cpus": "0-1", "inherited.cpus_count": 2, "cpu.threads_count": 2},
           "a small machine, used whole", TP2),
    fires("isolated_cpus", {"cpu.isolated": "1-31", "inherited.cpus": "1-31"}, "every CPU"),
    warns("isolated_cpus", {"cpu.isolated": "0-7", "inherited.cpus": "0-31"}, "8 of 32", "CPU 0 is isolated"),
    silent("isolated_cpus", {"cpu.isolated": "8-15", "inherited.cpus": "0-7"}, "kept apart"),
    silent("isolated_cpus", {"cpu.isolated": "8-15", "inherited.cpus": "16"}, "one CPU, bound on purpose"),
    apart("isolated_cpus", {"cpu.isolated": "", "inherited.cpus": "0-7"}, "none"),
    warns("cpu_governor", {"cpu.governor": "schedutil"}, "governor schedutil"),
    warns("cpu_governor", {"cpu.governor": "powersave", "cpu.energy_preference": "power"},
          "powersave, preference power"),
    warns("cpu_governor", {"cpu.governor": "performance", "cpu[3].governor": "powersave"}, "1 CPUs have"),
    silent("cpu_governor", {"cpu.governor": "performance"}, "performance"),
    silent("cpu_governor", {"cpu.governor": "powersave", "cpu.energy_preference": "balance_performance"},
           "pstate's way"),
    apart("cpu_governor", {}, "a virtual machine", unavailable={"cpu.governor": ABSENT}),
    warns("cpu_capped", {"cpu.turbo": False, "cpu.scaling_max_mhz": 2000.0, "cpu.hardware_max_mhz": 3800.0},
          "turbo is off", "at most 2000 MHz"),
    silent("cpu_capped", {"cpu.turbo": True, "cpu.scaling_max_mhz": 3800.0, "cpu.hardware_max_mhz": 3800.0}, "free"),
    apart("cpu_capped", {}, "no driver"),
    warns("cpu_steal", {"load.cpu_steal_seconds": 500.0, "kernel.uptime_seconds": 1000.0, "cpu.threads_count": 8},
          "6.2 %"),
    silent("cpu_steal", {"load.cpu_steal_seconds": 1.6, "kernel.uptime_seconds": 3700.0, "cpu.threads_count": 2},
           "a bit"),
    warns("numa_balancing", {"numa.balancing_mode": 1, "numa.nodes": "0-1"}, "is on"),
    silent("numa_balancing", {"numa.balancing_mode": 0, "numa.nodes": "0-1"}, "off"),
    apart("numa_balancing", {"numa.balancing_mode": 1, "numa.nodes": "0"}, "one node"),
    warns("clock_source", {"kernel.clock_source": "hpet"}, "hpet"),
    *(silent("clock_source", {"kernel.clock_source": s}, s) for s in ("tsc", "kvm-clock", "arch_sys_counter")),
    warns("clock_skew", {"clock.synchronised": False}, "nothing keeps the clock in step", command=TWO_NODES,
          unavailable={"clock.error_seconds": ABSENT}),
    silent("clock_skew", {"clock.synchronised": False}, "one machine"),
    warns("clock_skew", {**CLOCK, "cache[triton].newest_change_seconds": 1_800_000_000.0,
                         "repo[x].last_move.time": "2026-12-03T12:00:00+00:00"}, "triton was changed", "x was moved"),
    silent("clock_skew", {**CLOCK, "cache[triton].newest_change_seconds": 1_700_000_000.0}, "in the past"),
    fires("memory_pressure", {**MEMORY, "memory.available_bytes": 5 * GIB}, "5.0 of 256 GiB"),
    warns("memory_pressure", {**MEMORY, "load.pressure[memory].some_percent": 40.0,
                              "memory.swap_used_bytes": 100 * GIB}, "waited for memory 40 %", "100.0 GiB are swapped"),
    silent("memory_pressure", {**MEMORY, "memory.swap_used_bytes": 0}, "no swap"),
    fires("memory_errors", {"memory.uncorrected_errors_count": 1, "memory.corrected_errors_count": 0}, "1 uncorrected"),
    warns("memory_errors", {"memory.uncorrected_errors_count": 0, "memory.corrected_errors_count": 4000}, "4,000"),
    silent("memory_errors", {"memory.uncorrected_errors_count": 0, "memory.corrected_errors_count": 2}, "two in years"),
    warns("neighbours", {**QUIET, "load.process_cpu_percent[ffmpeg]": 380.0, "load.average_1m": 40.0},
          "ffmpeg 380 %", "load average 40 on 64"),
    warns("neighbours", {**QUIET, **gpus(utilization_gpu_percent=(0, 99))}, "GPU 1, which the command does not use",
          command=SGLANG),
    silent("neighbours", QUIET, "quiet"),
    silent("neighbours", {**QUIET, "load.average_1m": 0.9, "inherited.cpus_count": 1}, "one CPU's own load"),
    warns("kernel_errors", {"kernel_log.pcie_uncorrected_count": 2, "kernel_log.pcie_corrected_count": 3,
                            "kernel_log.out_of_memory_count": 1}, "2 PCIe errors", "1 processes killed"),
    silent("kernel_errors", {"kernel_log.pcie_uncorrected_count": 0, "kernel_log.pcie_corrected_count": 7}, "a few"),
    fires("port_taken", {"ports.listening": [22, 30000]}, "port 30000 is taken", command=SGLANG),
    fires("port_taken", {"ports.listening": [8000]}, "port 8000", command="vllm serve m"),
    silent("port_taken", {"ports.listening": [30000]}, "another port", f"{SGLANG} --port=30001"),
    apart("port_taken", {"ports.listening": [30000]}, "no server", "python train.py"),
    fires("cache_storage", {**DISK, "storage[cache].available_bytes": 100 * MIB}, "has 0.1 GiB left"),
    fires("cache_storage", {**DISK, "storage[tmp].options": ["noexec"], "storage[tmp].available_bytes": 9 * GIB},
          "tmp is mounted noexec"),
    warns("cache_storage", {**DISK, "storage[cache].medium": "network", "storage[cache].file_system": "nfs4"},
          "on a network (nfs4)"),
    silent("cache_storage", {**DISK, "storage[cache].available_files_count": 0}, "no fixed number of files"),
    silent("cache_storage", {**DISK, "storage[shm].options": ["noexec"], "storage[shm].available_bytes": 9 * GIB},
           "/dev/shm may be noexec"),
    warns("peer_memory", {**gpus(), **RDMA, "rdma.peer_memory_loaded": False,
                          "nvidia.module_flavour": "proprietary"}, "no module registers", command=TWO_NODES),
    silent("peer_memory", {**gpus(), **RDMA, "rdma.peer_memory_loaded": False, "nvidia.module_flavour": "open"},
           "the open module has DMA-BUF"),
    apart("peer_memory", {**gpus(), **RDMA, "rdma.peer_memory_loaded": False}, "one machine", TP2),
    warns("rdma_ports", {**RDMA, "rdma[mlx5_1].port[1].state": "DOWN"}, "1 of 2 RDMA ports"),
    fires("rdma_ports", {**RDMA, "rdma.verbs_files_count": 0}, "open none", command=TWO_NODES),
    silent("rdma_ports", {**RDMA, "rdma.verbs_files_count": 1}, "all up", TWO_NODES),
    apart("rdma_ports", {"rdma.devices_count": 0}, "none"),
    fires("nccl_network", {**RDMA, "env[NCCL_IB_HCA]": "mlx5_0:1,mlx5_7"}, "has no mlx5_7"),
    fires("nccl_network", {**RDMA, **GID3, "env[NCCL_IB_GID_INDEX]": "1"}, "NCCL_IB_GID_INDEX=1 is empty on mlx5_0"),
    warns("nccl_network", {**RDMA, "env[NCCL_IB_DISABLE]": "1"}, "not used"),
    silent("nccl_network", {**RDMA, **GID3, "env[NCCL_IB_GID_INDEX]": "3", "env[NCCL_IB_HCA]": "=mlx5_0"}, "right"),
    silent("nccl_network", {**RDMA, "env[NCCL_IB_HCA]": "mlx5"}, "a prefix"),
    silent("nccl_network", {**RDMA, "env[NCCL_IB_HCA]": "^mlx5_9"}, "all but"),
    apart("nccl_network", RDMA, "none set"),
    warns("gdr_distance", {**bridges("gpu0", "a", "b"), **bridges("nic0", "c", "d"), "env[NCCL_NET_GDR_LEVEL]": "SYS"},
          "NCCL_NET_GDR_LEVEL=SYS: gpu0 share no PCIe switch"),
    silent("gdr_distance", {**bridges("gpu0", "a", "b", "r"), **bridges("nic0", "c", "b", "r"),
                            "env[NCCL_NET_GDR_LEVEL]": "PHB"}, "under one switch"),
    silent("gdr_distance", {**bridges("gpu0", "a"), **bridges("nic0", "c"), "env[NCCL_NET_GDR_LEVEL]": "PXB"}, "off"),
    apart("gdr_distance", {**bridges("gpu0", "a"), **bridges("nic0", "c")}, "NCCL decides"),
    warns("vm_topology", FLAT_VM, "NCCL_TOPO_FILE is not set"),
    silent("vm_topology", {**FLAT_VM, "env[NCCL_TOPO_FILE]": "/opt/topo.xml"}, "a map"),
    silent("vm_topology", {**FLAT_VM, "pci[gpu0/up2].id": "x"}, "switches are shown"),
    apart("vm_topology", {**FLAT_VM, "platform.virtualization": "none"}, "bare metal"),
    apart("vm_topology", {"platform.virtualization": "kvm", "pci[gpu0].id": "x", "pci[gpu1].id": "x"}, "no adapters"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_a_case_says_what_it_expects() -> None:
    assert {case.status for case in CASES} == {Status.FAIL, Status.WARNING, Status.PASS, Status.NOT_APPLICABLE}
