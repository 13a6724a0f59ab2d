"""Environment variables whose slow value is known."""

from __future__ import annotations

from envsnap.explain.harm import ANY, FEWER, HARMLESS, HIGHER, LIMIT, LOWER, Harm, Needs

_ON = "1 true yes on"
_OFF = "0 false no off"
_RANKS, _HOSTS, _NVLINK, _SPECULATION = Needs.RANKS, Needs.HOSTS, Needs.NVLINK, Needs.SPECULATION

_DEBUGGING = (
    # What makes a run a debugging session.
    Harm("CUDA_LAUNCH_BLOCKING", _ON, "Every kernel launch waits for its kernel.", True, makes=(1.2, 10)),
    Harm("PYTORCH_NO_CUDA_MEMORY_CACHING", _ON, "Every allocation goes to the driver and synchronises.", True,
         makes=(1.2, 20)),
    Harm("TORCH_DISTRIBUTED_DEBUG", "detail", "Every collective is checked against the other ranks first.", True,
         _RANKS, (1.1, 10)),
    Harm("TORCH_NCCL_BLOCKING_WAIT NCCL_BLOCKING_WAIT", _ON, "The host waits for every collective.", False, _RANKS,
         (1.02, 1.6)),
    Harm("TORCH_NCCL_NAN_CHECK", _ON, "Every buffer is read for NaN before it is sent.", False, _RANKS, (1.02, 1.5)),
    Harm("TORCH_NCCL_ENABLE_TIMING TORCH_NCCL_DESYNC_DEBUG TORCH_NCCL_CUDA_EVENT_CACHE", _ON,
         "Each collective is bracketed by events.", False, _RANKS, (1.0, 1.05)),
    Harm("NCCL_DEBUG", "trace", "Every call is logged.", True, _RANKS, (1.02, 3)),
    Harm("NCCL_DEBUG", HARMLESS, "Short of TRACE it logs at start alone."),
    Harm("NCCL_CHECK_MODE", "debug_local debug_global", "NCCL checks the arguments of every call.", False, _RANKS),
    Harm("VLLM_TRACE_FUNCTION", _ON, "Every call is written down.", True, makes=(1.5, 50)),
    Harm("PYTHONDEVMODE PYTHONTRACEMALLOC PYTHONASYNCIODEBUG PYTHONPROFILEIMPORTTIME", _ON,
         "Python checks or traces itself.", True, makes=(1.02, 3)),
    Harm("PYTHONMALLOC", "debug malloc_debug pymalloc_debug malloc", "Python checks every allocation.", True,
         makes=(1.02, 1.6)),
    Harm("SGLANG_SIMULATE_* SGLANG_INVARIANT_CHECK SGLANG_ENABLE_ASYNC_ASSERT SGLANG_DEBUG_* SGLANG_IS_IN_CI "
         "SGLANG_TEST_*", ANY, "A debugging switch was left on.", True),
    Harm("SGLANG_ENABLE_TORCH_INFERENCE_MODE", _OFF, "PyTorch keeps track of gradients' versions.", makes=(1.0, 1.1)),
    Harm("SGLANG_USE_BREAKABLE_CUDA_GRAPH", _ON, "CUDA graphs run piece by piece.", makes=(1.02, 2)),
    Harm("COMPUTE_SANITIZER_* CUDA_DEVICE_WAITS_ON_EXCEPTION CUDA_INJECTION64_PATH NSYS_* NVTX_INJECTION64_PATH", ANY,
         "A tool watches every call of CUDA.", True, makes=(1.02, 50)),
    Harm("LD_DEBUG MALLOC_CHECK_ MALLOC_PERTURB_", ANY, "The loader or the allocator checks itself.", True),
    Harm("TORCH_LOGS TORCH_TRACE TORCHDYNAMO_VERBOSE TORCH_COMPILE_DEBUG", ANY, "Compilation is logged.",
         makes=(1.0, 1.2)),
    Harm("TORCH_USE_CUDA_DSA CUDA_ENABLE_USER_TRIGGERED_COREDUMP", _ON, "Kernels check their assertions."),
    Harm("CUDA_COREDUMP_* CUDA_ENABLE_COREDUMP_ON_EXCEPTION", HARMLESS),
    Harm("HIP_LAUNCH_BLOCKING AMD_SERIALIZE_KERNEL", "1 2 3 true", "Every kernel waits for the one before.", True),
)  # fmt: skip

_MESSAGES = (
    # Names that speak of records, messages, downloads, time limits.
    Harm("*LOG* *TIMEOUT* *HEARTBEAT* *DUMP* *_STATS *USAGE* *TELEMETRY* DO_NOT_TRACK *TRACE_BUFFER* *ERROR_HANDLING* "
         "*STACKTRACES* *THREAD_NAME* NCCL_DEBUG_* NCCL_RAS_* NCCL_COMM_ID *_VERBOSE *_WARN* *RETRY* "
         "*MONITORING* *AVOID_RECORD_STREAMS* *FR_BUFFER* PYTHONUNBUFFERED PYTHONFAULTHANDLER PYTHONDONTWRITEBYTECODE "
         "HF_* HUGGINGFACE_* TRANSFORMERS_* *_API_KEY *_COLOR* *PROGRESS_BAR* CUDA_CACHE_MAXSIZE MPLBACKEND PIP_* "
         "UV_* WANDB_* *VERSION_CHECK* *_PORT *MODELSCOPE* *HEALTH_CHECK* *_INTERVAL *DISK_CACHE* PYTHONHASHSEED "
         "*MULTIPROC_METHOD *ALLOW_LONG*", HARMLESS,
         "It concerns messages, files or time limits, not the work of a step."),
    Harm("NCCL_CHECKS_DISABLE NCCL_CHECK_POINTERS NCCL_IGNORE_DISABLED_P2P NCCL_NVTX_DISABLE "
         "NCCL_COMM_SPLIT_SHARE_RESOURCES NCCL_UID_STAGGER_*", HARMLESS),
    Harm("SLURM_* CONDA_* VIRTUAL_ENV CUDA_HOME CUDA_PATH CUDA_VERSION TORCH_CUDA_ARCH_LIST MAX_JOBS NVCC_* CMAKE_* CC "
         "CXX *COMPILE_THREADS *COMPILE_WORKERS *PTXAS* *CUOBJDUMP* *NVDISASM* *_LOADER_* *LOAD_WORKERS *IO_WORKERS "
         "NCCL_VERSION CUDNN_VERSION NV_* NVIDIA_REQUIRE* NVIDIA_DRIVER_CAPABILITIES", HARMLESS,
         "It acts when something is built or started."),
)  # fmt: skip

_BETWEEN_GPUS = (
    Harm("NCCL_P2P_DISABLE", _ON, "All traffic between GPUs goes through host memory.", True, _RANKS, (1.03, 5)),
    Harm("NCCL_P2P_LEVEL", "loc 0", "GPUs may not reach each other directly.", True, _RANKS, (1.03, 5)),
    Harm("NCCL_P2P_LEVEL", "* unset > pix pxb phb 1 2 3 > nvl", "Pairs farther apart go through host memory.", False,
         _RANKS, (1.0, 2), depends=True),
    Harm("NCCL_P2P_DIRECT_DISABLE NCCL_LEGACY_CUDA_REGISTER", _ON, "Transfers are staged.", False, _RANKS, (1.0, 1.5)),
    Harm("NCCL_P2P_USE_CUDA_MEMCPY NCCL_SHM_USE_CUDA_MEMCPY", _ON, "Copy engines move small messages.", False, _RANKS,
         (1.0, 2)),
    Harm("NCCL_SHM_DISABLE", _ON, "Ranks that cannot reach each other directly talk over sockets.", True, _RANKS,
         (1.05, 10)),
    Harm("NCCL_PROTO", "unset ll128 ll *,* > simple", "Small messages, as decoding has, wait for the protocol made for "
         "large ones.", True, _RANKS, (1.02, 2.5), depends=True),
    Harm("NCCL_ALGO", "unset tree *,* *nvls* > ring > collnet*", "A ring takes a step for every rank.", False, _RANKS,
         (1.0, 2), depends=True),
    Harm("NCCL_MAX_NCHANNELS NCCL_MAX_CTAS", LIMIT, "Less of the GPU takes part in a transfer.", False, _RANKS,
         (1.0, 1.8)),
    Harm("NCCL_MIN_NCHANNELS NCCL_MIN_CTAS NCCL_NCHANNELS_PER_NET_PEER NCCL_NTHREADS", "", "", False, _RANKS,
         (1.0, 1.3)),
    Harm("NCCL_MAX_P2P_NCHANNELS NCCL_MIN_P2P_NCHANNELS", LIMIT, "It acts on exchanges of pairs.", False, _RANKS,
         (1.0, 1.3)),
    Harm("NCCL_BUFFSIZE NCCL_*CHUNKSIZE NCCL_WORK_FIFO_* NCCL_SET_STACK_SIZE NCCL_COMM_BLOCKING NCCL_*_THRESHOLD",
         HARMLESS, "It acts on larger messages than decoding has, or at start."),
    Harm("NCCL_PROFILER_PLUGIN", HARMLESS, "It watches, where it is one at all."),
    Harm("NCCL_TUNER_PLUGIN NCCL_TUNER_CONFIG_FILE", "* > unset none", "NCCL chooses without the tuner.", False, _RANKS,
         (1.0, 1.4), depends=True),
    Harm("NCCL_NET_PLUGIN", "none", "The plug-in for the network is not loaded.", True, _HOSTS, (1.05, 10)),
    Harm("NCCL_NVLS_ENABLE", "unset 1 2 > 0", "The NVSwitch does not reduce.", False, _NVLINK, (1.0, 1.5),
         depends=True),
    Harm("NCCL_CUMEM_ENABLE", "0", "Buffers are not registered for direct access.", False, _RANKS, (1.0, 1.12)),
    Harm("NCCL_CUMEM_HOST_ENABLE", HARMLESS, "It moves the buffers in host memory to another allocator."),
    Harm("NCCL_GRAPH_MIXING_SUPPORT", HARMLESS),
    Harm("NCCL_GRAPH_REGISTER", "0", "Buffers within CUDA graphs are not registered.", False, _RANKS, (1.0, 1.08)),
    Harm("NCCL_LAUNCH_MODE", "group", "Ranks of one process launch together.", False, _RANKS, (1.0, 1.2)),
    Harm("NCCL_TOPO_FILE NCCL_GRAPH_FILE", "* > unset", "NCCL sees the topology as the system shows it.", False, _RANKS,
         (1.0, 3), depends=True),
    Harm("NCCL_NVB_DISABLE NCCL_L1_SHARED_MEMORY_CARVEOUT NCCL_CGA_CLUSTER_SIZE NCCL_PAT_ENABLE", "", "", False, _RANKS,
         (1.0, 1.2)),
    Harm("SGLANG_*ALL_REDUCE* SGLANG_*ALLREDUCE* VLLM_*ALLREDUCE* VLLM_ALLREDUCE*", _OFF,
         "All-reduce takes the way that is slower for small messages.", False, _RANKS, (1.0, 1.5)),
    Harm("VLLM_SKIP_P2P_CHECK SGLANG_SKIP_P2P_CHECK", "", "", False, _RANKS),
    Harm("VLLM_DISABLE_PYNCCL", _ON, "Collectives go through PyTorch, outside of CUDA graphs.", False, _RANKS,
         (1.02, 2)),
)  # fmt: skip

_BETWEEN_MACHINES = (
    Harm("NCCL_IB_DISABLE", _ON, "RDMA is off: traffic goes over TCP.", True, _HOSTS, (1.1, 30)),
    Harm("NCCL_NET", "socket", "Traffic between machines goes over TCP.", True, _HOSTS, (1.1, 30)),
    Harm("NCCL_NET_GDR_LEVEL NCCL_IB_GDR_LEVEL", "loc 0", "RDMA goes through host memory.", True, _HOSTS, (1.02, 4)),
    Harm("NCCL_NET_GDR_LEVEL", "pix pxb unset > phb > sys", "RDMA crosses the CPU to reach the GPU.", False, _HOSTS,
         (1.0, 4)),
    Harm("NCCL_NET_GDR_READ", "0", "Sends go through host memory.", False, _HOSTS, (1.0, 2)),
    Harm("NCCL_IB_HCA", FEWER, "Fewer adapters carry the traffic.", False, _HOSTS, (1.0, 8)),
    Harm("NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME", "ib* hsn* rdma* mlx* bond* > eth* en* > docker* lo "
         "virbr*", "Another, slower interface.", False, _HOSTS, (1.0, 10)),
    Harm("NCCL_IB_GID_INDEX", ANY, "An index that fits one machine may be another's address of another kind.", False,
         _HOSTS),
    Harm("NCCL_IB_QPS_PER_CONNECTION NCCL_NSOCKS_PERTHREAD NCCL_SOCKET_NTHREADS", LOWER, "Fewer connections share a "
         "link.", False, _HOSTS, (1.0, 1.6)),
    Harm("NCCL_IB_PCI_RELAXED_ORDERING", "0", "Writes over PCIe wait for each other.", False, _HOSTS, (1.0, 3)),
    Harm("NCCL_IB_ADAPTIVE_ROUTING NCCL_DMABUF_ENABLE NCCL_IB_MERGE_NICS", _OFF, "", False, _HOSTS, (1.0, 2)),
    Harm("NCCL_PXN_DISABLE NCCL_COLLNET_DISABLE", _ON, "Traffic crosses the CPU to reach another rail.", False, _HOSTS,
         (1.0, 2)),
    Harm("NCCL_CROSS_NIC", "2 1 > 0", "", False, _HOSTS, (1.0, 1.3)),
    Harm("UCX_TLS", "tcp", "Transfers go over TCP.", True, _HOSTS, (1.1, 20)),
    Harm("FI_PROVIDER", "tcp sockets", "Transfers go over TCP.", True, _HOSTS, (1.1, 20)),
    Harm("NVSHMEM_REMOTE_TRANSPORT NVSHMEM_DISABLE_P2P NVSHMEM_IBGDA_SUPPORT NVSHMEM_IB_ENABLE_IBGDA", _OFF,
         "The host passes on what GPUs send.", False, _HOSTS, (1.0, 3)),
    Harm("NVSHMEM_*_THREADS NVSHMEM_QP_DEPTH NVSHMEM_SYMMETRIC_SIZE NVSHMEM_BOOTSTRAP*", HARMLESS),
    Harm("NCCL_SOCKET_* NCCL_IB_* NCCL_NET* NCCL_DMABUF_* NCCL_MNNVL_* NCCL_CROSS_NIC "
         "NCCL_OOB_* NCCL_PXN_* NVSHMEM_* UCX_* FI_* MLX5_* RDMAV_* "
         "IBV_* OMPI_MCA_* GLOO_* TP_SOCKET_IFNAME MC_* MOONCAKE_*", "", "It chooses how machines talk.", False,
         _HOSTS),
)  # fmt: skip

_CUDA_AND_TORCH = (
    Harm("PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF", "expandable_segments:true",
         "Memory in expandable segments cannot be shared with other ranks, so that custom all-reduce gives way "
         "to NCCL.",
         False, _RANKS, (1.0, 1.4)),
    Harm("PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF", "backend:cudamallocasync", "Another allocator.",
         makes=(1.0, 1.2)),
    Harm("PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF", "max_split_size_mb:* garbage_collection_threshold:*", "",
         makes=(1.0, 1.1)),
    Harm("CUDA_DEVICE_MAX_CONNECTIONS", "1", "Independent kernels queue behind each other.", makes=(1.0, 1.4)),
    Harm("CUDA_FORCE_PTX_JIT CUDA_CACHE_DISABLE CUDA_FORCE_JIT", _ON, "Kernels are compiled at run time, each time.",
         True, makes=(1.0, 50)),
    Harm("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", LIMIT, "The process may use a part of the GPU.", True, makes=(1.05, 20)),
    Harm("CUDA_SCALE_LAUNCH_QUEUES CUDA_DEVICE_MAX_COPY_CONNECTIONS", LOWER, "Launches wait for a place in the queue.",
         makes=(1.0, 1.3)),
    Harm("CUDA_MODULE_LOADING CUDA_MODULE_DATA_LOADING", HARMLESS, "It moves the loading of kernels, not their "
         "running."),
    Harm("CUDA_DEVICE_ORDER", HARMLESS, "GPUs of one kind are the same in either order."),
    Harm("CUBLAS_WORKSPACE_CONFIG", ANY, "Matrix products have to be deterministic.", makes=(1.0, 1.3)),
    Harm("CUBLASLT_WORKSPACE_SIZE", LIMIT, "Matrix products have less room to split.", makes=(1.0, 1.3)),
    Harm("NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "0", "No TF32.", makes=(1.0, 8)),
    Harm("TORCH_COMPILE_DISABLE TORCHDYNAMO_DISABLE PYTORCH_JIT_DISABLE TORCH_DISABLE_DYNAMO", _ON,
         "Nothing is compiled or fused.", True, makes=(1.02, 3)),
    Harm("TORCHINDUCTOR_MAX_AUTOTUNE* TORCHINDUCTOR_COORDINATE_DESCENT_TUNING TORCHINDUCTOR_FREEZING", "1 > unset 0",
         "Compiled kernels are not tuned.", makes=(1.0, 1.3)),
    Harm("TORCHINDUCTOR_FORCE_DISABLE_CACHES TRITON_ALWAYS_COMPILE", _ON, "Kernels are compiled at each start.",
         makes=(1.0, 50)),
    Harm("TRITON_INTERPRET", _ON, "Kernels are interpreted.", True, makes=(3, 1000)),
    Harm("TORCH_BLAS_PREFER_CUBLASLT TORCH_CUDNN_V8_API_DISABLED TORCH_NCCL_HIGH_PRIORITY", "", "", makes=(1.0, 1.2)),
    Harm("FLASHINFER_DISABLE_JIT FLASHINFER_JIT_VERBOSE FLASHINFER_WORKSPACE_BASE FLASHINFER_CUBIN_DIR", HARMLESS),
    Harm("*CACHE_DIR *CACHE_ROOT *CACHE_PATH *FX_GRAPH_CACHE *CUBIN_DIR", HARMLESS,
         "It says where compiled kernels are kept."),
)  # fmt: skip

_ENGINES = (
    Harm("SGLANG_SET_CPU_AFFINITY SGLANG_AUTO_NUMA_BIND SGLANG_NUMA_BIND_V2", "1 true > unset 0 false",
         "The scheduler moves from CPU to CPU.", makes=(1.0, 1.25)),
    Harm("SGLANG_ENABLE_JIT_DEEPGEMM SGL_ENABLE_JIT_DEEPGEMM VLLM_USE_DEEP_GEMM", _OFF,
         "Products in FP8 take more general kernels.", makes=(1.0, 1.6)),
    Harm("VLLM_USE_V1", _OFF, "The old engine runs, which prepares each step after the last.", makes=(1.05, 3)),
    Harm("VLLM_ENABLE_V1_MULTIPROCESSING", _OFF, "Scheduling shares a process with the front end.", makes=(1.0, 1.4)),
    Harm("VLLM_USE_FLASHINFER_SAMPLER VLLM_USE_TRITON_FLASH_ATTN VLLM_USE_TRTLLM_ATTENTION VLLM_USE_FLASHINFER_MOE_*",
         _OFF, "More general kernels take its place.", makes=(1.0, 1.4)),
    Harm("VLLM_ATTENTION_BACKEND", "unset *flash_attn* *fa3* cutlass_mla flashmla > flashinfer* > triton* *triton* > "
         "xformers torch_sdpa flex_attention rocm_flash", "Attention by more general kernels.", makes=(1.0, 4),
         depends=True),
    Harm("VLLM_DISABLE_COMPILE_CACHE", _ON, "It compiles anew at each start.", makes=(1.0, 1.02)),
    Harm("VLLM_USE_AOT_COMPILE VLLM_USE_STANDALONE_COMPILE", HARMLESS, "It acts at start."),
    Harm("VLLM_USE_BREAKABLE_CUDAGRAPH", "unset * > 0 false", "Prefill runs without its graph.", makes=(1.0, 3)),
    Harm("VLLM_FLASH_ATTN_VERSION", LOWER, "An older generation of attention kernels.", makes=(1.0, 2)),
    Harm("VLLM_BATCH_INVARIANT SGLANG_ENABLE_DETERMINISTIC_INFERENCE", _ON, "Kernels have to be deterministic.", True,
         makes=(1.05, 3)),
    Harm("VLLM_CPU_KVCACHE_SPACE VLLM_MM_INPUT_CACHE_GIB", LOWER, "Less room for a cache.", makes=(1.0, 2)),
    Harm("SGLANG_DISABLE_*CACHE* SGLANG_MOE_CONFIG_DIR VLLM_TUNED_CONFIG_FOLDER", "* > unset",
         "Kernels run with settings that were tuned for no machine.", makes=(1.0, 1.4)),
    Harm("*ENABLE_PDL", _OFF, "A kernel does not begin before the last one has ended.", makes=(1.0, 1.15)),
)  # fmt: skip

_HOST = (
    Harm("OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS", "unset",
         "As many threads as CPUs in every rank, which then share them.", makes=(1.0, 4), needs=_RANKS,
         depends=True),
    Harm("OMP_NUM_THREADS", "1", "What the host computes, it computes on one CPU.", makes=(1.0, 1.6), depends=True),
    Harm("OMP_NUM_THREADS", "", "", makes=(1.0, 4)),
    Harm("MKL_NUM_THREADS OPENBLAS_NUM_THREADS", "", "", makes=(1.0, 1.15)),
    Harm("OMP_WAIT_POLICY KMP_BLOCKTIME", "", "Idle threads spin or sleep.", makes=(1.0, 1.5)),
    Harm("OMP_PROC_BIND KMP_AFFINITY GOMP_CPU_AFFINITY OMP_PLACES", "", "Threads are bound to CPUs.", makes=(1.0, 2)),
    Harm("NCCL_IGNORE_CPU_AFFINITY", "", "NCCL's threads go where the topology says, or where the process may run.",
         False, _RANKS, (1.0, 2)),
    Harm("LD_PRELOAD", "*jemalloc* *tcmalloc* *mimalloc* > unset *", "Memory comes from the slower allocator.",
         makes=(1.0, 1.4)),
    Harm("LD_PRELOAD", ANY, "A library is put before all others.", makes=(1.0, 5)),
    Harm("MALLOC_ARENA_MAX MALLOC_TRIM_THRESHOLD_ MALLOC_MMAP_*", "", "", makes=(1.0, 1.15)),
    Harm("PYTHONOPTIMIZE PYTHONGIL PYTHON_GIL PYTHON_JIT", "", "", makes=(1.0, 1.2)),
    Harm("TOKENIZERS_PARALLELISM", "", "It acts on the tokenizer alone.", makes=(1.0, 1.3)),
    Harm("CUDA_VISIBLE_DEVICES", FEWER, "Fewer GPUs.", makes=(1.0, 8)),
    Harm("SGLANG_QUEUED_* SGLANG_REQ_* *_CHUNK_SIZE *PREFIX_CACHE_THRESHOLD", "", "", makes=(1.0, 1.3)),
    Harm("MALLOC_CONF GLIBC_TUNABLES", "", "", makes=(1.0, 1.3)),
    Harm("PYTHON_CPU_COUNT", LOWER, "Python starts fewer threads.", makes=(1.0, 1.2)),
    Harm("SGLANG_NUM_CONTINUOUS_DECODE_STEPS", HIGHER, "", makes=(1.0, 1.3)),
)  # fmt: skip

VARIABLES = (
    *_DEBUGGING, *_ENGINES, *_MESSAGES, *_BETWEEN_GPUS, *_BETWEEN_MACHINES, *_CUDA_AND_TORCH, *_HOST,
)  # fmt: skip
