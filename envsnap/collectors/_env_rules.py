"""What is known about environment variables by name: kind, effects, prior, meaning.

One table for every place where variables stand (the calling process, each worker): the first rule whose pattern
matches a variable's name holds.
"""

from __future__ import annotations

from envsnap.keys import At, Effect, Kind

_COMM = (Effect.COMMUNICATION,)
_KERNELS = (Effect.COMPUTE, Effect.VERIFY, Effect.DRAFT, Effect.PREFILL)
_LAUNCH = (Effect.HOST_LAUNCH,)
_SPEC = (Effect.DRAFT, Effect.VERIFY, Effect.ACCEPTANCE)
_CODE = (Effect.HOST_LAUNCH, Effect.VERIFY, Effect.DRAFT, Effect.COMMUNICATION, Effect.COMPUTE)
_VALID = (Effect.VALIDITY,)
_LIBRARIES = (Effect.COMMUNICATION, Effect.COMPUTE, Effect.HOST_LAUNCH)


def _all(names: str, kind: Kind) -> tuple[At, ...]:
    return tuple(At(name, kind=kind, effects=(), prior=0.02) for name in names.split())


_LABELS = """
USER LOGNAME USERNAME HOME HOSTNAME HOST MAIL PWD OLDPWD SSH_* SUDO_* XAUTHORITY DISPLAY WAYLAND_DISPLAY KRB5CCNAME
SLURM_JOB_ID SLURM_JOBID SLURM_JOB_NAME SLURM_JOB_USER SLURM_JOB_UID SLURM_JOB_GID SLURM_JOB_GROUP SLURM_JOB_ACCOUNT
SLURM_JOB_NODELIST SLURM_NODELIST SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NODELIST SLURM_TASK_PID SLURM_NODE_ALIASES
SLURM_JOB_START_TIME SLURM_JOB_END_TIME SLURM_SUBMIT_* SLURM_LAUNCH_* SLURM_SRUN_* SLURM_TOPOLOGY_ADDR SLURMD_NODENAME
SLURM_CLUSTER_NAME SLURM_WORKING_DIR SLURM_GTIDS SLURM_STEP_LAUNCHER_PORT SLURM_STEP_RESV_PORTS
POD_NAME POD_UID POD_IP POD_NAMESPACE NODE_NAME NODE_IP HOST_IP *_SERVICE_HOST *_SERVICE_PORT* *_PORT_*_TCP*
PBS_JOBID LSB_JOBID JOB_ID RAY_JOB_ID RAY_NODE_ID
"""
_MOVING = """
_ SHLVL COLUMNS LINES TERM TERM_* COLORTERM LS_COLORS LESS* PS1 PS2 PROMPT_COMMAND HIST* WINDOWID WT_* ITERM_* STY
TMUX TMUX_* BYOBU_* VSCODE_* GPG_TTY GPG_AGENT_INFO EDITOR VISUAL PAGER GIT_ASKPASS GIT_EDITOR BROWSER
DBUS_* XDG_SESSION_* XDG_SEAT* XDG_VTNR XDG_RUNTIME_DIR INVOCATION_ID JOURNAL_STREAM SYSTEMD_EXEC_PID NOTIFY_SOCKET
MEMORY_PRESSURE_* LISTEN_* MANAGERPID MASTER_PORT SGLANG_RUN_ID PROMETHEUS_MULTIPROC_DIR TORCHELASTIC_RUN_ID PMIX_*
_TORCHINDUCTOR_PYOBJECT_*
PMI_*
OMPI_MCA_ess_* OMPI_MCA_orte_* OMPI_FILE_LOCATION PYTEST_CURRENT_TEST PYTEST_VERSION CONDA_PROMPT_MODIFIER
CONDA_SHLVL VIRTUAL_ENV_PROMPT _CE_* BASH_FUNC_* ENVSNAP_*
"""

ENV_AT: tuple[At, ...] = (
    *_all(_LABELS, Kind.LABEL),
    *_all(_MOVING, Kind.VOLATILE),
    # What makes a run no measurement at all.
    At("CUDA_LAUNCH_BLOCKING", effects=(*_VALID, *_LAUNCH), prior=0.95,
       meaning="Makes every kernel launch wait for its kernel: for debugging, a run with it measures nothing else.",
       advice="Unset it for any measurement."),
    At("SGLANG_SIMULATE_*", effects=(*_VALID, Effect.ACCEPTANCE), prior=0.95,
       meaning="Makes SGLang invent acceptance lengths or expert loads instead of computing them.",
       advice="Unset it: with it, the speed is not that of the model."),
    At("SGLANG_TEST_*", effects=_VALID, prior=0.7, meaning="A switch for SGLang's own tests."),
    At("SGLANG_IS_IN_CI", effects=_VALID, prior=0.6, meaning="Makes SGLang behave as in its own test runs."),
    At("SGLANG_DEBUG_*", effects=_VALID, prior=0.7, meaning="A debugging switch of SGLang."),
    At("SGLANG_INVARIANT_CHECK", effects=(*_VALID, *_LAUNCH), prior=0.7,
       meaning="Makes SGLang check itself while it runs."),
    At("SGLANG_ENABLE_ASYNC_ASSERT", effects=(*_VALID, *_LAUNCH), prior=0.7,
       meaning="Makes SGLang check itself on the GPU."),
    At("SGLANG_USE_BREAKABLE_CUDA_GRAPH", effects=(*_VALID, *_LAUNCH), prior=0.8,
       meaning="Runs CUDA graphs piece by piece."),
    At("TORCH_LOGS", effects=(*_VALID, *_LAUNCH), prior=0.5, meaning="What PyTorch logs; much of it is slow."),
    At("TORCH_SHOW_*", effects=_LAUNCH, prior=0.2),
    At("NCCL_DEBUG*", effects=(*_COMM, *_LAUNCH), prior=0.35,
       meaning="What NCCL logs; INFO and above cost time at start, TRACE always."),
    # Communication.
    At("NCCL_*", effects=_COMM, prior=0.8, meaning="A setting of NCCL, as this process was given it."),
    At("TORCH_NCCL_*", effects=_COMM, prior=0.6, meaning="A setting of PyTorch's use of NCCL."),
    At("SGLANG_*ALL_REDUCE*", effects=_COMM, prior=0.8, meaning="How SGLang chooses its all-reduce."),
    At("SGLANG_*ALLREDUCE*", effects=_COMM, prior=0.8, meaning="How SGLang chooses its all-reduce."),
    At("SGLANG_*SYMM_MEM*", effects=_COMM, prior=0.7, meaning="Whether SGLang communicates over symmetric memory."),
    At("SGLANG_SKIP_P2P_CHECK", effects=_COMM, prior=0.7,
       meaning="Makes SGLang trust that GPUs reach each other's memory."),
    At("SGLANG_NCCL_SO_PATH", effects=_COMM, prior=0.8, meaning="The NCCL library that SGLang loads for itself."),
    At("VLLM_NCCL_SO_PATH", effects=_COMM, prior=0.8, meaning="The NCCL library that vLLM loads for itself."),
    At("NVSHMEM_*", effects=_COMM, prior=0.6),
    At("MSCCLPP_*", effects=_COMM, prior=0.6),
    At("UCX_*", effects=_COMM, prior=0.5),
    At("FI_*", effects=_COMM, prior=0.4),
    At("MLX5_*", effects=_COMM, prior=0.4),
    At("RDMAV_*", effects=_COMM, prior=0.4),
    At("IBV_*", effects=_COMM, prior=0.4),
    At("MC_*", effects=_COMM, prior=0.3),
    At("GLOO_*", effects=_COMM, prior=0.3),
    At("TP_SOCKET_IFNAME", effects=_COMM, prior=0.3),
    At("MASTER_ADDR", effects=_COMM, prior=0.1),
    At("OMPI_MCA_*", effects=_COMM, prior=0.3),
    # Speculative decoding, graphs, kernels.
    At("SGLANG_*SPEC*", effects=_SPEC, prior=0.8, meaning="A setting of SGLang's speculative decoding."),
    At("SGLANG_*DRAFT*", effects=_SPEC, prior=0.8, meaning="A setting of SGLang's draft step."),
    At("SGLANG_*VERIFY*", effects=_SPEC, prior=0.8, meaning="A setting of SGLang's verify step."),
    At("SGLANG_*CUDA_GRAPH*", effects=(*_LAUNCH, Effect.VERIFY, Effect.DRAFT), prior=0.75,
       meaning="How SGLang uses CUDA graphs."),
    At("SGLANG_*NUMA*", effects=(*_LAUNCH, *_COMM), prior=0.6, meaning="How SGLang binds its processes to NUMA nodes."),
    At("SGLANG_*AFFINITY*", effects=_LAUNCH, prior=0.6, meaning="How SGLang binds its processes to CPUs."),
    At("SGLANG_*CACHE_DIR", effects=(*_KERNELS, Effect.STORAGE), prior=0.3,
       meaning="Where SGLang keeps compiled kernels."),
    At("SGLANG_LOG*", effects=_LAUNCH, prior=0.1),
    At("SGLANG_*", effects=_CODE, prior=0.6, meaning="A setting of SGLang."),
    At("SGL_*", effects=_CODE, prior=0.5, meaning="A deprecated name: SGLang copies it over SGLANG_… at import."),
    At("VLLM_ATTENTION_BACKEND", effects=_KERNELS, prior=0.8, meaning="vLLM's attention kernels."),
    At("VLLM_*", effects=_CODE, prior=0.6, meaning="A setting of vLLM."),
    At("TRTLLM_*", effects=_KERNELS, prior=0.5),
    At("TLLM_*", effects=_KERNELS, prior=0.5),
    At("LMCACHE_*", effects=(Effect.PREFILL, Effect.STORAGE), prior=0.4),
    At("FLASHINFER_*", effects=_KERNELS, prior=0.6, meaning="A setting of FlashInfer."),
    At("FLASH_ATTENTION_*", effects=_KERNELS, prior=0.5),
    At("TRITON_CACHE_DIR", effects=(*_KERNELS, Effect.STORAGE), prior=0.3,
       meaning="Where Triton keeps compiled kernels."),
    At("TRITON_*", effects=_KERNELS, prior=0.5, meaning="A setting of Triton."),
    At("DG_*", effects=_KERNELS, prior=0.4, meaning="A setting of DeepGEMM."),
    At("TILELANG_*", effects=_KERNELS, prior=0.3),
    At("CUTE_DSL_*", effects=_KERNELS, prior=0.3),
    At("TORCHINDUCTOR_*", effects=_KERNELS, prior=0.4),
    At("TORCHDYNAMO_*", effects=_KERNELS, prior=0.4),
    At("TORCH_CUDA_ARCH_LIST", effects=_KERNELS, prior=0.2),
    At("TORCH*", effects=(*_KERNELS, *_LAUNCH), prior=0.4, meaning="A setting of PyTorch."),
    At("PYTORCH_CUDA_ALLOC_CONF", effects=(Effect.MEMORY, *_LAUNCH), prior=0.5,
       meaning="How PyTorch allocates GPU memory."),
    At("PYTORCH_ALLOC_CONF", effects=(Effect.MEMORY, *_LAUNCH), prior=0.5, meaning="How PyTorch allocates memory."),
    At("PYTORCH_*", effects=(*_KERNELS, Effect.MEMORY), prior=0.4, meaning="A setting of PyTorch."),
    # CUDA.
    At("CUDA_VISIBLE_DEVICES", effects=(*_COMM, Effect.COMPUTE, *_LAUNCH), prior=0.6,
       meaning="The GPUs that the process may use, in this order; others have other links and other neighbours."),
    At("NVIDIA_VISIBLE_DEVICES", effects=(*_COMM, Effect.COMPUTE), prior=0.4,
       meaning="The GPUs that the container may use."),
    At("CUDA_DEVICE_ORDER", effects=(*_COMM, Effect.COMPUTE), prior=0.5,
       meaning="Whether GPUs are numbered by speed or by PCI bus."),
    At("CUDA_DEVICE_MAX_CONNECTIONS", effects=(*_LAUNCH, *_COMM), prior=0.5,
       meaning="Hardware queues per GPU; SGLang always overwrites it with 8, so that the worker's value counts."),
    At("CUDA_MODULE_LOADING", effects=_LAUNCH, prior=0.3,
       meaning="Whether kernels are loaded at start or at first use."),
    At("CUDA_MPS_*", effects=(Effect.COMPUTE, *_LAUNCH), prior=0.6, meaning="A setting of the Multi-Process Service."),
    At("CUDA_CACHE_*", effects=(*_LAUNCH, Effect.STORAGE), prior=0.3,
       meaning="Where and whether the driver keeps compiled kernels."),
    At("CUDA_HOME", effects=_KERNELS, prior=0.3, meaning="The CUDA toolkit that kernels are compiled with."),
    At("CUDA_PATH", effects=_KERNELS, prior=0.3, meaning="The CUDA toolkit that kernels are compiled with."),
    At("CUDA_*", effects=(Effect.COMPUTE, *_LAUNCH), prior=0.5, meaning="A setting of CUDA."),
    At("CUBLAS*", effects=(Effect.COMPUTE, Effect.MEMORY), prior=0.5),
    At("CUDNN_*", effects=_KERNELS, prior=0.4),
    At("NVIDIA_TF32_OVERRIDE", effects=_KERNELS, prior=0.6),
    At("NVIDIA_*", effects=(Effect.COMPUTE,), prior=0.1),
    # Host.
    At("LD_LIBRARY_PATH", effects=_LIBRARIES, prior=0.6,
       meaning="Where shared libraries are looked for before the system's own."),
    At("LD_PRELOAD", effects=(*_LIBRARIES, Effect.MEMORY), prior=0.6,
       meaning="Libraries loaded into every program, an allocator perhaps."),
    At("LD_*", effects=_LIBRARIES, prior=0.3),
    At("GLIBC_TUNABLES", effects=(*_LAUNCH, Effect.MEMORY), prior=0.4),
    At("MALLOC_*", effects=(*_LAUNCH, Effect.MEMORY), prior=0.3),
    At("OMP_*", effects=_LAUNCH, prior=0.5,
       meaning="A setting of OpenMP's threads; torchrun sets OMP_NUM_THREADS=1 by itself."),
    At("MKL_*", effects=_LAUNCH, prior=0.4),
    At("KMP_*", effects=_LAUNCH, prior=0.4),
    At("GOMP_*", effects=_LAUNCH, prior=0.4),
    At("OPENBLAS_*", effects=_LAUNCH, prior=0.3),
    At("NUMEXPR_*", effects=_LAUNCH, prior=0.1),
    At("TOKENIZERS_PARALLELISM", effects=(*_LAUNCH, Effect.WORKLOAD), prior=0.2),
    At("PYTHONPATH", effects=_CODE, prior=0.6, meaning="Where Python looks for modules first: which tree is imported."),
    At("PYTHONHASHSEED", effects=_LAUNCH, prior=0.05),
    At("PYTHON*", effects=_LAUNCH, prior=0.3, meaning="A setting of the Python interpreter."),
    At("VIRTUAL_ENV", effects=_CODE, prior=0.3, meaning="The virtual environment that is active."),
    At("CONDA_*", effects=_CODE, prior=0.2),
    At("PATH", effects=_CODE, prior=0.2, meaning="Where programs are looked for: which python runs."),
    # Model files, the client's way to the server, the rest.
    At("HF_*", effects=(Effect.STORAGE, Effect.WORKLOAD), prior=0.15),
    At("TRANSFORMERS_*", effects=(Effect.STORAGE, Effect.WORKLOAD), prior=0.15),
    At("TMPDIR", effects=(Effect.STORAGE,), prior=0.1),
    At("XDG_CACHE_HOME", effects=(Effect.STORAGE, *_KERNELS), prior=0.2,
       meaning="Where caches are, compiled kernels among them."),
    At("*_PROXY", effects=(Effect.WORKLOAD,), prior=0.2, meaning="A proxy; a benchmark's requests may go through it."),
    At("*_proxy", effects=(Effect.WORKLOAD,), prior=0.2, meaning="A proxy; a benchmark's requests may go through it."),
    At("SLURM_*", effects=_LAUNCH, prior=0.2, meaning="What Slurm says of the job: CPUs, binding, tasks."),
    At("LANG", effects=(), prior=0.01),
    At("LC_*", effects=(), prior=0.01),
    At("TZ", effects=(), prior=0.01),
)  # fmt: skip
