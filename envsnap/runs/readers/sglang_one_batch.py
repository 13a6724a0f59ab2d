"""SGLang's one-batch benchmarks (`bench_one_batch`, `bench_one_batch_server`), their JSONL.

Read in the source of 0.5.16 and 0.5.23; not yet seen from a real run.
"""

from __future__ import annotations

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Measured, Metric, NoMetrics, positive

SOURCE = "sglang one batch"


def recognise(document: Json, text: str) -> bool:
    """By the fields of either form."""
    return (
        isinstance(document, dict)
        and {"run_name", "batch_size", "input_len", "output_len"} <= document.keys()
        and ("median_decode_latency" in document or "output_throughput" in document)
    )


def read(document: Json, text: str) -> Measured:
    """Decode throughput of the last case; with several cases in one file each would need a run of its own."""
    found = []
    if "median_decode_latency" in document:
        throughput = positive(document["median_decode_throughput"])
        found.append(Metric("output_tokens_per_second", throughput, "tok/s", Better.HIGHER, SOURCE))
        found.append(Metric("step_seconds", positive(document["median_decode_latency"]), "s", Better.LOWER, SOURCE))
        found.append(Metric("prefill_seconds", positive(document["prefill_latency"]), "s", Better.LOWER, SOURCE))
    else:
        throughput = positive(document["output_throughput"])
        found.append(Metric("output_tokens_per_second", throughput, "tok/s", Better.HIGHER, SOURCE))
        found.append(Metric("ttft_seconds", positive(document["last_ttft"]), "s", Better.LOWER, SOURCE))
        accept = document.get("acc_length")
        if isinstance(accept, (int, float)) and accept > 0:
            found.append(Metric("accept_length", float(accept), "tokens", Better.NEITHER, SOURCE))
            step = accept * document["batch_size"] / throughput
            found.append(Metric("step_seconds", positive(step), "s", Better.LOWER, SOURCE))
    if not found:
        raise NoMetrics("The benchmark reported no throughput.")
    request = {name: document[name] for name in ("run_name", "batch_size", "input_len", "output_len")}
    hit = document.get("cache_hit_rate")
    warnings = (f"prefix cache hits: {hit:.0%}",) if isinstance(hit, (int, float)) and hit > 0 else ()
    return Measured(tuple(found), request, warnings=warnings)
