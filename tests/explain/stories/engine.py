"""What the engine and the models are set to."""

from __future__ import annotations

from envsnap.explain import Clue, Mistake, Together
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.reading import Json
from tests.explain.stories.case import (
    ACCEPTANCE,
    NOTHING_ACCEPTED,
    NVLINK,
    PCIE,
    SPECULATIVE,
    STEP,
    TWO,
    Table,
    ranks,
)

case = Table()

MEMORY = "server[0].dp[0].graph_memory_bytes"
GRAPH = "server[0].argument[disable_cuda_graph]"
case(
    "graphs_off",
    "an argument",
    TWO,
    {MEMORY: 1 << 30, GRAPH: False},
    {MEMORY: 0, GRAPH: True},
    Clue,
    "none on the slow side",
    "disable_cuda_graph",
    weight=STRONG,
)
case(
    "graphs_off",
    "the capture failed",
    TWO,
    {"server[0].dp[0].graph_batch_sizes": [1, 2, 4]},
    {"server[0].dp[0].graph_batch_sizes": []},
    Clue,
    "none on the slow side",
    "graph_batch_sizes",
)
case(
    "graphs_off",
    "a variable of a workaround",
    TWO,
    {},
    ranks(2, {"worker[{r}].env[VLLM_USE_BREAKABLE_CUDAGRAPH]": "0"}),
    Clue,
    "from a workaround",
    "BREAKABLE",
    weight=STRONG,
)
case(
    "graphs_off", "on both sides", {**TWO, MEMORY: 0, GRAPH: True}, {}, {}, Mistake, "off on both sides", "graph_memory"
)
case(
    "graphs_off",
    "not recorded then",
    TWO,
    {"server[0].argument[x]": 1},
    {MEMORY: 0},
    Mistake,
    "was not recorded",
    "graph_memory",
)
case(
    "graphs_off",
    "verify alone",
    {**TWO, **SPECULATIVE, **ranks(2, {"record[{r}].graph_batch_sizes[draft]": [1, 2]})},
    {},
    {},
    Mistake,
    "verify step runs without",
    "graph_batch_sizes",
)
case(
    "graphs_off",
    "other sizes",
    TWO,
    {"server[0].dp[0].graph_batch_sizes": [1, 2, 4]},
    {"server[0].dp[0].graph_batch_sizes": [1, 2]},
)
case("graphs_off", "switched on", TWO, {MEMORY: 0, GRAPH: True}, {MEMORY: 1 << 30, GRAPH: False})

SIZES = "server[0].dp[0].graph_batch_sizes"
case(
    "graph_sizes",
    "too many requests",
    TWO,
    {SIZES: [1, 8, 64]},
    {SIZES: [1, 8]},
    Clue,
    "for 8 requests, and 32 run at once",
    "graph_batch_sizes",
    weight=STRONG,
    asked=({"max_concurrency": 32}, {"max_concurrency": 32}),
)
case(
    "graph_sizes",
    "more requests than before",
    {**TWO, SIZES: [1, 8]},
    {},
    {},
    Clue,
    "for 8 requests, and 32",
    "request[",
    asked=({"max_concurrency": 8}, {"max_concurrency": 32}),
)
case(
    "graph_sizes",
    "on both sides",
    {**TWO, SIZES: [1, 8]},
    {},
    {},
    Mistake,
    "on both sides",
    "graph_batch_sizes",
    asked=({"max_concurrency": 32}, {"max_concurrency": 32}),
)
case("graph_sizes", "enough for all", TWO, {SIZES: [1, 8, 64]}, {SIZES: [1, 32]}, asked=({"max_concurrency": 32},) * 2)
case("graph_sizes", "not known how many", TWO, {SIZES: [1, 8, 64]}, {SIZES: [1, 8]})

BACKEND = "server[0].argument[attention_backend]"
case(
    "resolved_otherwise",
    "flashinfer is gone",
    TWO,
    {BACKEND: "flashinfer", "package[flashinfer-python].version": "0.6.1"},
    {BACKEND: "triton", "package[torch].version": "2.9.1"},
    Together,
    "FlashInfer is not there any more",
    "flashinfer-python",
)
case(
    "resolved_otherwise",
    "one more candidate",
    TWO,
    {BACKEND: "fa3", "server[0].argument[speculative_eagle_topk]": 1},
    {BACKEND: "flashinfer", "server[0].argument[speculative_eagle_topk]": 4},
    Together,
    "4 candidates",
    "eagle_topk",
)
DRIVER_AND_EXPERTS = (
    {"server[0].argument[moe_runner_backend]": "triton_kernel", "nvml.driver_version": "580.95"},
    {"server[0].argument[moe_runner_backend]": "triton", "nvml.driver_version": "595.10"},
)
case(
    "resolved_otherwise",
    "a driver",
    TWO,
    *DRIVER_AND_EXPERTS,
    Together,
    "driver changed",
    "driver_version",
)
case(
    "resolved_otherwise",
    "a driver and a model without experts",
    {**TWO, "model[m].config": {"hidden_size": 4096}},
    *DRIVER_AND_EXPERTS,
)
case(
    "resolved_otherwise",
    "a driver and experts of the part that is the language model's",
    {**TWO, "model[m].config": {"text_config": {"n_routed_experts": 384}}},
    *DRIVER_AND_EXPERTS,
    Together,
    "driver changed",
    "driver_version",
)
case(
    "resolved_otherwise",
    "for no known reason",
    TWO,
    {BACKEND: "fa3"},
    {BACKEND: "triton"},
    Clue,
    "by itself",
    "attention_backend",
    weight=WEAK,
)
case(
    "resolved_otherwise",
    "typed",
    {**TWO, "worker[main].env[PATH]": "/usr/bin"},
    {BACKEND: "fa3", "worker[main].argv": ["python", "-m", "sglang.launch_server", "--attention-backend", "fa3"]},
    {BACKEND: "triton", "worker[main].argv": ["python", "-m", "sglang.launch_server", "--attention-backend", "triton"]},
)

HEAD3 = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 4096, "draft_vocab_size": 32000}
ALGORITHM = "server[0].argument[speculative_algorithm]"
case(
    "eagle_head",
    "EAGLE for EAGLE-3",
    {**TWO, "model[draft].config": HEAD3},
    {ALGORITHM: "EAGLE3"},
    {ALGORITHM: "EAGLE"},
    Clue,
    "the accept length is 1.00",
    "speculative_algorithm",
    weight=STRONG,
    figures=NOTHING_ACCEPTED,
)
case(
    "eagle_head",
    "on both sides",
    {**TWO, "model[draft].config": HEAD3, ALGORITHM: "EAGLE"},
    {},
    {},
    Mistake,
    "EAGLE-3 head",
    "speculative_algorithm",
)
case(
    "eagle_head",
    "fits",
    {**TWO, "model[draft].config": HEAD3, ALGORITHM: "EAGLE3"},
    {"server[0].argument[speculative_num_steps]": 2},
    {"server[0].argument[speculative_num_steps]": 3},
)

TARGET = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "vocab_size": 128000}
MODELS = {**TWO, **SPECULATIVE, "model[draft].config": HEAD3, "model[target].config": TARGET}
case(
    "draft_out_of_step",
    "the target moved",
    MODELS,
    {"model[target].revision": "a" * 40},
    {"model[target].revision": "b" * 40},
    Clue,
    "its draft did not",
    "model[target].revision",
    weight=FAIR,
    figures=ACCEPTANCE,
)
case(
    "draft_out_of_step",
    "and acceptance did not",
    MODELS,
    {"model[target].revision": "a" * 40},
    {"model[target].revision": "b" * 40},
    Clue,
    "its draft did not",
    "model[target].revision",
    weight=0.0,
    figures=STEP,
)
case(
    "draft_out_of_step",
    "both moved",
    MODELS,
    {"model[target].revision": "a" * 40, "model[draft].revision": "c" * 40},
    {"model[target].revision": "b" * 40, "model[draft].revision": "d" * 40},
    figures=ACCEPTANCE,
)
case(
    "draft_out_of_step",
    "another revision of the same weights",
    {**MODELS, "model[target].index_sha256": "e" * 64},
    {"model[target].revision": "a" * 40},
    {"model[target].revision": "b" * 40},
    figures=ACCEPTANCE,
)
case(
    "draft_out_of_step",
    "a file beside it",
    MODELS,
    {"model[target].file[chat_template.jinja].sha256": "a" * 64},
    {"model[target].file[chat_template.jinja].sha256": "b" * 64},
    figures=ACCEPTANCE,
)
case(
    "draft_out_of_step",
    "sizes",
    {**MODELS, "model[draft].config": {**HEAD3, "hidden_size": 2048}},
    {},
    {},
    Mistake,
    "hidden_size 2048 and 4096",
    "model[draft].config",
)

TEMPLATE = "model[target].chat_template_sha256"
case(
    "chat_template",
    "gone",
    MODELS,
    {TEMPLATE: "a"},
    {"model[target].weights_bytes": 1},
    Clue,
    "is gone",
    TEMPLATE,
    figures=ACCEPTANCE,
    weight=STRONG,
)
case(
    "chat_template",
    "another",
    MODELS,
    {TEMPLATE: "a"},
    {TEMPLATE: "b"},
    Clue,
    "Another chat template",
    TEMPLATE,
    figures=ACCEPTANCE,
)
case(
    "chat_template",
    "the benchmark does not apply it",
    MODELS,
    {},
    {},
    Clue,
    "formats",
    "request[",
    figures=ACCEPTANCE,
    asked=({"apply_chat_template": False}, {"apply_chat_template": True}),
)
case("chat_template", "the same", {**MODELS, TEMPLATE: "a"}, {}, {}, figures=ACCEPTANCE)

case(
    "other_requests",
    "longer prompts",
    {**TWO, "os.libc": "glibc"},
    {},
    {},
    Clue,
    "random_input_len 1024 → 8192",
    "request[",
    asked=({"random_input_len": 1024}, {"random_input_len": 8192}),
    figures=STEP,
    weight=FAIR,
)
case(
    "other_requests",
    "the same",
    {**TWO, "os.libc": "glibc"},
    {},
    {},
    asked=({"random_input_len": 1024},) * 2,
    figures=STEP,
)

case(
    "sampling_defaults",
    "taken from the model",
    TWO,
    {"server[0].argument[generation_config]": "vllm"},
    {"server[0].argument[generation_config]": "auto"},
    Clue,
    "takes sampling defaults",
    "generation_config",
)
case(
    "sampling_defaults",
    "the model's changed",
    TWO,
    {"model[target].generation_config": {"temperature": 0.6}},
    {"model[target].generation_config": {"temperature": 1.0}},
    Clue,
    "own sampling defaults",
    "generation_config",
)
case("sampling_defaults", "the same", {**TWO, "model[target].generation_config": {"temperature": 0.6}}, {}, {})

case(
    "model_revisions",
    "weights alone",
    {**TWO, "model[m].revision": "a" * 40},
    {"model[m].weights_bytes": 10},
    {"model[m].weights_bytes": 11},
    Clue,
    "its revision is the same",
    "weights_bytes",
    weight=FAIR,
)
case(
    "model_revisions",
    "beside the weights",
    {**TWO, "model[m].weights_bytes": 10},
    {"model[m].revision": "a" * 40},
    {"model[m].revision": "b" * 40},
    Clue,
    "the same weights",
    "revision",
    weight=-FAIR,
)
case(
    "model_revisions",
    "the configuration beside the weights",
    {**TWO, "model[m].weights_bytes": 10},
    {"model[m].revision": "a" * 40, "model[m].config": {"rope_theta": 1}},
    {"model[m].revision": "b" * 40, "model[m].config": {"rope_theta": 2}},
    Clue,
    "the same weights",
    "revision",
    weight=WEAK,
)
case(
    "model_revisions",
    "all of it",
    TWO,
    {"model[m].revision": "a" * 40, "model[m].weights_bytes": 10},
    {"model[m].revision": "b" * 40, "model[m].weights_bytes": 11},
)

case(
    "ranks_over_pcie",
    "four over PCIe",
    {**PCIE, **SPECULATIVE},
    {"server[0].argument[tp_size]": 1},
    {"server[0].argument[tp_size]": 4},
    Clue,
    "4 ranks instead of 1, over PCIe",
    "tp_size",
    weight=STRONG,
)
case(
    "ranks_over_pcie",
    "fewer",
    NVLINK,
    {"server[0].argument[tp_size]": 4},
    {"server[0].argument[tp_size]": 2},
    Clue,
    "larger part of the weights",
    "tp_size",
    weight=FAIR,
)
case(
    "ranks_over_pcie",
    "more over NVLink",
    NVLINK,
    {"server[0].argument[tp_size]": 1},
    {"server[0].argument[tp_size]": 4},
)

NAMES = ("enable_lora", "enable_hierarchical_cache", "enable_metrics", *(f"other_{n}" for n in range(20)))
RESOLVED = {f"server[0].argument[{name}]": False for name in NAMES}
case(
    "not_in_use",
    "a feature that is off",
    {**TWO, **RESOLVED},
    {"server[0].argument[hicache_ratio]": 2},
    {"server[0].argument[hicache_ratio]": 4},
    Clue,
    "off on both sides",
    "hicache_ratio",
    weight=-STRONG,
)
case(
    "not_in_use",
    "sizes of graphs that are not captured",
    {**TWO, "server[0].argument[cuda_graph_config.decode.backend]": "disabled"},
    {"server[0].argument[cuda_graph_config.decode.max_bs]": 32},
    {"server[0].argument[cuda_graph_config.decode.max_bs]": 4},
    Clue,
    "No graph of decode",
    "max_bs",
    weight=-STRONG,
)
case(
    "not_in_use",
    "sizes of graphs that are captured",
    {**TWO, "server[0].argument[cuda_graph_config.decode.backend]": "full"},
    {"server[0].argument[cuda_graph_config.decode.max_bs]": 32},
    {"server[0].argument[cuda_graph_config.decode.max_bs]": 4},
)
case(
    "not_in_use",
    "a feature that is on",
    {**TWO, **RESOLVED, "server[0].argument[enable_hierarchical_cache]": True},
    {"server[0].argument[hicache_ratio]": 2},
    {"server[0].argument[hicache_ratio]": 4},
)
case(
    "not_in_use",
    "another engine's variable",
    {**TWO, "server[0].engine": "sglang"},
    {},
    ranks(2, {"worker[{r}].env[VLLM_ATTENTION_BACKEND]": "FLASHINFER"}),
    Clue,
    "does not read it",
    "VLLM",
    weight=-STRONG,
)
PROTO: tuple[dict[str, Json], dict[str, Json]] = ({}, ranks(2, {"worker[{r}].env[NCCL_PROTO]": "Simple"}))
case("not_in_use", "NCCL's, on CPUs", {**TWO, "server[0].argument[device]": "cpu"}, *PROTO, Clue, "runs on CPUs",
     "NCCL_PROTO", weight=-STRONG)  # fmt: skip
case("not_in_use", "NCCL's, which no rank has loaded", {**TWO, **ranks(2, {"worker[{r}].library[gomp/0].path": "/g"})},
     *PROTO, Clue, "No rank has NCCL loaded", "NCCL_PROTO", weight=-STRONG)  # fmt: skip
case("not_in_use", "NCCL's, which ranks have loaded", {**TWO, **ranks(2, {"worker[{r}].library[nccl/0].path": "/n"})},
     *PROTO)  # fmt: skip
case("not_in_use", "NCCL's, where nobody looked", TWO, *PROTO)
case("not_in_use", "NCCL's, on GPUs on one side", TWO, {**PROTO[0], "server[0].argument[device]": "cuda"},
     {**PROTO[1], "server[0].argument[device]": "cpu"})  # fmt: skip
case(
    "not_in_use",
    "its own variable",
    {**TWO, "server[0].engine": "sglang"},
    {},
    ranks(2, {"worker[{r}].env[SGLANG_X]": "1"}),
)
RUNNER = (
    {"server[0].argument[moe_runner_backend]": "auto"},
    {"server[0].argument[moe_runner_backend]": "triton"},
)
case(
    "not_in_use",
    "no experts",
    {**TWO, "model[m].config": TARGET},
    *RUNNER,
    Clue,
    "no experts",
    "moe_runner",
    weight=-STRONG,
)
case(
    "not_in_use",
    "no experts, and a variable of theirs",
    {**TWO, **SPECULATIVE, "model[eagle].config": HEAD3, "model[m].config": {"n_routed_experts": None}},
    {},
    ranks(2, {"worker[{r}].env[SGLANG_MOE_CONFIG_DIR]": "/tables"}),
    Clue,
    "no experts",
    "MOE_CONFIG",
    weight=-STRONG,
)
case(
    "not_in_use",
    "experts of the part that is the language model's",
    {**TWO, "model[m].config": {"text_config": {"num_experts": 128}}},
    *RUNNER,
)
case(
    "not_in_use",
    "a draft without experts, and nobody knows the target",
    {**TWO, **SPECULATIVE, "model[eagle].config": HEAD3},
    *RUNNER,
)
SERVED = {**TWO, "server[0].argument[model_path]": "/m/served"}
case(
    "not_in_use",
    "a tokenizer's directory alone",
    {**SERVED, "model[t].path": "/m/t", "model[t].config": TARGET},
    *RUNNER,
)
case(
    "not_in_use",
    "no experts, beside a tokenizer's directory",
    {**SERVED, "model[t].path": "/m/t", "model[t].config": {"num_experts": 8}, "model[served].path": "/m/served",
     "model[served].config": TARGET},
    *RUNNER,
    Clue,
    "no experts",
    "moe_runner",
    weight=-STRONG,
)  # fmt: skip
case("not_in_use", "several, and none is named", {**TWO, "model[a].config": TARGET, "model[b].config": TARGET}, *RUNNER)
case(
    "not_in_use",
    "vLLM's draft, and the target was not recorded",
    {**TWO, "server[0].argument[speculative_config.model]": "/m/small", "model[small].path": "/m/small",
     "model[small].config": TARGET},
    *RUNNER,
)  # fmt: skip
