"""What the serving benchmarks of SGLang and vLLM have in common: their result objects grew from one script."""

from __future__ import annotations

from collections.abc import Sequence

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Measured, Metric, NoMetrics, positive, without_warm_up


def measured(document: Json, source: str, accept_field: str, e2e_stem: str, asked: Sequence[str]) -> Measured:
    """Throughput, latencies, accept length and, where that is known, the step time: accept length × time per token."""
    if not document.get("completed") or not document.get("total_output_tokens"):
        raise NoMetrics("The benchmark completed no request, or its requests generated no token.")
    found = [
        Metric("output_tokens_per_second", positive(document["output_throughput"]), "tok/s", Better.HIGHER, source)
    ]
    for name, stem in (("tpot_seconds", "tpot"), ("ttft_seconds", "ttft"), ("e2e_seconds", e2e_stem)):
        value = document.get(f"median_{stem}_ms")
        if _usable(value):
            samples = _samples(document.get("ttfts")) if stem == "ttft" else ()
            found.append(Metric(name, value / 1000, "s", Better.LOWER, source, samples))
    accept, tpot = document.get(accept_field), document.get("median_tpot_ms")
    if _usable(accept):
        found.append(Metric("accept_length", float(accept), "tokens", Better.NEITHER, source))
        if _usable(tpot):
            found.append(Metric("step_seconds", accept * tpot / 1000, "s", Better.LOWER, source))
    found.append(Metric("duration_seconds", positive(document["duration"]), "s", Better.NEITHER, source))
    names = (*asked, "completed", "total_input_tokens")
    request = {n: "inf" if v == float("inf") else v for n in names if (v := document.get(n)) is not None}
    return Measured(tuple(found), request, warnings=_warnings(document))


def _warnings(document: Json) -> tuple[str, ...]:
    found = []
    failed = sum(bool(error) for error in document.get("errors") or ()) or document.get("failed") or 0
    if failed:
        found.append(f"{failed} requests failed")
    short = sum(n <= 1 for n in document.get("output_lens") or ())
    if short:
        found.append(f"{short} requests generated at most one token")
    return tuple(found)


def _usable(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _samples(values: Json) -> tuple[float, ...]:
    return without_warm_up([float(v) for v in values or () if _usable(v)])
