"""Arguments of engines whose slow value is known, SGLang's and vLLM's, and what a benchmark asks."""

from __future__ import annotations

from envsnap.explain.harm import (
    ACCEPTANCE,
    ANY,
    HARMLESS,
    HIGHER,
    LIMIT,
    LOWER,
    OTHER,
    PREFILL,
    STEP,
    Harm,
    Needs,
)

_ON = "1 true yes on"
_OFF = "0 false no off"
_RANKS, _SPECULATION, _LOAD = Needs.RANKS, Needs.SPECULATION, Needs.LOAD

_GRAPHS = (
    Harm("--disable_cuda_graph --disable_decode_cuda_graph --enforce_eager", _ON,
         "Every kernel of a step is launched by the host.", True, makes=(1.05, 8)),
    Harm("--*cudagraph_mode --*cuda_graph*.backend", "full full_and_piecewise full_decode_only > breakable piecewise > "
         "none disabled", "Every kernel of a step is launched by the host.", True, makes=(1.05, 8)),
    Harm("--disable_prefill_cuda_graph --disable_piecewise_cuda_graph", _ON, "Prefill is launched kernel by kernel.",
         makes=(1.0, 2)),
    Harm("--disable_cuda_graph_padding", _ON, "Batch sizes between the captured ones run without a graph.",
         makes=(1.0, 4)),
    Harm("--*cuda_graph*max_bs --cuda_graph_bs --*cuda_graph*.bs --max_seq_len_to_capture --cudagraph_capture_sizes "
         "--*cudagraph_capture_sizes --*cuda_graph_sizes --*max_cudagraph_capture_size",
         LIMIT, "Larger batches run without a graph.", False, _LOAD, (1.02, 6)),
    Harm("--enable_torch_compile --*compilation_config.use_inductor", "1 true > unset 0 false",
         "Nothing is fused by the compiler.", makes=(1.0, 1.5)),
    Harm("--compilation_config.level --compilation_config.mode --optimization_level", LOWER,
         "Less is fused by the compiler.", makes=(1.02, 2)),
    Harm("--debug_cuda_graph --enable_profile_cuda_graph --enable_cudagraph_gc --enable_torch_compile_debug_mode",
         _ON, "It watches the graphs at a cost."),
    Harm("--enable_deterministic_inference", _ON, "Kernels and all-reduce have to be deterministic.", True,
         makes=(1.05, 3)),
)  # fmt: skip

_KERNELS = (
    Harm("--*attention_backend --attention_config.backend", "fa3 fa4 flash_attn trtllm_mha trtllm_mla cutlass_mla "
         "flashmla flash_attn_* rocm_attn rocm_aiter_* aiter > flashinfer flashinfer_* > triton triton_* "
         "flex_attention > xformers torch_native torch_sdpa", "Attention by more general kernels.", makes=(1.0, 6),
         depends=True),
    Harm("--*attention_backend", "torch_native torch_sdpa", "Attention without fused kernels.", True, makes=(1.1, 20)),
    Harm("--sampling_backend", "flashinfer > pytorch", "Sampling in many small kernels.", makes=(1.0, 1.5)),
    Harm("--*moe_runner_backend --*moe_backend", "flashinfer_trtllm flashinfer_cutlass flashinfer_cutedsl deep_gemm "
         "cutlass > triton_kernel triton > marlin", "Experts by more general kernels.", makes=(1.0, 2.5),
         depends=True),
    Harm("--*gemm*backend", "deep_gemm flashinfer_* cutlass > triton > torch", "Products by more general kernels.",
         makes=(1.0, 2), depends=True),
    Harm("--quantization --model_config.quantization", "*marlin* > gptq awq gguf bitsandbytes",
         "The kernels of this format are not the fast ones.", True, makes=(1.1, 8)),
    Harm("--quantization --model_config.quantization --torchao_config", "fp8 modelopt* nvfp4 mxfp4 compressed-tensors "
         "w8a8* awq* gptq* int4* int8* fbgemm* > unset none bitsandbytes gguf", "More bytes for every weight.", True,
         makes=(1.1, 4)),
    Harm("--dtype --model_config.dtype", "auto half float16 bfloat16 > float32 float",
         "Twice the bytes of every weight.", True, makes=(1.2, 6)),
    Harm("--*kv_cache_dtype --*cache_dtype", "auto bfloat16 float16 > fp8 fp8_e4m3 > fp8_e5m2 fp4* int8",
         "Attention converts what it reads; some kernels do not read that type at all.", makes=(1.0, 2), depends=True),
    Harm("--enable_fp32_lm_head --triton_attention_reduce_in_fp32", _ON, "Twice the bytes.", makes=(1.0, 1.2)),
    Harm("--enable_tf32_matmul", _OFF, "No TF32.", makes=(1.0, 3)),
    Harm("--model_impl", "transformers", "The reference implementation instead of the engine's.", True, makes=(1.1, 5)),
    Harm("--device", "cpu", "", True, makes=(3, 1000)),
    Harm("--*page_size --*block_size", LOWER, "Attention reads more and smaller pages.", makes=(1.0, 1.3),
         depends=True),
    Harm("--disable_*fusion --flashinfer_mla_disable_ragged", _ON, "What was one kernel is several.",
         makes=(1.0, 1.15)),
    Harm("--enable_fused_* --enable_*_fusion", _OFF, "What was one kernel is several.", makes=(1.0, 1.25)),
    Harm("--disable_flashinfer_autotune", _ON, "Kernels run with settings that nobody tuned here.", makes=(1.0, 1.2)),
    Harm("--triton_attention_num_kv_splits --triton_attention_split_tile_size", "", "", makes=(1.0, 1.2)),
    Harm("--kernel_config.*", "", "", makes=(1.0, 1.3)),
    Harm("--cpu_offload_gb --*cpu_offload_gb --offload_group_size", HIGHER, "Weights cross PCIe at every step.", True,
         makes=(1.2, 50)),
    Harm("--enable_lora --lora_paths --lora_modules", "unset 0 false > *", "Adapters are applied in every layer.",
         makes=(1.02, 2)),
)  # fmt: skip

_EXCHANGE = (
    Harm("--disable_custom_all_reduce", _ON, "All-reduce by NCCL, which is slower for small messages.", False, _RANKS,
         (1.0, 1.5)),
    Harm("--*allreduce_fusion --enable_symm_mem --enable_torch_symm_mem --enable_mscclpp --enable_nccl_nvls "
         "--enable_fused_moe_sum_all_reduce", "1 true > unset 0 false", "A faster all-reduce is not used.", False,
         _RANKS, (1.0, 1.4)),
    Harm("--enforce_disable_flashinfer_allreduce_fusion", _ON, "A faster all-reduce is not used.", False, _RANKS,
         (1.0, 1.4)),
    Harm("--enable_p2p_check --pre_warm_nccl", HARMLESS),
    Harm("--tp_size --tp --*tensor_parallel_size", LOWER, "Fewer GPUs share the work.", True, makes=(1.05, 8)),
    Harm("--tp_size --tp --*tensor_parallel_size", HIGHER, "More ranks exchange smaller parts.", makes=(1.0, 2),
         depends=True),
    Harm("--pp_size --*pipeline_parallel_size", HIGHER, "A token passes through the stages one after the other.",
         makes=(1.05, 4)),
    Harm("--enable_dp_attention --enable_attn_tp_input_scattered", _ON, "Each rank attends to its own requests, of "
         "which few at a time leave others idle.", False, _RANKS, (1.0, 3), depends=True),
    Harm("--ep_size --*enable_expert_parallel", "", "", False, _RANKS, (1.0, 2)),
    Harm("--nnodes", HIGHER, "Ranks stand on more machines.", True, makes=(1.05, 10)),
    Harm("--deepep_mode", "auto low_latency > normal", "Dispatch for prefill serves decoding.", False, _RANKS,
         (1.0, 3)),
    Harm("--distributed_executor_backend --*executor_backend", "mp uni > ray", "Each step passes through Ray.",
         makes=(1.0, 1.5)),
    Harm("--enable_two_batch_overlap --enable_single_batch_overlap", "", "", False, _RANKS, (1.0, 1.5)),
)  # fmt: skip

_SCHEDULER = (
    Harm("--disable_overlap_schedule", _ON, "The GPU waits while the host prepares the next batch.", True,
         makes=(1.02, 1.8)),
    Harm("--*async_scheduling", "1 true > 0 false unset", "The GPU waits while the host prepares the next batch.",
         makes=(1.02, 1.6)),
    Harm("--max_running_requests --max_num_seqs --max_total_tokens --*max_num_seqs", LIMIT,
         "Fewer requests run at once.", False, _LOAD, (1.05, 20)),
    Harm("--mem_fraction_static --gpu_memory_utilization --num_gpu_blocks_override", LOWER, "Less room for the cache.",
         False, _LOAD, (1.05, 10)),
    Harm("--swa_full_tokens_ratio --num_reserved_decode_tokens --disable_hybrid_swa_memory", "", "", False, _LOAD),
    Harm("--disable_radix_cache --disable_chunked_prefix_cache", _ON, "Every prompt is computed anew.", True,
         makes=(1.02, 50)),
    Harm("--*enable_prefix_caching", _OFF, "Every prompt is computed anew.", True, makes=(1.02, 50)),
    Harm("--chunked_prefill_size --*max_num_batched_tokens --max_prefill_tokens --*long_prefill_token_threshold", LOWER,
         "A prompt is computed in more and smaller parts.", term=PREFILL, makes=(1.02, 10)),
    Harm("--chunked_prefill_size --*max_num_batched_tokens", HIGHER, "Decoding waits longer for others' prompts.",
         term=STEP, needs=_LOAD, makes=(1.0, 3)),
    Harm("--enable_mixed_chunk --*enable_chunked_prefill", _ON, "Steps that decode carry parts of prompts.", term=STEP,
         makes=(1.0, 2)),
    Harm("--*enable_chunked_prefill", _OFF, "Decoding stands still while a prompt is computed.", makes=(1.0, 4),
         depends=True),
    Harm("--schedule_policy --*scheduling_policy", "lpm dfs-weight > fcfs priority > random lof",
         "Prompts that share a beginning do not meet.", term=PREFILL, makes=(1.0, 4)),
    Harm("--schedule_conservativeness", HIGHER, "Fewer requests are let in.", False, _LOAD, (1.0, 3)),
    Harm("--num_continuous_decode_steps --*num_scheduler_steps", LOWER, "The scheduler runs after every step.",
         makes=(1.0, 1.3), depends=True),
    Harm("--stream_interval", LOWER, "Each token is sent by itself.", makes=(1.0, 1.15), depends=True),
    Harm("--scheduler_recv_interval", LOWER, "", makes=(1.0, 1.1)),
    Harm("--sleep_on_idle", _ON, "The scheduler has to wake up.", makes=(1.0, 1.2)),
    Harm("--gc_threshold", "", "", makes=(1.0, 1.2)),
    Harm("--enable_priority_scheduling --enable_prefill_delayer", _ON, "Some requests wait for others.",
         makes=(1.0, 3)),
    Harm("--enable_hierarchical_cache --enable_lmcache --hicache_* --kv_transfer_config --*kv_connector", "unset 0 "
         "false > *", "The cache is copied to and from the host.", makes=(1.0, 2)),
    Harm("--disaggregation_mode", OTHER, "Another part of the work is done here.", True),
    Harm("--tokenizer_mode", "auto fast > slow custom", "The tokenizer is Python.", True, makes=(1.02, 10)),
    Harm("--skip_tokenizer_init", HARMLESS),
    Harm("--disable_tokenizer_batch_decode --*tokenizer_pool_size", _ON, "", makes=(1.0, 1.1)),
    Harm("--*grammar_backend --*guided_decoding_backend --structured_outputs_config.backend", HARMLESS,
         "It acts where a request asks for a form."),
    Harm("--*generation_config", "vllm > auto",
         "Requests that say nothing are sampled as the model's files say, with more kernels.", makes=(1.0, 2)),
    Harm("--max_model_len --context_length --*max_model_len", "", "", makes=(1.0, 1.15)),
    Harm("--max_loras_per_batch --lora_backend", "", "", makes=(1.0, 1.3)),
)  # fmt: skip

_SPECULATIVE = (
    Harm("--speculative_algorithm --speculative_config", "unset none", "Nothing is speculated.", True, makes=(1.05, 5)),
    Harm("--speculative_algorithm", "eagle3 > eagle", "The head is used as one of the older kind.", makes=(1.0, 5)),
    Harm("--speculative_algorithm --speculative_config.method", "eagle* mtp nextn standalone draft_model > ngram "
         "lookahead", "Drafts come from the text alone.", makes=(1.0, 3)),
    Harm("--speculative_draft_model_path --speculative_config.model", "* > unset", "There is no draft model.", True,
         makes=(1.05, 5)),
    Harm("--speculative_draft_model_path --speculative_draft_model_revision --speculative_config.model", OTHER,
         "Another draft model.", True, _SPECULATION, (1.0, 4)),
    Harm("--speculative_num_steps --speculative_num_draft_tokens --speculative_eagle_topk "
         "--speculative_config.num_speculative_tokens --*num_speculative_tokens", HIGHER,
         "More is drafted and verified in each step.", False, _SPECULATION, (1.02, 3), STEP),
    Harm("--speculative_num_steps --speculative_num_draft_tokens --speculative_eagle_topk "
         "--speculative_config.num_speculative_tokens --*num_speculative_tokens", LOWER,
         "Less is drafted, so that less can be accepted.", False, _SPECULATION, (1.02, 3), ACCEPTANCE),
    Harm("--speculative_accept_threshold_*", HIGHER, "Fewer drafts are good enough.", True, _SPECULATION, (1.0, 3)),
    Harm("--speculative_token_map", "* > unset", "The draft scores every token of the vocabulary.", False, _SPECULATION,
         (1.0, 1.3)),
    Harm("--speculative_use_rejection_sampling --speculative_use_block_verification", "", "", False, _SPECULATION,
         (1.0, 1.5)),
    Harm("--speculative_attention_mode", "decode > prefill", "", False, _SPECULATION, (1.0, 1.3)),
    Harm("--speculative_draft_window_size", LOWER, "The draft sees less of the text.", False, _SPECULATION, (1.0, 2),
         ACCEPTANCE),
    Harm("--speculative_disable_by_batch_size --speculative_config.disable_by_batch_size", LOWER,
         "Larger batches do not speculate.", False, _LOAD, (1.0, 3)),
    Harm("--speculative_draft_model_quantization --speculative_draft_kv_cache_dtype", "", "", False, _SPECULATION,
         (1.0, 1.5)),
    Harm("--speculative_ngram_*", "", "", False, _SPECULATION, (1.0, 1.5)),
    Harm("--speculative_*", "", "", False, _SPECULATION),
)  # fmt: skip

_AROUND = (
    Harm("--log_requests --log_requests_level", HIGHER, "Every request is written down.", makes=(1.0, 1.3)),
    Harm("--log_requests --enable_layerwise_nvtx_marker --enable_forward_pass_metrics --enable_trace "
         "--*collect_detailed_traces --otlp_traces_endpoint --enable_nan_detection --*enable_mfu_metrics", _ON,
         "Every step or request is written down.", makes=(1.0, 1.4)),
    Harm("--enable_memory_saver --enable_weights_cpu_backup --enable_torch_profiler --enable_profile* --enable_nan* "
         "--enable_return_hidden_states --enable_return_routed_experts --enable_custom_logit_processor", _ON,
         "It watches, saves or gives back more at a cost.", makes=(1.0, 1.3)),
    Harm("--decode_log_interval", LOWER, "It logs more often.", makes=(1.0, 1.03)),
    Harm("--random_seed --seed --served_model_name --*parser --trust_remote_code --*log* --enable_metrics* --*timeout* "
         "--host --*port --download_dir --tokenizer_worker_num --show_time_cost --*_api_key --*_path_prefix "
         "--enable_request_* --collect_tokens_histogram --bucket_* --gc_warning* --enable_cache_report "
         "--*disk_cache --allow_auto_truncate --*metrics --*image_processor --*mm_preprocessor* --*nsight "
         "--weight_loader_* --load_format --*kv_cache_metrics", HARMLESS, "It does not act on the work of a step."),
    Harm("--skip_server_warmup --warmups", HARMLESS, "It acts on the first requests alone."),
    Harm("--model_path --model --revision --*model_config.model", OTHER, "Another model.", True),
)  # fmt: skip

_ASKED = (
    # What a benchmark asks. It is no setting of the machine: it makes two measurements incomparable.
    Harm("request[*concurren*] request[*batch*size*] request[*num_concurrent*] request[*request_rate*]", HIGHER,
         "More requests share each step.", True, makes=(1.0, 50)),
    Harm("request[*input*len*] request[*isl*] request[*prompt*len*] request[*context*]", HIGHER,
         "Longer prompts: more to compute and to attend to.", True, makes=(1.0, 50)),
    Harm("request[*output*len*] request[*osl*] request[*max*tokens*]", OTHER, "Answers of another length.", True,
         makes=(1.0, 4)),
    Harm("request[*temperature*]", HIGHER, "Less of what is drafted fits.", True, makes=(1.0, 3), term=ACCEPTANCE),
    Harm("request[*dataset*] request[*chat_template*] request[*prompt*] request[*model*] request[*sampl*] "
         "request[*grammar*] request[*schema*] request[*logprob*] request[*ignore_eos*] request[*lora*] "
         "request[*stream*] request[*endpoint*] request[*backend*]", OTHER, "Another question was asked.", True),
    Harm("request[*]", ANY, "Something more was asked."),
)  # fmt: skip

ARGUMENTS = (*_GRAPHS, *_SPECULATIVE, *_KERNELS, *_EXCHANGE, *_SCHEDULER, *_AROUND, *_ASKED)
