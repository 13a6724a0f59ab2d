"""The tables of slow values. The first entry that matches a name and knows its values holds.

Sources: NCCL's, CUDA's, PyTorch's and the engines' own documentation of these settings, and what public reports on
them have in common (peers' threads, kernel documentation for sysctl). Where a value is slow only under some
conditions it is not called severe.
"""

from __future__ import annotations

from envsnap.explain.harm import ANY, HARMLESS, HIGHER, LIMIT, LOWER, Harm, Needs

_ON = "1 true yes on"
_OFF = "0 false no off"
_RANKS, _HOSTS, _NVLINK, _SPECULATION = Needs.RANKS, Needs.HOSTS, Needs.NVLINK, Needs.SPECULATION
_LOAD = Needs.LOAD

_VARIABLES = (
    # What makes a run a debugging session.
    Harm("CUDA_LAUNCH_BLOCKING", _ON, "Every kernel launch waits for its kernel.", True),
    Harm("PYTORCH_NO_CUDA_MEMORY_CACHING", _ON, "Every allocation goes to the driver and synchronises.", True),
    Harm("TORCH_DISTRIBUTED_DEBUG", "detail", "Every collective is checked against the other ranks first.", True,
         _RANKS),
    Harm("TORCH_NCCL_BLOCKING_WAIT NCCL_BLOCKING_WAIT", _ON, "The host waits for every collective.", False, _RANKS),
    Harm("NCCL_DEBUG", "trace", "Every call is logged.", True, _RANKS),
    Harm("NCCL_DEBUG", HARMLESS, "Short of TRACE it logs at start alone."),
    Harm("VLLM_TRACE_FUNCTION PYTHONDEVMODE PYTHONTRACEMALLOC PYTHONASYNCIODEBUG", _ON,
         "Python checks or traces itself.",
         True),
    Harm("PYTHONMALLOC", "debug malloc_debug pymalloc_debug", "Python checks every allocation.", True),
    Harm("SGLANG_SIMULATE_* SGLANG_INVARIANT_CHECK SGLANG_ENABLE_ASYNC_ASSERT SGLANG_DEBUG_*", ANY,
         "A debugging switch was left on.", True),
    Harm("CUDA_COREDUMP_* CUDA_ENABLE_COREDUMP_ON_EXCEPTION", HARMLESS),
    # Names that speak of records, messages, downloads, time limits.
    Harm("*LOG* *TIMEOUT* *HEARTBEAT* *DUMP* *_STATS *USAGE* *TELEMETRY* DO_NOT_TRACK *TRACE_BUFFER* *ERROR_HANDLING* "
         "*STACKTRACES* *THREAD_NAME* NCCL_DEBUG_* NCCL_RAS_* NCCL_COMM_ID *_VERBOSE *_WARN* *RETRY* "
         "*MONITORING* *DESYNC* *AVOID_RECORD_STREAMS* PYTHONUNBUFFERED PYTHONFAULTHANDLER PYTHONDONTWRITEBYTECODE "
         "HF_* HUGGINGFACE_* TRANSFORMERS_* *_API_KEY *_COLOR* *PROGRESS_BAR* CUDA_CACHE_MAXSIZE MPLBACKEND PIP_* "
         "UV_* WANDB_*", HARMLESS, "It concerns messages, files or time limits, not the work of a step."),
    Harm("NCCL_CHECKS_DISABLE NCCL_CHECK_POINTERS NCCL_IGNORE_CPU_AFFINITY", HARMLESS),
    # NCCL between GPUs of a machine.
    Harm("NCCL_P2P_DISABLE", _ON, "All traffic between GPUs goes through host memory.", True, _RANKS),
    Harm("NCCL_P2P_LEVEL", "loc 0", "GPUs may not reach each other directly.", True, _RANKS),
    Harm("NCCL_P2P_LEVEL", "nvl pix pxb 1 2", "Pairs farther apart than this go through host memory.", False, _RANKS),
    Harm("NCCL_P2P_DIRECT_DISABLE NCCL_LEGACY_CUDA_REGISTER", _ON, "Transfers are staged.", False, _RANKS),
    Harm("NCCL_SHM_DISABLE", _ON, "Ranks that cannot reach each other directly talk over sockets.", True, _RANKS),
    Harm("NCCL_SHM_USE_CUDA_MEMCPY", _ON, "Shared memory is copied by copy engines.", False, _RANKS),
    Harm("NCCL_PROTO", "simple", "Small messages, as decoding has, wait for the protocol made for large ones.", True,
         _RANKS),
    Harm("NCCL_MAX_NCHANNELS NCCL_MAX_CTAS", LIMIT, "Less of the GPU takes part in a transfer.", False, _RANKS),
    Harm("NCCL_BUFFSIZE NCCL_P2P_NET_CHUNKSIZE NCCL_WORK_FIFO_BYTES NCCL_SET_STACK_SIZE NCCL_COMM_BLOCKING", HARMLESS,
         "It acts on larger messages than decoding has, or at start."),
    Harm("NCCL_PROFILER_PLUGIN", HARMLESS, "It watches, where it is one at all."),
    Harm("NCCL_NET_PLUGIN", "none", "The plug-in for the network is not loaded.", False, _HOSTS),
    Harm("NCCL_NVLS_ENABLE", "0", "The NVSwitch does not reduce.", False, _NVLINK),
    Harm("NCCL_CUMEM_ENABLE NCCL_CUMEM_HOST_ENABLE", "0", "Buffers are not registered for direct access.", False,
         _RANKS),
    Harm("NCCL_LAUNCH_MODE", "group parallel", "", False, _RANKS),
    Harm("NCCL_TOPO_FILE", "unset", "NCCL sees the topology as the system shows it.", False, _RANKS),
    # NCCL and others between machines.
    Harm("NCCL_IB_DISABLE", _ON, "RDMA is off: traffic goes over TCP.", True, _HOSTS),
    Harm("NCCL_NET", "socket", "Traffic between machines goes over TCP.", True, _HOSTS),
    Harm("NCCL_NET_GDR_LEVEL", "loc 0", "RDMA goes through host memory.", True, _HOSTS),
    Harm("NCCL_NET_GDR_READ", "0", "Sends go through host memory.", False, _HOSTS),
    Harm("NCCL_IB_QPS_PER_CONNECTION NCCL_NSOCKS_PERTHREAD NCCL_SOCKET_NTHREADS", LOWER, "Fewer connections share a "
         "link.", False, _HOSTS),
    Harm("NCCL_SOCKET_* NCCL_IB_* NCCL_NET* NCCL_DMABUF_* NCCL_MNNVL_* NCCL_CROSS_NIC "
         "NCCL_OOB_* NCCL_PXN_* NVSHMEM_* UCX_* FI_* MLX5_* RDMAV_* "
         "IBV_* OMPI_MCA_* GLOO_* TP_SOCKET_IFNAME MC_*", "", "It chooses how machines talk.", False, _HOSTS),
    # CUDA, PyTorch, host.
    Harm("PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF", "expandable_segments:true",
         "Memory in expandable segments cannot be shared with other ranks, so that custom all-reduce gives way "
         "to NCCL.",
         False, _RANKS),
    Harm("PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF", "backend:cudamallocasync", "Another allocator."),
    Harm("CUDA_DEVICE_MAX_CONNECTIONS", "1", "Independent kernels queue behind each other."),
    Harm("CUDA_FORCE_PTX_JIT CUDA_CACHE_DISABLE", _ON, "Kernels are compiled at run time, each time."),
    Harm("CUDA_MODULE_LOADING", HARMLESS, "It moves the loading of kernels, not their running."),
    Harm("CUBLAS_WORKSPACE_CONFIG", ANY, "Matrix products have to be deterministic."),
    Harm("NVIDIA_TF32_OVERRIDE", "0", "No TF32."),
    Harm("TORCH_LOGS TORCH_TRACE TORCHDYNAMO_VERBOSE", ANY, "Compilation is logged."),
    Harm("OMP_WAIT_POLICY KMP_BLOCKTIME", ANY, "Idle threads spin or sleep."),
    Harm("LD_PRELOAD", ANY, "A library is put before all others."),
    Harm("SLURM_* CONDA_* VIRTUAL_ENV CUDA_HOME CUDA_PATH TORCH_CUDA_ARCH_LIST MAX_JOBS NVCC_* CMAKE_* CC CXX",
         HARMLESS, "It acts when something is built or started."),
)  # fmt: skip

_ARGUMENTS = (
    Harm("--disable_cuda_graph --enforce_eager", _ON, "Every kernel of a step is launched by the host.", True),
    Harm("--disable_cuda_graph_padding", _ON, "Batch sizes between the captured ones run without a graph."),
    Harm("--*cuda_graph*max_bs --cuda_graph_bs --*cuda_graph*.bs --max_seq_len_to_capture --cudagraph_capture_sizes",
         LIMIT, "Larger batches run without a graph.", False, _LOAD),
    Harm("--enable_deterministic_inference", _ON, "Kernels and all-reduce have to be deterministic.", True),
    Harm("--*attention_backend", "torch_native torch_sdpa", "Attention without fused kernels.", True),
    Harm("--*attention_backend", "triton triton_attn", "Generic kernels in place of the GPU's own."),
    Harm("--sampling_backend", "pytorch", "Sampling in many small kernels."),
    Harm("--dtype", "float32 float", "Twice the bytes of every weight.", True),
    Harm("--model_impl", "transformers", "The reference implementation instead of the engine's.", True),
    Harm("--device", "cpu", "", True),
    Harm("--cpu_offload_gb", HIGHER, "Weights cross PCIe at every step.", True),
    Harm("--disable_custom_all_reduce", _ON, "All-reduce by NCCL, which is slower for small messages.", False, _RANKS),
    Harm("--enable_p2p_check --pre_warm_nccl", HARMLESS),
    Harm("--disable_overlap_schedule", _ON, "The GPU waits while the host prepares the next batch."),
    Harm("--async_scheduling", _OFF, "The GPU waits while the host prepares the next batch."),
    Harm("--max_running_requests --max_num_seqs --max_total_tokens", LIMIT, "Fewer requests run at once.", False,
         _LOAD),
    Harm("--mem_fraction_static --gpu_memory_utilization --num_gpu_blocks_override", LOWER, "Less room for the cache.",
         False, _LOAD),
    Harm("--speculative_algorithm --speculative_config", "unset none", "Nothing is speculated.", True),
    Harm("--speculative_draft_model*", "unset", "There is no draft model.", True),
    Harm("--speculative_*", "", "", False, _SPECULATION),
    Harm("--enable_memory_saver --enable_weights_cpu_backup --enable_torch_profiler --enable_profile* --enable_nan*",
         _ON, "It watches or saves memory at a cost."),
    Harm("--random_seed --seed --served_model_name --*parser --trust_remote_code --*log* --enable_metrics* --*timeout* "
         "--host --*port --download_dir --tokenizer_worker_num --show_time_cost --*_api_key --*_path_prefix "
         "--enable_request_id* --collect_tokens_histogram --bucket_* --gc_warning*", HARMLESS,
         "It does not act on the work of a step."),
    Harm("--skip_server_warmup --warmups", HARMLESS, "It acts on the first requests alone."),
)  # fmt: skip

_READINGS = (
    Harm("nccl.rank[].network", "socket", "Traffic between machines goes over TCP.", True, _HOSTS),
    Harm("nccl.rank[].transport[]", "shm", "Traffic between GPUs goes through host memory.", True, _RANKS),
    Harm("nccl.rank[].transport[]", "socket", "Traffic between GPUs goes over sockets.", True, _RANKS),
    Harm("nccl.rank[].all_direct_p2p nccl.rank[].gpu_direct_rdma", _OFF, "Traffic is staged in host memory.", True,
         _RANKS),
    Harm("nccl.rank[].channels[] nccl.rank[].algorithms[] nccl.rank[].protocols[]", LOWER,
         "NCCL has less to choose from.",
         False, _RANKS),
    Harm("gpu_pair[].p2p_read gpu_pair[].p2p_write gpu_pair[].p2p_nvlink gpu_pair[].p2p_pci", _OFF,
         "GPUs no longer reach each other directly.", True, _RANKS),
    Harm("gpu_pair[].topology", "system node phb sys hostbridge", "Traffic between GPUs crosses the CPU.", False,
         _RANKS),
    Harm("gpu[].nvlink_active_count gpu[].nvlink[].speed_mbps", LOWER, "Fewer or slower NVLinks.", True, _RANKS),
    Harm("gpu[].nvlink[].active", _OFF, "An NVLink is down.", True, _RANKS),
    Harm("gpu[].fabric_degraded_bandwidth gpu[].fabric_route_unhealthy", _ON, "The fabric is degraded.", True, _RANKS),
    Harm("nvml.nvlink_bandwidth_mode", "half min", "NVLinks are limited.", True, _RANKS),
    Harm("pci[].acs_enabled", "request_redirect completion_redirect",
         "Traffic between GPUs goes up to the CPU and back.",
         True, _RANKS),
    Harm("pci[].iommu_type", "dma dma-fq", "The IOMMU translates every transfer.", True),
    Harm("kernel.parameter[*iommu*]", "on force", "The IOMMU translates transfers."),
    Harm("kernel.parameter[iommu]", "unset", "The IOMMU may no longer let addresses through."),
    Harm("kernel.parameter[isolcpus] kernel.parameter[nohz_full]", ANY, "CPUs are withheld from ordinary scheduling.",
         True),
    Harm("kernel.parameter[mitigations]", "unset auto auto,nosmt", "Every system call pays for mitigations."),
    Harm("kernel.parameter[hugepages] kernel.parameter[init_on_alloc] kernel.parameter[pci]", HARMLESS,
         "It does not act on a running server's steps."),
    Harm("pci[].link_width_lanes gpu[].pcie_width_lanes pci[].link_speed_gts pci[].target_link_speed_gts "
         "gpu[].max_pcie_* pci[].max_link_*", LOWER, "The link carries less."),
    Harm("during.gpu[].pcie_speed_* during.gpu[].pcie_width_*", LOWER, "The link carries less under load.", True),
    Harm("pci[].max_payload_bytes pci[].max_read_request_bytes", LOWER, "PCIe packets are smaller."),
    Harm("pci[].extended_tags pci[].relaxed_ordering", _OFF, "Fewer PCIe transfers are under way at once."),
    Harm("rdma.peer_memory_loaded", _OFF, "RDMA goes through host memory.", True, _HOSTS),
    Harm("rdma.verbs_files_count rdma.devices_count rdma[].port[].rate_gbps rdma[].port[].width_lanes", LOWER,
         "Less RDMA, down to none.", True, _HOSTS),
    Harm("rdma* network*", "", "", False, _HOSTS),
    Harm("gpu[].application_*_clock_mhz gpu[].max_*_clock_mhz gpu[].max_customer_boost_* gpu[].*_vf_offset_mhz "
         "during.gpu[].sm_clock_* during.gpu[].memory_clock_*", LOWER, "The GPU's clock is lower."),
    Harm("gpu[].power_limit_watts gpu[].enforced_power_limit_watts", LOWER, "The GPU may draw less."),
    Harm("gpu[].ecc_mode gpu[].dram_encryption", _ON, "Memory bandwidth is spent on checks."),
    Harm("gpu[].mig_mode", "enabled 1 true", "The GPU is divided.", True),
    Harm("nvml.confidential_compute", _ON, "Transfers are encrypted.", True),
    Harm("nvidia.library_matches_module", _OFF, "Driver library and kernel module are of different versions.", True),
    Harm("nvidia.daemon[].running", _OFF, "A daemon of the driver has stopped."),
    Harm("during.gpu[].foreign_processes gpu[].process_names gpu_device[].holders", HIGHER, "Others use the GPU.",
         True),
    Harm("during.gpu[].throttle_percent[] during.gpu[].violation_seconds[] during.gpu[].pcie_replay_count "
         "during.gpu[].pcie_transition_count", HIGHER, "The GPU was held down, or its link was trained anew."),
    Harm("during.host.cpu_other* during.host.*_pressure* during.worker[].run_delay* during.worker[].involuntary* "
         "during.worker[].major_fault* load.process_cpu_percent[]", HIGHER, "The workers have to share the CPUs."),
    Harm("cpu.governor cpu[].governor", "powersave conservative", "CPUs are slow to speed up."),
    Harm("cpu.turbo", _OFF, "CPUs may not exceed their guaranteed frequency."),
    Harm("cpu.scaling_max_mhz cpu[].scaling_max_mhz cpu.max_performance_percent cpu.package[].power_limit_watts "
         "cpu.uncore[].max_mhz", LOWER, "CPUs are held down."),
    Harm("cpu.energy_preference cpu[].energy_preference", "power balance_power", "CPUs save energy."),
    Harm("cpu.isolated cpu.offline", ANY, "CPUs are withheld from ordinary scheduling."),
    Harm("cpu.idle_state[].enabled", _ON, "CPUs sleep more deeply, and take longer to wake."),
    Harm("kernel.clock_source", "hpet acpi_pm jiffies", "Every look at the clock leaves the CPU.", True),
    Harm("numa.balancing_mode", "1 2 3", "The kernel unmaps pages to see who uses them."),
    Harm("kernel.nmi_watchdog kernel.split_lock_mitigation", _ON, ""),
    Harm("inherited.cpus_count worker[].cpus_count cgroup.cpu_quota_cpus cpu.threads_count cpu.cores_count", LOWER,
         "Fewer CPUs for the workers."),
    Harm("cgroup.cpu_limited cgroup.memory_high_limited", _ON, "The container is limited.", True),
    Harm("cgroup.cpu_weight cgroup.cpu_shares", LOWER, "Others come first."),
    Harm("inherited.nice worker[].nice", HIGHER, "Others come first."),
    Harm("inherited.scheduling_policy worker[].scheduling_policy", "batch idle", "Others come first.", True),
    Harm("memory.shm_size_bytes", LOWER, "Ranks share memory there.", False, _RANKS),
    Harm("*memlock_soft_bytes *memlock_hard_bytes", LOWER, "Buffers cannot be pinned.", False, _HOSTS),
    Harm("memory.zone_reclaim_mode", HIGHER, "A node reclaims its own pages first."),
    Harm("memory.transparent_huge_pages", "never", "Memory in small pages."),
    Harm("memory.swap_total_bytes memory.swappiness memory.min_free_bytes memory.overcommit* memory.dirty*", HARMLESS,
         "It acts when memory runs out, or on writing."),
    Harm("storage[].medium", "network disk", "Files are farther away."),
    Harm("platform.virtualization", "kvm vmware hyperv xen qemu", "A hypervisor stands between.", True),
    Harm("gpu[].virtualization_mode", "vgpu passthrough", "A hypervisor stands between."),
    Harm("cache[].warm", _OFF, "Kernels are compiled or tuned within the first requests."),
    Harm("cache[].p2p_refused_count", HIGHER, "The engine holds pairs of GPUs for unable to reach each other.", True,
         _RANKS),
    Harm("library[].debug record[].torch.deterministic", _ON, "A debug or deterministic build.", True),
    Harm("server[].dp[].graph_batch_sizes record[].graph_batch_sizes[]", LOWER, "Larger batches run without a graph.",
         True),
    Harm("server[].dp[].graph_memory_bytes", "0", "No CUDA graph was captured.", True),
    Harm("server[].dp[].token_capacity_count server[].dp[].kv_cache_memory_bytes server[].dp[].max_running_*", LOWER,
         "Less room for the cache.", False, _LOAD),
    Harm("package[].violated_pins packages.broken package[].copies_count", ANY,
         "Installed versions do not fit together."),
)  # fmt: skip

HARMS = (*_VARIABLES, *_ARGUMENTS, *_READINGS)
