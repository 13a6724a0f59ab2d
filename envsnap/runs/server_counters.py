"""What an engine counted over a window: as metrics, as readings, as warnings.

SGLang tells `/metrics` under --enable-metrics, and the time of forward passes under
SGLANG_ENABLE_METRICS_DEVICE_TIMER=1 (which costs a CUDA event a pass). Seen: 0.5.16, plain decoding; the counters of
speculation were read in its source. vLLM's names are from its documentation (2026); not yet seen from a real server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envsnap.keys import Effect, Key, Kind, Lever, Type
from envsnap.reading import Json
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.prometheus import Page, growth

SOURCE = "server"
MANY_HITS_PERCENT = 5.0
"""From this share of the prompt tokens on, hits of the prefix cache are warned of."""

_E = Effect
ROOT = "during.server"
_GRAPH = (
    "Passes without a graph pay for every kernel's launch: look at --disable-cuda-graph, and at batch sizes that were "
    "not captured."
)

KEYS = (
    Key(f"{ROOT}.decode_graph_percent", Type.NUMBER, Kind.CONDITION,
        "Share of the decode passes (under speculation: the verify passes) that ran as a CUDA graph.",
        (_E.HOST_LAUNCH, _E.VERIFY, _E.DRAFT), 0.8, Lever.ARGUMENT, _GRAPH, abs_tol=2),
    Key(f"{ROOT}.prefill_graph_percent", Type.NUMBER, Kind.CONDITION,
        "Share of the prefill passes that ran as a CUDA graph.", (_E.HOST_LAUNCH, _E.PREFILL), 0.3, Lever.ARGUMENT,
        abs_tol=5),
    Key(f"{ROOT}.decode_batch_mean_count", Type.NUMBER, Kind.CONDITION,
        "Requests that a decode pass worked on, on average.", (_E.WORKLOAD,), 0.6, rel_tol=0.1),
    Key(f"{ROOT}.request_count", Type.INTEGER, Kind.CONDITION, "Requests that finished.", (_E.WORKLOAD,), 0.3),
    Key(f"{ROOT}.prompt_tokens_count", Type.INTEGER, Kind.CONDITION, "Tokens of the prompts of these requests.",
        (_E.WORKLOAD, _E.PREFILL), 0.3, rel_tol=0.02),
    Key(f"{ROOT}.generated_tokens_count", Type.INTEGER, Kind.CONDITION, "Tokens that they generated.",
        (_E.WORKLOAD,), 0.3, rel_tol=0.02),
    Key(f"{ROOT}.cached_prompt_percent", Type.NUMBER, Kind.CONDITION,
        "Share of the prompt tokens that the prefix cache answered.", (_E.WORKLOAD, _E.PREFILL), 0.4,
        advice="Use prompts that do not repeat, or flush the cache before each run.", abs_tol=2),
    Key(f"{ROOT}.queue_mean_seconds", Type.NUMBER, Kind.CONDITION,
        "Time that a request waited in the server's queue, on average.", (_E.WORKLOAD,), 0.3, rel_tol=0.5,
        abs_tol=0.005),
    Key(f"{ROOT}.retraction_count", Type.INTEGER, Kind.CONDITION,
        "Requests that were put back into the queue because the KV cache was full, and computed again.",
        (_E.MEMORY, _E.WORKLOAD), 0.6, Lever.ARGUMENT,
        "Give the KV cache more memory, or run fewer requests at once."),
)  # fmt: skip


def counted(before: Page, after: Page) -> dict[str, float]:
    """What grew, by our names: counts, and seconds summed over the ranks that tell them. Empty for other servers."""
    engine = _sglang if any(name.startswith("sglang:") for name in after.samples) else _vllm
    grown = {name: value for name, value in engine(before, after).items() if value}
    return grown if grown.keys() - {"speculates"} else {}


def _sglang(before: Page, after: Page) -> dict[str, float]:
    def grew(name: str, **labels: str | tuple[str, ...]) -> float:
        return growth(before, after, f"sglang:{name}", **labels) or 0.0

    passes = "cuda_graph_passes_total"
    spent = "forward_execution_seconds_total"
    found = {
        "requests": grew("num_requests_total"),
        "prompt_tokens": grew("prompt_tokens_total"),
        "generated_tokens": grew("generation_tokens_total"),
        "cached_tokens": grew("cached_tokens_total"),
        "verify_calls": grew("spec_verify_calls_total"),
        "decode_tokens": grew("realtime_tokens_total", mode="decode"),
        "decode_graph": grew(passes, mode="decode_cuda_graph"),
        "decode_passes": grew(passes, mode=("decode_cuda_graph", "decode_none")),
        "prefill_graph": grew(passes, mode="prefill_cuda_graph"),
        "prefill_passes": grew(passes, mode=("prefill_cuda_graph", "prefill_none")),
        "queue_seconds": grew("queue_time_seconds_sum"),
        "queued": grew("queue_time_seconds_count"),
        "between_tokens_seconds": grew("inter_token_latency_seconds_sum"),
        "between_tokens": grew("inter_token_latency_seconds_count"),
        "retractions": grew("num_retracted_requests_total"),
        "verify": grew(spent, category="target_verify"),
        "draft": grew(spent, category="eagle_draft"),
        "draft_extend": grew(spent, category="eagle_draft_extend"),
        "decode": grew(spent, category="decode"),
        "extend": grew(spent, category="extend"),
    }
    if found["verify"]:
        # NOTE: without CUDA graphs the draft model's steps are timed as `decode`, which the target then never does.
        found["draft"] += found.pop("decode")
    # NOTE: what tells that a server speculates although its version does not count the verifications.
    found["speculates"] = float(any(_shows(after, name) for name in ("spec_accept_length", "spec_num_draft_tokens")))
    return found


def _shows(page: Page, gauge: str) -> bool:
    return any(value > 0 for value in page.samples.get(f"sglang:{gauge}", {}).values())


def _vllm(before: Page, after: Page) -> dict[str, float]:
    def grew(name: str) -> float:
        return growth(before, after, f"vllm:{name}") or 0.0

    drafts = grew("spec_decode_num_drafts_total")
    generated, requests = grew("generation_tokens_total"), grew("request_success_total")
    return {
        "requests": requests,
        "prompt_tokens": grew("prompt_tokens_total"),
        "generated_tokens": generated,
        "cached_tokens": grew("prefix_cache_hits_total"),
        "verify_calls": drafts,
        "accepted_tokens": drafts + grew("spec_decode_num_accepted_tokens_total") if drafts else 0.0,
        "queue_seconds": grew("request_queue_time_seconds_sum"),
        "queued": grew("request_queue_time_seconds_count"),
        "between_tokens_seconds": grew("request_decode_time_seconds_sum"),
        "between_tokens": max(0.0, generated - requests),
        "retractions": grew("num_preemptions_total"),
    }


def metrics(counted: Mapping[str, float]) -> Iterator[Metric]:
    """What is a figure of speed, or a term of it."""
    calls = counted.get("verify_calls")
    if calls:
        # The first token of a request comes from its prefill, not from a verification.
        tokens = counted.get("accepted_tokens") or counted.get("generated_tokens", 0.0) - counted.get("requests", 0.0)
        if tokens > 0:
            yield Metric("accept_length", tokens / calls, "tokens", Better.NEITHER, SOURCE)
    elif counted.get("decode_passes") and not counted.get("speculates"):
        yield Metric("accept_length", 1.0, "tokens", Better.NEITHER, SOURCE)
    if counted.get("between_tokens") and counted.get("between_tokens_seconds"):
        value = counted["between_tokens_seconds"] / counted["between_tokens"]
        yield Metric("tpot_seconds", value, "s", Better.LOWER, SOURCE)
    if steps := counted.get("decode_passes"):
        # NOTE: passes and times are both counted by every rank that tells any, so that their ratio is one rank's.
        for part in ("draft", "verify", "draft_extend", "decode"):
            if part in counted:
                yield Metric(f"{part}_seconds", counted[part] / steps, "s", Better.LOWER, SOURCE)
    timed_apart = "verify" not in counted or "draft_extend" in counted  # else `extend` holds the draft's too
    if "extend" in counted and "prefill_passes" in counted and timed_apart:
        value = counted["extend"] / counted["prefill_passes"]
        yield Metric("prefill_seconds", value, "s", Better.LOWER, SOURCE)


def values(counted: Mapping[str, float]) -> Iterator[tuple[str, Json]]:
    """What is state, zeros included where the whole is not zero."""
    for phase in ("decode", "prefill"):
        if passes := counted.get(f"{phase}_passes"):
            yield f"{ROOT}.{phase}_graph_percent", round(100 * counted.get(f"{phase}_graph", 0.0) / passes, 2)
    if passes := counted.get("decode_passes"):
        # NOTE: a call verifies one request, a pass a batch of them; without speculation a pass gives each a token.
        worked_on = counted.get("verify_calls") or counted.get("decode_tokens", 0.0)
        if worked_on:
            yield f"{ROOT}.decode_batch_mean_count", round(worked_on / passes, 3)
    if not counted.get("requests"):
        return
    yield f"{ROOT}.request_count", round(counted["requests"])
    yield f"{ROOT}.generated_tokens_count", round(counted.get("generated_tokens", 0.0))
    yield f"{ROOT}.retraction_count", round(counted.get("retractions", 0.0))
    if prompts := counted.get("prompt_tokens"):
        yield f"{ROOT}.prompt_tokens_count", round(prompts)
        yield f"{ROOT}.cached_prompt_percent", round(100 * counted.get("cached_tokens", 0.0) / prompts, 2)
    if queued := counted.get("queued"):
        yield f"{ROOT}.queue_mean_seconds", round(counted.get("queue_seconds", 0.0) / queued, 6)


def warnings(counted: Mapping[str, float]) -> Iterator[str]:
    """What misleads, in sentences."""
    hits, prompts = counted.get("cached_tokens", 0.0), counted.get("prompt_tokens", 0.0)
    if prompts and 100 * hits / prompts >= MANY_HITS_PERCENT:
        yield f"the prefix cache answered {hits / prompts:.0%} of the prompt tokens ({hits:,.0f} of {prompts:,.0f})"
    if retractions := counted.get("retractions"):
        yield f"{retractions:,.0f} requests were put back because the KV cache was full"
