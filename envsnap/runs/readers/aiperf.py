"""AIPerf's aggregated statistics (`profile_export_aiperf.json`), and GenAI-Perf's of the same form.

Described after AIPerf's documentation (2025-10); not yet seen from a real run.
"""

from __future__ import annotations

from datetime import datetime, timezone

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Measured, Metric, NoMetrics, positive

SOURCE = "aiperf"

# Field -> metric, the statistic taken for it, its unit, which direction is good
_FIELDS = {
    "output_token_throughput": ("output_tokens_per_second", "avg", "tok/s", Better.HIGHER),
    "output_token_throughput_per_user": ("stream_tokens_per_second", "p50", "tok/s", Better.HIGHER),
    "inter_token_latency": ("tpot_seconds", "p50", "s", Better.LOWER),
    "time_to_first_token": ("ttft_seconds", "p50", "s", Better.LOWER),
    "request_latency": ("e2e_seconds", "p50", "s", Better.LOWER),
}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}


def recognise(document: Json, text: str) -> bool:
    """By its statistics with a unit."""
    latency = document.get("request_latency") if isinstance(document, dict) else None
    return isinstance(latency, dict) and "unit" in latency and "avg" in latency


def read(document: Json, text: str) -> Measured:
    """The statistics that are there, latencies in seconds."""
    found = []
    for field, (name, statistic, unit, better) in _FIELDS.items():
        entry = document.get(field)
        if isinstance(entry, dict) and statistic in entry:
            scale = _SECONDS[entry["unit"]] if unit == "s" else 1.0
            found.append(Metric(name, positive(entry[statistic]) * scale, unit, better, SOURCE))
    if not found:
        raise NoMetrics("The export holds no throughput and no latency.")
    warnings = ["the benchmark was cancelled before its end"] if document.get("was_cancelled") else []
    failed = sum(int(e.get("count", 0)) for e in document.get("error_summary") or ())
    if failed:
        warnings.append(f"{failed} requests failed")
    asked = document.get("input_config") or {}
    request = {name: asked[name] for name in ("input", "loadgen") if name in asked}
    return Measured(tuple(found), request, _window(document), tuple(warnings))


def _window(document: Json) -> tuple[float, float] | None:
    """Its start and end, which it writes in UTC without saying so."""
    try:
        start, end = (datetime.fromisoformat(document[n]) for n in ("start_time", "end_time"))
    except (KeyError, TypeError, ValueError):
        return None
    start, end = (t if t.tzinfo else t.replace(tzinfo=timezone.utc) for t in (start, end))
    return start.timestamp(), end.timestamp()
