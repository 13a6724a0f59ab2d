"""Readings of machines, drivers, libraries and model files whose slow value is known."""

from __future__ import annotations

from envsnap.explain.harm import ANY, HARMLESS, HIGHER, LOWER, OTHER, Harm, Needs

_ON = "1 true yes on"
_OFF = "0 false no off"
_RANKS, _HOSTS, _NVLINK, _LOAD = Needs.RANKS, Needs.HOSTS, Needs.NVLINK, Needs.LOAD

_NCCL = (
    Harm("nccl.rank[].network", "socket", "Traffic between machines goes over TCP.", True, _HOSTS, (1.1, 30)),
    Harm("nccl.rank[].transport[]", "shm", "Traffic between GPUs goes through host memory.", True, _RANKS, (1.03, 5)),
    Harm("nccl.rank[].transport[]", "socket", "Traffic between GPUs goes over sockets.", True, _RANKS, (1.1, 30)),
    Harm("nccl.rank[].all_direct_p2p nccl.rank[].gpu_direct_rdma", _OFF, "Traffic is staged in host memory.", True,
         _RANKS, (1.02, 5)),
    Harm("nccl.rank[].channels[] nccl.rank[].algorithms[] nccl.rank[].protocols[]", LOWER,
         "NCCL has less to choose from.", False, _RANKS, (1.0, 3)),
)  # fmt: skip

_LINKS = (
    Harm("gpu_pair[].p2p_read gpu_pair[].p2p_write gpu_pair[].p2p_nvlink gpu_pair[].p2p_pci", "ok > not_supported "
         "chipset_not_supported disabled_by_regkey topology_not_supported gpu_not_supported unknown",
         "GPUs no longer reach each other directly.", True, _RANKS, (1.03, 5)),
    Harm("gpu_pair[].p2p_read gpu_pair[].p2p_write gpu_pair[].p2p_nvlink gpu_pair[].p2p_pci", _OFF,
         "GPUs no longer reach each other directly.", True, _RANKS, (1.03, 5)),
    Harm("gpu_pair[].topology", "internal single multiple > hostbridge phb node > system sys",
         "Traffic between GPUs crosses the CPU.", True, _RANKS, (1.02, 4)),
    Harm("gpu[].nvlink_active_count gpu[].nvlink[].speed_mbps", LOWER, "Fewer or slower NVLinks.", True, _RANKS,
         (1.02, 6)),
    Harm("gpu[].nvlink[].active", _OFF, "An NVLink is down.", True, _RANKS, (1.02, 6)),
    Harm("gpu[].fabric_degraded_bandwidth gpu[].fabric_route_unhealthy gpu[].fabric_route_recovery "
         "gpu[].fabric_access_timeout_recovery", "true degraded unhealthy 1", "The fabric is degraded.", True, _RANKS,
         (1.02, 6)),
    Harm("gpu[].fabric_state", "completed > in_progress not_started not_supported", "GPUs have not joined the fabric.",
         True, _RANKS, (1.05, 10)),
    Harm("gpu[].fabric_health", "healthy > unhealthy limited_capacity", "The fabric is degraded.", True, _RANKS),
    Harm("nvml.nvlink_bandwidth_mode", "half min 3quarter off", "NVLinks are limited.", True, _RANKS, (1.02, 3)),
    Harm("pci[].acs_enabled", "request_redirect completion_redirect",
         "Traffic between GPUs goes up to the CPU and back.", True, _RANKS, (1.02, 4)),
    Harm("pci[].iommu_type", "dma dma-fq", "The IOMMU translates every transfer.", True, makes=(1.02, 4)),
    Harm("kernel.parameter[*iommu*]", "on force", "The IOMMU translates transfers.", makes=(1.0, 4)),
    Harm("kernel.parameter[iommu]", "unset", "The IOMMU may no longer let addresses through.", makes=(1.0, 3)),
    Harm("pci[].link_width_lanes gpu[].pcie_width_lanes pci[].link_speed_gts pci[].target_link_speed_gts "
         "gpu[].max_pcie_* pci[].max_link_*", LOWER, "The link carries less.", makes=(1.0, 16)),
    Harm("during.gpu[].pcie_speed_* during.gpu[].pcie_width_*", LOWER, "The link carries less under load.", True,
         makes=(1.0, 16)),
    Harm("pci[].max_payload_bytes pci[].max_read_request_bytes", LOWER, "PCIe packets are smaller.", makes=(1.0, 1.4)),
    Harm("pci[].extended_tags pci[].relaxed_ordering", _OFF, "Fewer PCIe transfers are under way at once.",
         makes=(1.0, 2)),
    Harm("pci[].aspm_enabled", ANY, "Links sleep, and wake slowly.", makes=(1.0, 1.4)),
    Harm("pci[].power_control", "auto", "Devices may sleep.", makes=(1.0, 1.2)),
    Harm("gpu[].bar1_total_bytes pci[].bar[].size_bytes", LOWER, "A smaller window onto the GPU's memory.", True,
         _RANKS, (1.0, 3)),
    Harm("pci[].numa_node", OTHER, "A device is attached elsewhere.", makes=(1.0, 1.5)),
)  # fmt: skip

_NETWORK = (
    Harm("rdma.peer_memory_loaded", _OFF, "RDMA goes through host memory.", True, _HOSTS, (1.02, 4)),
    Harm("rdma.verbs_files_count rdma.devices_count", LOWER, "Less RDMA, down to none.", True, _HOSTS, (1.05, 30)),
    Harm("rdma[].port[].rate_gbps rdma[].port[].width_lanes", LOWER, "A port is slower.", True, _HOSTS, (1.02, 16)),
    Harm("rdma[].port[].state rdma[].port[].physical_state", "active link_up > *", "A port is down.", True, _HOSTS,
         (1.05, 30)),
    Harm("rdma[].port[].link_layer", "infiniband > ethernet", "RDMA over another kind of network.", True, _HOSTS),
    Harm("rdma[].port[].gid[].type rdma[].port[].gid[].family", OTHER, "An address is of another kind.", False, _HOSTS),
    Harm("network[].mtu_bytes", LOWER, "Packets are smaller.", False, _HOSTS, (1.0, 1.6)),
    Harm("network[].speed_mbps", LOWER, "The interface is slower.", True, _HOSTS, (1.0, 100)),
    Harm("network.tcp_congestion_control network.default_route", "", "", False, _HOSTS, (1.0, 2)),
    Harm("rdma* network*", "", "", False, _HOSTS),
    Harm("*memlock_soft_bytes *memlock_hard_bytes", LOWER, "Buffers cannot be pinned.", False, _HOSTS),
    Harm("worker[].memlock_soft_bytes limits.memlock_soft_bytes", "unset > *", "Buffers cannot be pinned.", True,
         _HOSTS),
    Harm("*memlock_soft_unlimited *memlock_hard_unlimited", _OFF, "Buffers cannot be pinned.", False, _HOSTS),
)  # fmt: skip

_GPUS = (
    Harm("gpu[].name nvidia.gpu[].model gpu[].architecture gpu[].compute_capability", OTHER, "It is another GPU.", True,
         makes=(1.0, 20)),
    Harm("gpu[].memory_total_bytes gpu[].core_count gpu[].memory_bus_width_bits", LOWER, "A smaller GPU.", True,
         makes=(1.0, 20)),
    Harm("gpu[].pci_id", OTHER, "It is another GPU.", True, makes=(1.0, 20)),
    Harm("nvml.gpu_count", LOWER, "Fewer GPUs.", True),
    Harm("gpu[].application_*_clock_mhz gpu[].max_*_clock_mhz gpu[].max_customer_boost_* gpu[].*_vf_offset_mhz "
         "during.gpu[].sm_clock_* during.gpu[].memory_clock_*", LOWER, "The GPU's clock is lower."),
    Harm("gpu[].power_limit_watts gpu[].enforced_power_limit_watts", LOWER, "The GPU may draw less."),
    Harm("gpu[].target_temperature_celsius", LOWER, "The GPU slows down at a lower temperature.", makes=(1.0, 1.5)),
    Harm("gpu[].power_source", "battery undersized", "The GPU lacks power.", True, makes=(1.1, 10)),
    Harm("gpu[].persistence_mode", _OFF, "The driver unloads when nobody uses the GPU.", makes=(1.0, 1.02)),
    Harm("nvidia.daemon[nvidia-persistenced].running gpu[].accounting_mode", HARMLESS,
         "It acts between programs, not within one."),
    Harm("gpu[].ecc_mode gpu[].dram_encryption", _ON, "Memory bandwidth is spent on checks.", makes=(1.0, 1.2)),
    Harm("gpu[].mig_mode", "enabled 1 true", "The GPU is divided.", True, makes=(1.05, 8)),
    Harm("gpu[].gsp_firmware_enabled nvidia.module[nvidia].parameter[EnableGpuFirmware]", "true 16 17 18",
         "Calls to the driver pass through firmware on the GPU.", makes=(1.0, 1.4)),
    Harm("nvml.confidential_compute", _ON, "Transfers are encrypted.", True, makes=(1.05, 3)),
    Harm("gpu[].confidential_protected_memory_kib", HIGHER, "Transfers are encrypted.", True, makes=(1.05, 3)),
    Harm("gpu[].compute_mode", "", "", makes=(1.0, 1.02)),
    Harm("gpu[].remapped_rows_pending gpu[].retired_pages_pending gpu[].unrepairable_memory "
         "gpu[].sram_threshold_exceeded gpu[].remapped_rows_failure", _ON, "The GPU's memory is failing.", True),
    Harm("gpu[].recovery_action", "none > *", "The driver wants the GPU reset.", True),
    Harm("nvidia.library_matches_module", _OFF, "Driver library and kernel module are of different versions.", True),
    Harm("nvidia.module_flavour", OTHER, "Another kind of kernel module.", makes=(1.0, 1.4)),
    Harm("nvidia.cuda_compat_versions", ANY, "A compatibility library may take the driver's place.", makes=(1.0, 20)),
    Harm("nvidia.daemon[nv-fabricmanager].running", _OFF, "Nobody sets up the NVSwitches.", True, _RANKS, (1.05, 10)),
    Harm("nvidia.daemon[nvidia-imex].running", _OFF, "Memory cannot be shared between machines.", False, _RANKS,
         (1.0, 2)),
    Harm("nvidia.daemon[dcgm-exporter].running nvidia.daemon[nv-hostengine].running nvidia.daemon[dcgm].running", _ON,
         "It samples the GPU's counters, some of which hold the GPU up.", makes=(1.0, 1.3)),
    Harm("nvidia.daemon[nvidia-cuda-mps-*].running", _ON, "Launches pass through a server that is shared.",
         makes=(1.0, 2)),
    Harm("nvidia.daemon[].running", "", "", makes=(1.0, 1.05)),
    Harm("nvidia.module[nvidia].parameter[NvLinkDisable]", HIGHER, "NVLink is off.", True, _RANKS, (1.05, 6)),
    Harm("nvidia.module[].parameter[EnablePCIERelaxedOrderingMode] nvidia.module[].parameter[EnableStreamMemOPs]",
         LOWER, "", makes=(1.0, 1.3)),
    Harm("nvidia.module[].text_parameter[RegistryDwords]", "", "", makes=(1.0, 3)),
    Harm("during.gpu[].foreign_processes gpu[].process_names gpu_device[].holders", HIGHER, "Others use the GPU.",
         True, makes=(1.0, 20)),
    Harm("during.gpu[].throttle_percent[] during.gpu[].violation_seconds[] during.gpu[].pcie_replay_count "
         "during.gpu[].pcie_transition_count", HIGHER, "The GPU was held down, or its link was trained anew."),
    Harm("during.gpu[].throttle_percent[]", "unset > *", "The GPU was held down.", True),
)  # fmt: skip

_CPUS = (
    Harm("during.host.cpu_other* during.host.*_pressure* during.worker[].run_delay* during.worker[].involuntary* "
         "during.worker[].major_fault* load.process_cpu_percent[]", HIGHER,
         "The workers have to share the CPUs, memory or disks.", makes=(1.0, 20)),
    Harm("during.host.cpu_clock_* cpu.frequency_*", LOWER, "The CPUs' clock is lower."),
    Harm("cpu.governor cpu[].governor", "performance > schedutil ondemand userspace > conservative powersave",
         "CPUs are slow to speed up.", makes=(1.0, 2)),
    Harm("cpu.energy_preference cpu[].energy_preference", "performance > balance_performance default > balance_power > "
         "power", "CPUs save energy.", makes=(1.0, 1.6)),
    Harm("platform.power_profile", "performance > balanced* > low-power quiet cool", "The machine saves energy.",
         makes=(1.0, 2)),
    Harm("cpu.turbo", _OFF, "CPUs may not exceed their guaranteed frequency.", makes=(1.0, 1.6)),
    Harm("cpu.scaling_max_mhz cpu[].scaling_max_mhz cpu.max_performance_percent cpu.package[].power_limit_watts "
         "cpu.uncore[].max_mhz", LOWER, "CPUs are held down.", makes=(1.0, 3)),
    Harm("cpu.isolated cpu.offline", "* > unset", "", makes=(1.0, 1.3)),
    Harm("cpu.isolated cpu.offline", ANY, "CPUs are withheld from ordinary scheduling.", makes=(1.0, 10)),
    Harm("cpu.idle_state[].enabled", _ON, "CPUs sleep more deeply, and take longer to wake.", makes=(1.0, 1.4)),
    Harm("kernel.parameter[processor.max_cstate] kernel.parameter[intel_idle.max_cstate] kernel.parameter[idle]", "* > "
         "unset", "CPUs sleep more deeply, and take longer to wake.", makes=(1.0, 1.4)),
    Harm("cpu.haltpoll_max_nanoseconds", LOWER, "A guest's CPUs halt sooner.", makes=(1.0, 1.3)),
    Harm("cpu.model cpu.vendor cpu.family", OTHER, "It is another CPU.", True, makes=(1.0, 3)),
    Harm("platform.product platform.vendor", OTHER, "It is another machine.", True, makes=(1.0, 5)),
    Harm("cpu.smt_active", "", "", makes=(1.0, 1.15)),
    Harm("kernel.clock_source", "tsc > kvm-clock hyperv_clocksource_tsc_page > *", "Every look at the clock leaves the "
         "CPU.", True, makes=(1.01, 2)),
    Harm("numa.balancing_mode", "1 2 3", "The kernel unmaps pages to see who uses them.", makes=(1.0, 1.4)),
    Harm("numa.demotion memory.zone_reclaim_mode", HIGHER, "A node reclaims its own pages first.", makes=(1.0, 1.4)),
    Harm("kernel.parameter[numa_balancing]", "enable", "The kernel unmaps pages to see who uses them.",
         makes=(1.0, 1.4)),
    Harm("kernel.parameter[isolcpus] kernel.parameter[nohz_full]", ANY, "CPUs are withheld from ordinary scheduling.",
         True, makes=(1.0, 10)),
    Harm("kernel.parameter[mitigations]", "off > unset auto auto,nosmt auto;nosmt *", "Every system call pays for "
         "mitigations.", makes=(1.0, 1.3)),
    Harm("cpu.vulnerability[]", "vulnerable* not* > mitigation*", "Every system call pays for mitigations.",
         makes=(1.0, 1.15)),
    Harm("kernel.parameter[maxcpus] kernel.parameter[nr_cpus] kernel.parameter[nosmt]", ANY, "Fewer CPUs.",
         makes=(1.0, 3)),
    Harm("kernel.parameter[hugepages] kernel.parameter[init_on_alloc] kernel.parameter[pci]", HARMLESS,
         "It does not act on a running server's steps."),
    Harm("kernel.preemption", "none voluntary dynamic > full lazy", "Running threads are interrupted more often.",
         makes=(1.0, 1.1)),
    Harm("kernel.nmi_watchdog kernel.split_lock_mitigation kernel.taints", "", "", makes=(1.0, 1.05)),
    Harm("kernel.scheduler*", "", "", makes=(1.0, 1.3)),
    Harm("inherited.cpus_count worker[].cpus_count cgroup.cpu_quota_cpus cpu.threads_count cpu.cores_count", LOWER,
         "Fewer CPUs for the workers.", makes=(1.0, 10)),
    Harm("cgroup.cpu_quota_cpus", "unset > *", "The container is limited.", True, makes=(1.0, 10)),
    Harm("cgroup.cpu_limited", _ON, "The container is limited.", True, makes=(1.0, 10)),
    Harm("cgroup.cpu_throttled_count cgroup.cpu_throttled_microseconds", HIGHER, "The container was held up.", True),
    Harm("cgroup.memory_high_limited cgroup.memory_high_bytes", "unset false > *", "The kernel slows down who takes "
         "memory.", True, makes=(1.0, 10)),
    Harm("cgroup.memory_limit_bytes cgroup.memory_limited cgroup.swap* cgroup.tasks* cgroup.io_limited", "", "",
         makes=(1.0, 3)),
    Harm("cgroup.cpu_weight cgroup.cpu_shares", LOWER, "Others come first.", makes=(1.0, 3)),
    Harm("inherited.nice worker[].nice", HIGHER, "Others come first.", makes=(1.0, 3)),
    Harm("inherited.scheduling_policy worker[].scheduling_policy", "fifo rr deadline > other > batch > idle",
         "Others come first.", True, makes=(1.0, 5)),
    Harm("worker[].seccomp worker[].store_bypass", "off* thread*vulnerable vulnerable not* > *", "System calls are "
         "filtered.", makes=(1.0, 1.3)),
    Harm("container.kind", "none > *", "It runs in a container.", makes=(1.0, 1.5)),
    Harm("platform.virtualization", "none > *", "A hypervisor stands between.", True, makes=(1.0, 3)),
    Harm("gpu[].virtualization_mode", "none > passthrough > vgpu *", "A hypervisor stands between.", makes=(1.0, 3)),
)  # fmt: skip

_MEMORY = (
    Harm("memory.shm_size_bytes", LOWER, "Ranks share memory there.", False, _RANKS),
    Harm("memory.transparent_huge_pages worker[].transparent_huge_pages", "madvise true > always > never false",
         "Memory in small pages, or pages joined while the workers wait.", makes=(1.0, 1.25)),
    Harm("memory.transparent_huge_pages_defrag", "madvise defer defer+madvise never > always",
         "Who touches memory waits until pages are joined.", makes=(1.0, 1.25)),
    Harm("kernel.parameter[transparent_hugepage]", "madvise unset > always > never", "Memory in small pages.",
         makes=(1.0, 1.25)),
    Harm("memory.swap_total_bytes memory.swappiness memory.min_free_bytes memory.overcommit* memory.dirty* "
         "memory.huge_pages[].count", HARMLESS, "It acts when memory runs out, or on writing."),
    Harm("memory.total_bytes numa[].memory_bytes", "", "", makes=(1.0, 1.5)),
    Harm("*numa_policy *memory_nodes", "", "Memory may lie on another node.", makes=(1.0, 1.6)),
    Harm("*nofile* *nproc* *stack_soft*", HARMLESS, "It is a limit that is not reached."),
)  # fmt: skip

_FILES = (
    Harm("storage[].medium", "nvme disk virtual memory > network", "Files are farther away.", makes=(1.0, 5)),
    Harm("storage[].file_system", "ext4 xfs btrfs tmpfs zfs > overlay > nfs* cifs fuse* 9p lustre ceph smb*",
         "Files are farther away.", makes=(1.0, 5)),
    Harm("disk[].scheduler disk[].read_ahead_bytes disk[].requests_count storage[].options", "", "", makes=(1.0, 1.2)),
    Harm("cache[].warm", _OFF, "Kernels are compiled or tuned within the first requests.", makes=(1.0, 200)),
    Harm("cache[].p2p_refused_count", HIGHER, "The engine holds pairs of GPUs for unable to reach each other.", True,
         _RANKS, (1.02, 3)),
    Harm("cache[].tuned_sha256 cache[].tuned_count", "", "Kernels were tuned anew.", makes=(1.0, 1.3)),
    Harm("model[].quantization", "* > unset", "More bytes for every weight.", True, makes=(1.1, 5)),
    Harm("model[].quantization", OTHER, "Other kernels for other weights.", True, makes=(1.0, 5)),
    Harm("model[].index_sha256 model[].weights", OTHER, "Other weights.", True, makes=(1.0, 10)),
    Harm("model[].chat_template_sha256", "", "", makes=(1.0, 2)),
    Harm("model[].generation_config", "", "", makes=(1.0, 2)),
)  # fmt: skip

_SOFTWARE = (
    Harm("library[].debug record[].torch.deterministic record[].torch.cudnn_deterministic", _ON,
         "A debug or deterministic build.", True, makes=(1.02, 3)),
    Harm("record[].torch.allow_tf32", _OFF, "No TF32.", makes=(1.0, 8)),
    Harm("record[].torch.float32_matmul_precision", "medium > high > highest", "No TF32.", makes=(1.0, 8)),
    Harm("record[].torch.cudnn_enabled record[].torch.cudnn_benchmark", _OFF, "More general kernels.", makes=(1.0, 3)),
    Harm("record[].torch.default_dtype", "bfloat16 float16 > float32 > float64", "Twice the bytes.", True,
         makes=(1.2, 5)),
    Harm("record[].torch.allocator", "native > *", "Another allocator.", makes=(1.0, 1.3)),
    Harm("record[].torch.num_threads", HIGHER, "As many threads in every rank, which then share the CPUs.", False,
         _RANKS, (1.0, 4)),
    Harm("record[].torch.num_threads record[].torch.num_interop_threads", "", "", makes=(1.0, 1.8)),
    Harm("record[].python.gc_enabled", _ON, "Python looks for garbage between steps.", makes=(1.0, 1.4)),
    Harm("record[].python.gc_thresholds", LOWER, "Python looks for garbage more often.", makes=(1.0, 1.4)),
    Harm("record[].python.switch_interval_seconds", LOWER, "Python's threads take turns more often.", makes=(1.0, 1.2)),
    Harm("record[].python.flag[dev_mode] python.flag[dev_mode] python.flag[debug]", _ON, "Python checks itself.", True,
         makes=(1.02, 3)),
    Harm("server[].dp[].graph_batch_sizes record[].graph_batch_sizes[]", LOWER, "Larger batches run without a graph.",
         True, makes=(1.0, 8)),
    Harm("server[].dp[].graph_batch_sizes record[].graph_batch_sizes[]", "* > unset", "No CUDA graph was captured.",
         True, makes=(1.05, 8)),
    Harm("server[].dp[].graph_memory_bytes", "0 unset", "No CUDA graph was captured.", True, makes=(1.05, 8)),
    Harm("during.server.decode_graph_percent during.server.prefill_graph_percent", LOWER,
         "Fewer steps ran from a graph.", True, makes=(1.0, 8)),
    Harm("during.server.decode_batch_mean_count", HIGHER, "More requests shared each step.", True),
    Harm("during.server.retraction_count", HIGHER, "Requests were put back for lack of room.", True, makes=(1.0, 5)),
    Harm("during.server.cached_prompt_percent", LOWER, "More of each prompt was computed anew.", True),
    Harm("server[].dp[].token_capacity_count server[].dp[].kv_cache_memory_bytes server[].dp[].max_running_*", LOWER,
         "Less room for the cache.", False, _LOAD, (1.0, 10)),
    Harm("package[].violated_pins packages.broken package[].copies_count", ANY,
         "Installed versions do not fit together."),
    Harm("worker[].executable_replaced worker[].library[].replaced", _ON, "The file was replaced while it ran."),
)  # fmt: skip

READINGS = (*_NCCL, *_LINKS, *_NETWORK, *_GPUS, *_CPUS, *_MEMORY, *_FILES, *_SOFTWARE)
