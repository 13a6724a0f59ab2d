"""What an engine's arguments mean for speed, wherever they are read: from a running server, from a worker's record."""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.keys import At, Effect, Kind
from envsnap.reading import Json

PRIOR = 0.15
"""Of an argument that no rule names."""

MAX_ARGUMENTS = 4096
_MAX_NAME = 128

_DECODE = (Effect.VERIFY, Effect.DRAFT)
_LAUNCH = (Effect.HOST_LAUNCH, *_DECODE)
_WEIGHTS = (Effect.COMPUTE, Effect.MEMORY, Effect.ACCEPTANCE)


def _rules(names: str, effects: tuple[Effect, ...], prior: float, kind: Kind | None = None) -> tuple[At, ...]:
    # NOTE: vLLM groups the same names: `scheduler_config.max_num_seqs`.
    grouped = ((name, f"*_config.{name}") if not name.startswith("*") else (name,) for name in names.split())
    return tuple(At(name, kind, effects, prior) for pair in grouped for name in pair)


# The first rule that matches an argument's name holds for it. SGLang's names, and vLLM's where they are the same.
RULES = (
    *_rules("random_seed", (Effect.ACCEPTANCE,), 0.05, Kind.VOLATILE),
    *_rules("host port *_port base_gpu_id *_ipc_name *_worker_id node_rank dist_init_addr *_addr", (), 0.02,
            Kind.LABEL),
    *_rules("api_key admin_api_key ssl_* *password* fastapi_root_path served_model_name chat_template", (), 0.02),
    *_rules("decode_log_interval log_requests log_requests_level enable_metrics* enable_trace *nvtx* *dump* "
            "enable_profile* show_time_cost enable_mfu_metrics *_trace_* debug_*", (Effect.HOST_LAUNCH,), 0.3),
    *_rules("log_* *_log_* crash_* *_timeout *_folder *_path_prefix", (), 0.02),
    *_rules("model_path tokenizer_path revision json_model_override_args load_format model_impl",
            (Effect.WORKLOAD, Effect.ACCEPTANCE), 0.6),
    *_rules("generation_config sampling_defaults preferred_sampling_params override_generation_config",
            (Effect.HOST_LAUNCH, Effect.ACCEPTANCE, Effect.WORKLOAD), 0.5),
    *_rules("attention_backend *_attention_backend speculative_attention_mode attention_config.*",
            (*_DECODE, Effect.COMPUTE, Effect.PREFILL), 0.8),
    *_rules("speculative_* enable_multi_layer_eagle spec_*", (Effect.ACCEPTANCE, *_DECODE), 0.7),
    *_rules("cuda_graph_config.prefill.* *prefill_cuda_graph* cuda_graph_*_prefill", (Effect.PREFILL,), 0.5),
    *_rules("*cuda_graph* *cudagraph* enforce_eager disable_overlap_schedule async_scheduling", _LAUNCH, 0.75),
    *_rules("compilation_config.* optimization_level", (*_LAUNCH, Effect.COMPUTE), 0.6),
    *_rules("observability_config.* enable_forward_pass_metrics", (Effect.HOST_LAUNCH,), 0.3),
    *_rules("enable_torch_compile* torch_compile*", (Effect.COMPUTE, Effect.HOST_LAUNCH), 0.6),
    *_rules("enable_deterministic_inference", (Effect.COMPUTE, Effect.COMMUNICATION), 0.8),
    *_rules("tp_size dp_size pp_size ep_size dcp_size attn_*_size moe_*_size nnodes enable_dp_* enable_attn_tp_* "
            "*parallel_size", (Effect.COMMUNICATION, Effect.COMPUTE, *_DECODE), 0.7),
    *_rules("distributed_executor_backend", (Effect.HOST_LAUNCH, Effect.COMMUNICATION), 0.5),
    *_rules("*all_reduce* *allreduce* enable_*symm_mem enable_nccl_nvls enable_mscclpp enable_p2p_check pre_warm_nccl "
            "*a2a_backend deepep_*", (Effect.COMMUNICATION,), 0.7),
    *_rules("dtype kv_cache_dtype cache_dtype quantization* *quant* torchao_config enable_tf32_matmul enable_fp32_*",
            (*_WEIGHTS, Effect.PREFILL), 0.6),
    *_rules("sampling_backend grammar_backend *structured_outputs_config.*", (Effect.HOST_LAUNCH, *_DECODE), 0.5),
    *_rules("*transfer_backend *loader_backend tokenizer_backend *io_backend", (Effect.STORAGE,), 0.2),
    *_rules("moe_* *gemm* *_backend *_fusion* enable_fused_* triton_* flashinfer_* "
            "disable_flashinfer_* kernel_config.*", (Effect.COMPUTE, *_DECODE, Effect.PREFILL), 0.6),
    *_rules("enable_mixed_chunk", (Effect.COMPUTE, Effect.HOST_LAUNCH, Effect.PREFILL), 0.45),
    *_rules("chunked_prefill_size max_prefill_tokens max_num_batched_tokens", (Effect.PREFILL, Effect.COMPUTE), 0.45),
    *_rules("*prefill* disable_radix_cache radix_* *prefix_caching* disable_chunked_prefix_cache", (Effect.PREFILL,),
            0.45),
    *_rules("*offload*", (Effect.MEMORY, Effect.COMPUTE, Effect.STORAGE, Effect.HOST_LAUNCH), 0.5),
    *_rules("mem_fraction_static max_total_tokens max_running_requests page_size block_size swa_* "
            "*hierarchical_cache hicache_* gpu_memory_utilization context_length max_model_len max_num_seqs "
            "num_gpu_blocks_override kv_cache_memory*", (Effect.MEMORY, Effect.WORKLOAD), 0.45),
    *_rules("tokenizer_mode", (Effect.PREFILL, Effect.HOST_LAUNCH, Effect.WORKLOAD), 0.4),
    *_rules("schedule_* *scheduling* tokenizer_*", (Effect.HOST_LAUNCH, Effect.WORKLOAD), 0.4),
    *_rules("stream_interval batch_notify_size num_continuous_decode_steps sleep_on_idle scheduler_recv_interval "
            "detokenizer_* numa_node gc_threshold num_scheduler_steps", (Effect.HOST_LAUNCH,), 0.4),
    *_rules("enable_lora* lora_* lora_config.* max_lora* *two_batch_overlap *single_batch_overlap disaggregation_mode",
            (Effect.COMPUTE, Effect.WORKLOAD), 0.4),
)  # fmt: skip


def named(arguments: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    """Each argument that has a value; of a structured one, each leaf: `cuda_graph_config.decode.max_bs`.

    One that is null is not set, so it is not named.
    """
    left = MAX_ARGUMENTS
    pending = [(name, value) for name, value in reversed(arguments.items())]
    while pending and left:
        name, value = pending.pop()
        if isinstance(value, dict) and value and name.count(".") < 8:
            pending += [(f"{name}.{inner}", item) for inner, item in reversed(value.items())]
        elif value is not None and name and len(name) <= _MAX_NAME:
            left -= 1
            yield name, value
