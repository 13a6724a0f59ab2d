"""What a setting that is not set stands for: documented defaults, so that `unset` and that value are one in effect.

Sources: NCCL's list of environment variables, the CUDA programming guide, the documentation of PyTorch, Triton and
OpenMP, the engines' own registries of variables and their `--help`. A default is listed where it is the same over the
releases in use and on every machine; one that the library chooses by size, topology or release is not, and neither is a
variable that acts by being set at all, whatever its value.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.change import Change
from envsnap.explain.harm import name_of
from envsnap.explain.harm_values import number
from envsnap.explain.story import Facts
from envsnap.keys import path_of
from envsnap.known_names import OFF, ON
from envsnap.reading import Json, Unset, Value

_OFF_BY_DEFAULT = """
NCCL_IB_DISABLE NCCL_P2P_DISABLE NCCL_P2P_DIRECT_DISABLE NCCL_SHM_DISABLE NCCL_NVB_DISABLE NCCL_PXN_DISABLE
NCCL_CHECKS_DISABLE NCCL_COLLNET_ENABLE NCCL_IGNORE_CPU_AFFINITY NCCL_SET_STACK_SIZE NCCL_SET_THREAD_NAME
NCCL_P2P_USE_CUDA_MEMCPY NCCL_SHM_USE_CUDA_MEMCPY NCCL_IB_USE_INLINE
CUDA_LAUNCH_BLOCKING CUDA_CACHE_DISABLE CUDA_FORCE_PTX_JIT CUDA_DISABLE_PTX_JIT
TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_ENABLE_TIMING TORCH_DISTRIBUTED_DEBUG TORCH_COMPILE_DISABLE TORCHDYNAMO_DISABLE
TORCHINDUCTOR_MAX_AUTOTUNE TORCHINDUCTOR_FREEZING TORCHINDUCTOR_COORDINATE_DESCENT_TUNING
TRITON_INTERPRET TRITON_ALWAYS_COMPILE OMP_PROC_BIND OMP_DYNAMIC
SGLANG_SET_CPU_AFFINITY SGLANG_ENABLE_TORCH_INFERENCE_MODE SGLANG_ENABLE_DETERMINISTIC_INFERENCE SGLANG_USE_MODELSCOPE
SGLANG_IS_IN_CI
VLLM_TRACE_FUNCTION VLLM_BATCH_INVARIANT VLLM_DISABLE_PYNCCL VLLM_DISABLE_COMPILE_CACHE VLLM_USE_MODELSCOPE
--disable_cuda_graph --enforce_eager --disable_radix_cache --disable_overlap_schedule --disable_custom_all_reduce
--disable_cuda_graph_padding --enable_torch_compile --enable_mixed_chunk --enable_dp_attention --enable_nan_detection
--enable_deterministic_inference --enable_two_batch_overlap --enable_metrics --enable_lora --enable_p2p_check
--enable_mscclpp --enable_symm_mem --enable_nccl_nvls --log_requests --trust_remote_code --skip_server_warmup
"""

_DEFAULTS: dict[str, str] = {
    "NCCL_BUFFSIZE": "4194304",
    "NCCL_CROSS_NIC": "2",
    "NCCL_DMABUF_ENABLE": "1",
    "NCCL_GRAPH_MIXING_SUPPORT": "1",
    "NCCL_IB_AR_THRESHOLD": "8192",
    "NCCL_IB_MERGE_NICS": "1",
    "NCCL_IB_PCI_RELAXED_ORDERING": "2",
    "NCCL_IB_QPS_PER_CONNECTION": "1",
    "NCCL_IB_RETRY_CNT": "7",
    "NCCL_LAUNCH_MODE": "parallel",
    "NCCL_MNNVL_ENABLE": "2",
    "NCCL_P2P_PXN_LEVEL": "2",
    "NCCL_RAS_ENABLE": "1",
    "NCCL_WORK_FIFO_BYTES": "1048576",
    "CUDA_DEVICE_MAX_CONNECTIONS": "8",
    "CUDA_DEVICE_ORDER": "fastest_first",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100",
    "PYTHONHASHSEED": "random",
    "SGLANG_ENABLE_JIT_DEEPGEMM": "true",
    "SGLANG_SIMULATE_ACC_LEN": "-1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
    "VLLM_LOGGING_LEVEL": "info",
    "VLLM_USE_V1": "1",
    "--decode_log_interval": "40",
    "--deepep_mode": "auto",
    "--dp_size": "1",
    "--dtype": "auto",
    "--ep_size": "1",
    "--kv_cache_dtype": "auto",
    "--load_format": "auto",
    "--moe_a2a_backend": "none",
    "--moe_runner_backend": "auto",
    "--nnodes": "1",
    "--num_continuous_decode_steps": "1",
    "--pipeline_parallel_size": "1",
    "--pp_size": "1",
    "--sampling_defaults": "model",
    "--schedule_conservativeness": "1.0",
    "--schedule_policy": "fcfs",
    "--stream_interval": "1",
    "--tp_size": "1",
    "--watchdog_timeout": "300",
}  # fmt: skip
_DEFAULTS |= dict.fromkeys(_OFF_BY_DEFAULT.split(), "0")


def default_of(name: str) -> str | None:
    """The value that an unset variable (`NCCL_CROSS_NIC`) or argument (`--dtype`) stands for; None where not known."""
    return _DEFAULTS.get(name)


def stands_for_default(change: Change, sides: Iterable[Facts]) -> bool:
    """Whether one side of a change is unset and the other has what that stands for.

    Not where a configuration file of the library has a value of its own for it, which then stands in for one unset.
    """
    default = default_of(name_of(change))
    values = [reading.value for reading in (change.before, change.after) if isinstance(reading, Value)]
    if default is None or len(values) != 1 or not any(isinstance(r, Unset) for r in (change.before, change.after)):
        return False
    return _same(values[0], default) and not any(_in_a_file(facts, name_of(change)) for facts in sides)


def _same(value: Json, default: str) -> bool:
    text = str(value).strip().lower()
    if default == "0":
        return text in OFF
    if default in ("1", "true"):
        return text in ON
    figure = number(Value(value))
    return text == default or (figure is not None and figure == number(Value(default)))


def _in_a_file(facts: Facts, name: str) -> bool:
    # NOTE: two files are read, the system's and the user's.
    return any(facts.get(path_of("nccl.conf[].set[]", where, name)) is not None for where in ("system", "user"))
