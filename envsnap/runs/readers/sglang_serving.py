"""SGLang's serving benchmark (`sglang.benchmark.serving`, `bench_serving`), its JSONL.

Seen: 0.5.16. `--output-details` adds the per-request samples.
"""

from __future__ import annotations

from envsnap.reading import Json
from envsnap.runs.metrics import Measured
from envsnap.runs.readers._serving import measured

_ASKED = ("backend", "dataset_name", "request_rate", "max_concurrency", "random_input_len", "random_output_len",
          "random_range_ratio", "sharegpt_output_len")  # fmt: skip


def recognise(document: Json, text: str) -> bool:
    """By two fields that no other tool writes together."""
    return isinstance(document, dict) and "sharegpt_output_len" in document and "output_throughput" in document


def read(document: Json, text: str) -> Measured:
    """See `_serving.measured`."""
    return measured(document, "sglang.benchmark.serving", "accept_length", "e2e_latency", _ASKED)
