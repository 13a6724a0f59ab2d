"""Libraries, drivers, caches, code, leftovers."""

from __future__ import annotations

from envsnap.explain import Clue, Innocent, Mistake, Together
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.reading import Json
from tests.explain.stories.case import ONE, STEP, TWO, Table, ranks
from tests.explain.stories.communication import REFUSED
from tests.explain.stories.engine import TARGET
from tests.explain.stories.workers import LIB

case = Table()

case(
    "library_version",
    "older",
    TWO,
    {"package[torch].version": "2.9.1"},
    {"package[torch].version": "2.8.0"},
    Clue,
    "older than",
    "torch",
    weight=0.0,
)
case("library_version", "newer", TWO, {"package[torch].version": "2.8.0"}, {"package[torch].version": "2.9.1"})
case(
    "library_version",
    "not the one it was built with",
    {**TWO, "record[scheduler_TP0].torch.nccl_built_version": "2.27.5"},
    ranks(2, {LIB + "version": "2.27.5"}),
    ranks(2, {LIB + "version": "2.29.1"}),
    Clue,
    "built and tested with NCCL 2.27.5",
    "nccl/0",
)
case(
    "library_version",
    "another build",
    TWO,
    {"package[torch].local_tag": "cu130"},
    {"package[torch].local_tag": "cpu"},
    Clue,
    "cu130 → cpu",
    "local_tag",
    weight=STRONG,
)

MOE = {"architectures": ["MixtralForCausalLM"], "num_local_experts": 8}
TRITON = {"package[triton].version": "3.1.0"}, {"package[triton].version": "3.2.0"}
case(
    "kernel_compiler",
    "experts",
    {**TWO, "model[m].config": MOE},
    *TRITON,
    Clue,
    "tuned by its version",
    "triton",
    weight=FAIR,
)
case(
    "kernel_compiler",
    "no experts",
    {**TWO, "model[m].config": TARGET},
    *TRITON,
    Clue,
    "compiles kernels",
    "triton",
    weight=WEAK,
)
case(
    "kernel_compiler",
    "another package",
    TWO,
    {"package[requests].version": "1.0"},
    {"package[requests].version": "1.1"},
)

CUDA = {"record[scheduler_TP0].torch.cuda_version": "13.0"}
case(
    "driver_too_old",
    "a newer runtime",
    {**TWO, "nvml.cuda_driver_version": "12.8"},
    {"record[scheduler_TP0].torch.cuda_version": "12.8"},
    CUDA,
    Clue,
    "CUDA 13, and the driver runs CUDA 12",
    "torch.cuda_version",
    weight=STRONG,
)
case(
    "driver_too_old",
    "a minor release",
    {**TWO, "nvml.cuda_driver_version": "12.4"},
    {"record[scheduler_TP0].torch.cuda_version": "12.4"},
    {"record[scheduler_TP0].torch.cuda_version": "12.8"},
)
case(
    "driver_too_old",
    "on both sides",
    {**TWO, **CUDA, "nvml.cuda_driver_version": "12.8"},
    {},
    {},
    Mistake,
    "on both sides",
    "cuda_driver",
)

case(
    "debug_left",
    "in the ranks",
    TWO,
    {},
    ranks(2, {"worker[{r}].env[CUDA_LAUNCH_BLOCKING]": "1"}),
    Clue,
    "left from debugging",
    "BLOCKING",
    weight=STRONG,
)
case("debug_left", "switched off", TWO, {}, ranks(2, {"worker[{r}].env[CUDA_LAUNCH_BLOCKING]": "0"}))
case(
    "debug_left",
    "on both sides",
    {**TWO, **ranks(2, {"worker[{r}].env[SGLANG_SIMULATE_ACC_LEN]": "3"})},
    {},
    {},
    Mistake,
    "acceptance is made up",
    "SGLANG_SIMULATE_ACC_LEN",
)
case("debug_left", "logging at the start", TWO, {}, ranks(2, {"worker[{r}].env[NCCL_DEBUG]": "INFO"}))

case(
    "made_harmful",
    "a forced algorithm",
    {**TWO, **ranks(2, {"worker[{r}].env[NCCL_ALGO]": "Ring"})},
    {"nccl.rank[0].version": "2.27.5"},
    {"nccl.rank[0].version": "2.28.9"},
    Clue,
    "chosen for another NCCL",
    "nccl.rank[0].version",
    weight=WEAK,
)
case(
    "made_harmful",
    "a kept test",
    {**TWO, **REFUSED},
    {"nvml.driver_version": "580.95"},
    {"nvml.driver_version": "595.10"},
    Clue,
    "before that change",
    "driver_version",
    weight=FAIR,
)
case(
    "made_harmful",
    "expert kernels",
    {**TWO, "model[m].config": MOE},
    {"nvml.driver_version": "580.95"},
    {"nvml.driver_version": "595.10"},
    Clue,
    "other expert kernels",
    "driver_version",
    weight=FAIR,
)
case(
    "made_harmful",
    "a driver alone",
    {**TWO, "model[m].config": TARGET},
    {"nvml.driver_version": "580.95"},
    {"nvml.driver_version": "595.10"},
)

CACHE = "cache[triton]."
case(
    "cold_cache",
    "emptied",
    TWO,
    {CACHE + "warm": True, CACHE + "path": "/a"},
    {CACHE + "warm": False, CACHE + "path": "/b"},
    Together,
    "nothing on the slow side",
    "cache[triton].path",
)
case(
    "cold_cache",
    "filled while it ran",
    {**TWO, CACHE + "warm": True, CACHE + "entries_count": 10},
    {},
    {},
    Together,
    "90 files came into them",
    "entries_count",
    grown=({CACHE + "entries_count": 10}, {CACHE + "entries_count": 100}),
    figures=STEP,
)
case(
    "cold_cache",
    "a single kernel that came into a cold one",
    TWO,
    {CACHE + "warm": True, CACHE + "path": "/a", f"during.{CACHE}grown_count": 0},
    {CACHE + "warm": False, CACHE + "path": "/a", f"during.{CACHE}grown_count": 1},
    Together,
    "1 files came into them while",
    "during.cache[triton].grown_count",
    figures=STEP,
)
case(
    "cold_cache",
    "emptied in part",
    {**TWO, CACHE + "warm": True},
    {CACHE + "entries_count": 400},
    {CACHE + "entries_count": 30},
    Together,
    "They hold 30 files, and held 400",
    "entries_count",
)
case(
    "cold_cache",
    "filled since",
    {**TWO, CACHE + "warm": True},
    {CACHE + "entries_count": 400},
    {CACHE + "entries_count": 900},
    Together,
    "filled since (triton)",
    "entries_count",
)
case(
    "cold_cache",
    "a day's work",
    {**TWO, CACHE + "warm": True},
    {CACHE + "entries_count": 400, "cache[hf_hub].entries_count": 10},
    {CACHE + "entries_count": 412, "cache[hf_hub].entries_count": 900},
)
case(
    "cold_cache",
    "warm",
    {**TWO, CACHE + "warm": True, CACHE + "entries_count": 10},
    {},
    {},
    grown=({CACHE + "entries_count": 10}, {CACHE + "entries_count": 11}),
    figures=STEP,
)
case(
    "cold_cache",
    "tuned anew",
    TWO,
    {"cache[sglang/flashinfer_autotune].tuned_sha256": "a"},
    {"cache[sglang/flashinfer_autotune].tuned_sha256": "b"},
    Clue,
    "a draw of timings",
    "tuned_sha256",
    weight=WEAK,
)

TOKENIZERS = {"package[tokenizers].version": "0.21.0"}, {"package[tokenizers].version": "0.22.0"}
PREFILL = {"fast": {"tpot_seconds": 0.010, "ttft_seconds": 0.20}, "slow": {"tpot_seconds": 0.010, "ttft_seconds": 0.30}}
SENT = {"completed": 10, "total_input_tokens": 20_000}
case(
    "prompt_tokens",
    "more of them",
    TWO,
    *TOKENIZERS,
    Together,
    "2600 tokens each, not 2000",
    "tokenizers",
    asked=(SENT, {**SENT, "total_input_tokens": 26_000}),
    figures=PREFILL,
)
case(
    "prompt_tokens",
    "by the server's count",
    TWO,
    {**TOKENIZERS[0], "during.server.prompt_tokens_count": 20_000, "during.server.request_count": 10},
    {**TOKENIZERS[1], "during.server.prompt_tokens_count": 26_000, "during.server.request_count": 10},
    Together,
    "2600 tokens each, not 2000",
    "during.server.prompt_tokens_count",
    figures=PREFILL,
)
case(
    "prompt_tokens",
    "as many as before",
    TWO,
    *TOKENIZERS,
    Clue,
    "as many tokens as before (2000 each)",
    "tokenizers",
    weight=-FAIR,
    asked=(SENT, SENT),
    figures=PREFILL,
)
case(
    "prompt_tokens",
    "not counted",
    TWO,
    *TOKENIZERS,
    Clue,
    "how prompts become tokens",
    "tokenizers",
    weight=WEAK,
    figures=PREFILL,
)
case(
    "prompt_tokens",
    "longer ones were asked for",
    TWO,
    *TOKENIZERS,
    asked=({**SENT, "input_len": 2000}, {**SENT, "input_len": 2600, "total_input_tokens": 26_000}),
    figures=PREFILL,
)

START = {"worker[{r}].started_seconds": 1_767_225_000.0}
case(
    "stale_server",
    "one process for both",
    {**TWO, **ranks(2, START)},
    {"package[triton].version": "3.1.0"},
    {"package[triton].version": "3.2.0"},
    Innocent,
    "same server process",
    "triton",
)
case(
    "stale_server",
    "pulled after the start",
    TWO,
    {**ranks(2, START), "repo[sglang].head": "a" * 40, "repo[sglang].tree_id": "a"},
    {
        **ranks(2, {"worker[{r}].started_seconds": 1_767_225_100.0}),
        "repo[sglang].head": "b" * 40,
        "repo[sglang].tree_id": "b",
        "repo[sglang].last_move.time": "2026-01-02T00:00:00+00:00",
    },
    Clue,
    "moved after",
    "repo[sglang].head",
    weight=-STRONG,
)
case(
    "stale_server",
    "a fresh one",
    TWO,
    {**ranks(2, START), "package[triton].version": "3.1.0"},
    {**ranks(2, {"worker[{r}].started_seconds": 1_767_225_100.0}), "package[triton].version": "3.2.0"},
)

RESTARTED = ranks(1, {"worker[{r}].started_seconds": 1_767_225_100.0})


def loaded(file: str, blob: str) -> dict[str, Json]:
    """What the one rank says that it has loaded."""
    workers = {"scheduler_TP0": {"state": "arrived", "reason": "", "windows": {}}}
    return {"record.code_reach": {"files": {file: {"blob": blob}}, "workers": workers}}


ATTENTION = "/e/sglang/attention.py"
FRESH = {**ranks(1, START), "record[scheduler_TP0].source_newer": [], **loaded(ATTENTION, "a" * 40)}
CHANGED = {**RESTARTED, "record[scheduler_TP0].source_newer": [ATTENTION]}
case(
    "stale_server",
    "its code was changed under it, and it runs another than the fast side",
    ONE,
    FRESH,
    {**CHANGED, **loaded(ATTENTION, "b" * 40)},
    Together,
    "The fast side's workers had loaded another content",
    "source_newer",
)
case(
    "stale_server",
    "its code was changed under it, and it runs what the fast side ran",
    ONE,
    FRESH,
    {**CHANGED, **loaded(ATTENTION, "a" * 40)},
    Innocent,
    "had loaded the same of it",
    "source_newer",
)
case(
    "stale_server",
    "its code was changed under it, and what the fast side ran is not known",
    ONE,
    {**ranks(1, START), "record[scheduler_TP0].source_newer": []},
    {**CHANGED, **loaded(ATTENTION, "b" * 40)},
    Together,
    "not what lies there now",
    "source_newer",
)

CHUNKS = {"server[0].argument[chunked_prefill_size]": 8192}, {"server[0].argument[chunked_prefill_size]": 64}
STILL_WHOLE = CHUNKS[0], {"server[0].argument[chunked_prefill_size]": 2048}

COUNTED = {**ONE, "during.server.prompt_tokens_count": 8590, "during.server.request_count": 10,
           "during.server.cached_prompt_percent": 0.0, "during.server.decode_batch_mean_count": 0.98}  # fmt: skip
case(
    "prompt_parts",
    "smaller ones",
    COUNTED,
    *CHUNKS,
    Clue,
    "about 859 tokens is computed in 14 parts, not at once",
    "chunked_prefill_size",
    weight=STRONG,
    figures=PREFILL,
)
case(
    "prompt_parts",
    "smaller ones, though the first token is as early as before",
    COUNTED,
    *CHUNKS,
    Clue,
    "in 14 parts",
    "chunked_prefill_size",
    weight=FAIR,
    figures=STEP,
)
case(
    "prompt_parts",
    "no prompt comes to them",
    COUNTED,
    *STILL_WHOLE,
    Clue,
    "computed at once on both sides",
    "chunked_prefill_size",
    weight=-STRONG,
)
case(
    "prompt_parts",
    "mostly found in the cache",
    {**COUNTED, "during.server.cached_prompt_percent": 96.0},
    *CHUNKS,
)
UNCOUNTED = {**COUNTED, "during.server.cached_prompt_percent": None}
case("prompt_parts", "whose part in the cache is not known", UNCOUNTED, *CHUNKS, figures=PREFILL)
case(
    "prompt_parts",
    "no prompt comes to them, whatever was in the cache",
    UNCOUNTED,
    *STILL_WHOLE,
    Clue,
    "computed at once on both sides",
    "chunked_prefill_size",
    weight=-STRONG,
)
case("prompt_parts", "prompts that nobody has counted", ONE, *CHUNKS, figures=PREFILL)
case(
    "prompt_parts",
    "not parted before",
    COUNTED,
    {"server[0].argument[chunked_prefill_size]": -1},
    {"server[0].argument[chunked_prefill_size]": 300},
    Clue,
    "in 3 parts, not at once",
    "chunked_prefill_size",
    weight=FAIR,
)

RATE = 'server[0].metric["sglang:cache_hit_rate"]'
case(
    "prefix_cache",
    "warm on the fast side",
    TWO,
    {"server[0].metric[sglang:cache_hit_rate]": 0.9},
    {"server[0].metric[sglang:cache_hit_rate]": 0.1},
    Together,
    "90% of the prompts",
    "cache_hit_rate",
)
case(
    "prefix_cache",
    "warm on the fast side, as the server counted over the run",
    TWO,
    {"during.server.cached_prompt_percent": 97.0, "server[0].metric[sglang:cache_hit_rate]": 0.0},
    {"during.server.cached_prompt_percent": 1.0, "server[0].metric[sglang:cache_hit_rate]": 0.0},
    Together,
    "97% of the prompts",
    "during.server.cached_prompt_percent",
)
case(
    "prefix_cache",
    "alike",
    TWO,
    {"server[0].metric[sglang:cache_hit_rate]": 0.31},
    {"server[0].metric[sglang:cache_hit_rate]": 0.30},
)
case(
    "prefix_cache",
    "switched off",
    TWO,
    {"server[0].argument[disable_radix_cache]": False},
    {"server[0].argument[disable_radix_cache]": True},
    Clue,
    "found in a cache",
    "disable_radix_cache",
    weight=FAIR,
)

case(
    "prefix_cache",
    "another policy, and nothing was found on either side",
    {**TWO, "during.server.cached_prompt_percent": 0.4},
    {"server[0].argument[radix_eviction_policy]": "lru"},
    {"server[0].argument[radix_eviction_policy]": "lfu"},
    Clue,
    "Nothing of the prompts",
    "radix_eviction_policy",
    weight=-STRONG,
)

case(
    "fresh_server",
    "just started",
    TWO,
    ranks(2, {"worker[{r}].started_seconds": 1_767_220_000.0}),
    ranks(2, {"worker[{r}].started_seconds": 1_767_225_570.0}),
    Together,
    "had run for 30 s",
    "started_seconds",
)
case(
    "fresh_server",
    "both old",
    TWO,
    ranks(2, {"worker[{r}].started_seconds": 1_767_210_000.0}),
    ranks(2, {"worker[{r}].started_seconds": 1_767_220_000.0}),
)

ORIGIN = "record[{r}].package_origin[flashinfer]"
case(
    "other_tree",
    "by a path put first",
    TWO,
    ranks(2, {ORIGIN: "/venv/site-packages/flashinfer"}),
    ranks(2, {ORIGIN: "/home/me/flashinfer", "worker[{r}].env[PYTHONPATH]": "/home/me"}),
    Together,
    "imported from /home/me/flashinfer, not from /venv",
    "PYTHONPATH",
)
case(
    "other_tree",
    "the same place",
    {**TWO, **ranks(2, {ORIGIN: "/venv/site-packages/flashinfer"})},
    {},
    ranks(2, {"worker[{r}].env[PYTHONPATH]": "/home/me"}),
)

GC = "record[{r}].python."
case(
    "garbage_collection",
    "no longer frozen",
    TWO,
    ranks(2, {GC + "gc_thresholds": [700, 10, 1000], GC + "gc_frozen_count": 900_000}),
    ranks(2, {GC + "gc_thresholds": [700, 10, 10], GC + "gc_frozen_count": 0}),
    Clue,
    "oftener than before, and holds what it held frozen",
    "gc_thresholds",
    weight=STRONG,
)
case(
    "garbage_collection",
    "seldomer",
    TWO,
    ranks(2, {GC + "gc_thresholds": [700, 10, 10]}),
    ranks(2, {GC + "gc_thresholds": [700, 10, 1000]}),
)

HEADS = ({"repo[sglang].head": "a" * 40, "repo[sglang].tree_id": "c" * 40},
         {"repo[sglang].head": "b" * 40, "repo[sglang].tree_id": "d" * 40})  # fmt: skip
DIGEST = "record[scheduler_TP0].package_hash[sglang]"
case(
    "imported_source",
    "the same",
    {**TWO, DIGEST: "1"},
    *HEADS,
    Clue,
    "the same on both sides",
    "repo[sglang]",
    weight=-STRONG,
)
case(
    "imported_source",
    "another",
    TWO,
    {**HEADS[0], DIGEST: "1"},
    {**HEADS[1], DIGEST: "2"},
    Clue,
    "imported other source",
    "repo[sglang]",
    weight=WEAK,
)
case(
    "imported_source",
    "of a repository that is called otherwise",
    {**TWO, "repo[engine].root": "/e", **ranks(2, {"record[{r}].package_origin[sglang]": "/e/python/sglang"})},
    {"repo[engine].head": "a" * 40, DIGEST: "1"},
    {"repo[engine].head": "b" * 40, DIGEST: "2"},
    Clue,
    "imported other source",
    "repo[engine]",
    weight=WEAK,
)
case(
    "imported_source",
    "of a package",
    {**TWO, "record[scheduler_TP0].package_hash[flashinfer]": "1"},
    {"package[flashinfer-python].version": "0.5"},
    {"package[flashinfer-python].version": "0.6"},
    Clue,
    "the same on both sides",
    "package[flashinfer-python]",
    weight=-WEAK,
)
case("imported_source", "nobody tells", {**TWO, "record[scheduler_TP0].package_hash[torch]": "1"}, *HEADS)
