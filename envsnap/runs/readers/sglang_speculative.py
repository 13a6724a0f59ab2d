"""SGLang's `scripts/playground/bench_speculative.py`, its JSONL.

Described after its source; not yet seen from a real run. `step_time` is the 20th percentile, in seconds.
"""

from __future__ import annotations

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Measured, Metric, positive

SOURCE = "bench_speculative"


def recognise(document: Json, text: str) -> bool:
    """By its three figures."""
    return isinstance(document, dict) and {"acc_length", "step_time", "speed"} <= document.keys()


def read(document: Json, text: str) -> Measured:
    """Speed, accept length, step time."""
    return Measured(
        (
            Metric("stream_tokens_per_second", positive(document["speed"]), "tok/s", Better.HIGHER, SOURCE),
            Metric("accept_length", positive(document["acc_length"]), "tokens", Better.NEITHER, SOURCE),
            Metric("step_seconds", positive(document["step_time"]), "s", Better.LOWER, SOURCE),
        ),
        {name: document[name] for name in ("batch_size", "steps", "topk", "num_draft_tokens") if name in document},
    )
