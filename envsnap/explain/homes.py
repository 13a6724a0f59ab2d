"""Where a change belongs: the bundle of what moves together, by the key.

A bundle's id is stable over runs and versions: `git:sglang`, `env:NCCL_PROTO`, `driver`, `package:torch`.
"""

from __future__ import annotations

import re

from envsnap.change import Change
from envsnap.keys import instances_of, pattern_of

# Key patterns (regular expressions; the first that matches counts) -> the id of the bundle; {0} is the first instance.
_HOMES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), home)
    for pattern, home in (
        (r"repo\[\]\..*", "git:{0}"),
        (r"(during\.)?gpu\[\]\.pcie_replay\w*|gpu\[\]\.nvlink\[\]\.\w+_error_count|pci\[\]\.aer_\w+"
         r"|kernel_log\.pcie_\w+", "link_errors"),
        (r"gpu\[\]\.(ecc_\w+_count|remapped_rows_\w+|retired_pages_\w+)", "memory_errors"),
        (r"kernel_log\.(s?xid_count\[\]|machine_check_count)", "faults"),
        (r"numa\.(memory_)?nodes|numa\[\]\.(cpus|distances)|gpu\[\]\.(cpu|memory)_affinity"
         r"|(pci|rdma|network)\[\]\.numa_node", "numa:layout"),
        (r"gpu\[\]\.gsp_firmware_enabled", "driver:firmware"),
        (r"record\[\]\.torch\.(allow_tf32|float32_matmul_precision)", "torch:precision"),
        (r"record\[\]\.torch\.(deterministic|cudnn_deterministic)", "torch:deterministic"),
        (r"record\[\]\.torch\.num_(interop_)?threads", "env:OMP_NUM_THREADS"),
        (r"record\[\]\.torch\.(allocator|allocator_settings)", "env:PYTORCH_CUDA_ALLOC_CONF"),
        (r"memory\.(transparent_huge_pages.*|khugepaged_defrag)|worker\[\]\.transparent_huge_pages", "huge_pages"),
        (r"cpu\.(idle_\w+|haltpoll\w*)(\[\]\..*)?", "cpu:idle"),
        (r"cpu\.(isolated|nohz_full)", "boot:isolcpus"),
        (r"numa\.balancing_mode", "boot:numa_balancing"),
        (r"platform\.virtualization|gpu\[\]\.virtualization_mode", "virtualization"),
        (r"during\.server\.(decode|prefill)_graph_percent", "argument:cuda_graph"),
        (r"(.*\.)?env(_at_exec)?\[\]|nccl\..*\.set\[\]|.*\.os_environ_differs\[\]", "env:{-1}"),
        (r"worker\[\]\.env_added", "env:*"),
        (r".*\.graph_batch_sizes(\[\])?|server\[\]\.dp\[\]\.graph_memory_bytes", "argument:cuda_graph"),
        (r".*argument(_source)?\[\]", "argument:{-1}"),
        (r"server\[\]\.dp\[\]\.(token_capacity_count|kv_cache_memory_bytes|weight_memory_bytes)", "server:capacity"),
        (r"server\[\]\.dp\[\]\.max_running_requests_count", "argument:max_running_requests"),
        (r"server\[\]\.(engine|version)|record\[\]\.engine(_version)?", "package:engine"),
        (r"record\[\]\.torch\.(version|git_version|cuda_version|hip_version)", "package:torch"),
        (r"nccl\.(rank\[\]|ras)\.version|record\[\]\.torch\.nccl_built_version", "library:nccl"),
        (r"nccl\.(rank\[\]|ras)\.cuda_(driver|runtime)", "driver"),
        (r"nccl\.rank\[\]\..*", "nccl:resolved"),
        (r"(package|conda)\[\]\..*", "package:{0}"),
        (r"library\[\]\..*", "library:{0}"),
        (r"worker\[\]\.library\[\]\..*", "library:{1}"),
        (r"nvidia\.module\[\]\..*parameter\[\]", "module:{0}:{1}"),
        (r"nvidia\.daemon\[\]\.running", "daemon:{0}"),
        (r"nvidia\.gpu\[\]\.model", "gpu:model"),
        (r"nvidia\..*|nvml\.(driver_version|version|cuda_driver_version)|gpu\[\]\.gsp_firmware_\w+", "driver"),
        (r"kernel\.(release|version|compiler|module_version\[\]|modules|preemption|taints)", "kernel"),
        (r"kernel\.parameter\[\]", "boot:{0}"),
        (r"os\.(?!hostname|machine_id).*|python\.(base_prefix|build|implementation|version)", "os"),
        (r"(record\[\]\.)?python\.version", "os"),
        (r"python\.(site|user)customize.*|python\.pth.*", "sitecustomize"),
        (r"cpu(\[\])?\.microcode|platform\.bios_.*", "firmware"),
        (r"cpu\.(vendor|model|model_number|family|stepping|flags|cache.*|sockets_count|base_mhz|hardware_.*)",
         "cpu:model"),
        (r"cpu\.vulnerability\[\]", "mitigations"),
        (r"cpu(\[\])?\.(governor|energy_preference|scaling_.*|turbo|max_performance_percent|\w*pstate_mode)",
         "cpu:clock"),
        (r"platform\.(vendor|product|board|serial)", "machine"),
        (r"during\.gpu\[\]\.pcie_.*|gpu\[\]\.pcie_.*|pci\[\]\.(target_)?link_.*", "pcie"),
        (r"gpu\[\]\.(max_pcie|gpu_max_pcie)_.*|pci\[\]\.max_link_.*|pci\[\]\.autonomous_speed_disabled", "pcie"),
        (r"during\.gpu\[\]\.(sm_clock|memory_clock|throttle|violation|temperature).*", "load:clocks"),
        (r"gpu\[\]\.((sm|memory|graphics|video)_clock_mhz|clocks_event_reasons|performance_state)", "load:clocks"),
        (r"during\.gpu\[\]\.foreign_processes", "load:foreign"),
        (r"during\.(worker\[\]\.(run_delay|involuntary).*|host\.cpu_(other|pressure).*)", "load:cpu"),
        (r"during\.(worker\[\]\.major_fault.*|host\.(io|memory)_pressure.*)", "load:memory"),
        (r"during\.host\.cpu_clock.*|cpu\.frequency_.*", "load:cpu_clock"),
        (r"gpu\[\]\.(application|default_application)_.*|gpu\[\]\.\w*_vf_offset_mhz|gpu\[\]\.auto_boost", "clocks_set"),
        (r"gpu\[\]\.((enforced|default|max|min)_)?power_limit_watts", "power_limit"),
        (r"gpu\[\]\.nvlink.*|nvml\.nvlink_bandwidth_mode", "nvlink"),
        (r"gpu\[\]\.fabric_.*", "fabric"),
        (r"gpu\[\]\.(name|architecture|compute_capability|pci_id|pci_subsystem_id|board_\w+|brand|core_count"
         r"|memory_total_bytes|memory_bus_width_bits|max_\w+_clock_mhz|vbios_version|inforom_\w+)", "gpu:model"),
        (r"gpu_pair\[\]\..*", "p2p"),
        (r"pci\[\]\.iommu_\w+", "pci:iommu"),
        (r"(inherited|worker\[\])\.cpus(_count)?|cgroup\.cpus", "affinity"),
        (r"(inherited|worker\[\]|cgroup)\.(memory_nodes|numa_policy)", "numa_binding"),
        (r"(inherited|worker\[\])\.(nice|scheduling_policy|realtime_priority)", "scheduling"),
        (r"cgroup\.cpu_.*", "cgroup:cpu"),
        (r"cgroup\.(memory|swap)_.*", "cgroup:memory"),
        (r"rdma\..*|rdma\[\]\..*", "rdma"),
        (r"cache\[\]\..*", "cache:{0}"),
        (r"model\[\]\..*", "model:{0}"),
        (r"storage\[\]\..*|disk\[\]\..*", "storage:{0}"),
        (r"record\[\]\.(package_origin|package_hash|module_elsewhere)\[\]", "package:{1}"),
    )
)  # fmt: skip

# Boot parameters, variables and arguments -> the bundle of what they set, where that has a reading of its own.
_SAME: dict[str, str] = {
    **dict.fromkeys(("boot:isolcpus", "boot:nohz_full", "boot:rcu_nocbs"), "boot:isolcpus"),
    **dict.fromkeys(("boot:mitigations", "boot:spectre_v2", "boot:nopti", "boot:pti", "boot:spec_store_bypass_disable",
                     "boot:retbleed", "boot:mds", "boot:l1tf"), "mitigations"),
    **dict.fromkeys(("boot:intel_idle.max_cstate", "boot:processor.max_cstate", "boot:idle"), "cpu:idle"),
    **dict.fromkeys(("boot:intel_pstate", "boot:amd_pstate", "boot:cpufreq.default_governor"), "cpu:clock"),
    "boot:transparent_hugepage": "huge_pages",
    "module:nvidia:EnableGpuFirmware": "driver:firmware",
    "env:PYTORCH_ALLOC_CONF": "env:PYTORCH_CUDA_ALLOC_CONF",
    "env:VLLM_ATTENTION_BACKEND": "argument:attention_config.backend",
    "env:CUBLAS_WORKSPACE_CONFIG": "torch:deterministic",
    "argument:log_requests_level": "argument:log_requests",
    **dict.fromkeys(("argument:speculative_num_steps", "argument:speculative_num_draft_tokens",
                     "argument:speculative_eagle_topk"), "argument:speculative_tree"),
    **dict.fromkeys(("argument:tp", "argument:tensor_parallel_size", "argument:parallel_config.tensor_parallel_size"),
                    "argument:tp_size"),
}  # fmt: skip

_LIMIT = re.compile(r"(?:limits|worker\[\])\.(\w+?)_(?:soft|hard)_\w+")
_GRAPH_ARGUMENT = re.compile(r"argument:(?:.*cuda_?graph(?!.*prefill).*|(?:.*\.)?enforce_eager)")

# Packages (regular expressions) -> the bundle that they belong to, whatever it is named after.
_PACKAGES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), home)
    for pattern, home in (
        (r"torch|torchvision|torchaudio|pytorch|libtorch|torch_c\w+", "package:torch"),
        (r"(pytorch-)?triton.*", "package:triton"),
        (r"sgl(ang)?-kernel.*", "package:sgl-kernel"),
        (r"flashinfer.*", "package:flashinfer"),
        (r"(nvidia-)?nccl[^_]*", "library:nccl"),
        (r"(nvidia-)?cudnn.*", "library:cudnn"),
        (r"(nvidia-|lib)?cublas.*", "library:cublas"),
        (r"(nvidia-)?nvshmem.*", "library:nvshmem"),
        (r"cuda_driver", "driver"),
        (r"nvidia-(?!ml-py|cutlass).*|cuda_runtime|nvrtc|cuda-.*|libcu.*", "library:cuda"),
    )
)  # fmt: skip


def home_of(change: Change) -> str:
    """The id of the bundle that a change belongs to, by its key alone."""
    home = _home(change)
    return _SAME.get(home, home)


def _home(change: Change) -> str:
    pattern, names = pattern_of(change.path), instances_of(change.path)
    if change.leaf.startswith("[--"):
        return _argument(change.leaf[3:-1])
    if limit := _LIMIT.fullmatch(pattern):
        return f"limits:{limit[1]}"
    if pattern == "kernel.module_version[]" and names[0].startswith("nvidia"):
        return "driver"
    for expression, home in _HOMES:
        if expression.fullmatch(pattern):
            filled = home.format(*names) if "{-1}" not in home else home.replace("{-1}", names[-1])
            return _argument(filled[9:]) if filled.startswith("argument:") else _package(filled)
    named = bool(change.key.pattern.endswith("[]"))
    return f"{pattern[:-2]}[{names[-1]}]" if named else pattern


def _argument(name: str) -> str:
    home = f"argument:{name}"
    return "argument:cuda_graph" if _GRAPH_ARGUMENT.fullmatch(home) else home


def _package(home: str) -> str:
    kind, _, name = home.partition(":")
    if kind not in ("package", "library"):
        return home
    stem = name.split("/")[0]
    return next((group for expression, group in _PACKAGES if expression.fullmatch(stem)), f"{kind}:{stem}")
