"""vLLM's serving benchmark (`vllm bench serve --save-result`), its JSON.

Described after its source (2026); not yet seen from a real run.
"""

from __future__ import annotations

from envsnap.reading import Json
from envsnap.runs.metrics import Measured
from envsnap.runs.readers._serving import measured

_ASKED = ("backend", "endpoint_type", "model_id", "num_prompts", "request_rate", "burstiness", "max_concurrency")


def recognise(document: Json, text: str) -> bool:
    """By two fields that no other tool writes together."""
    return isinstance(document, dict) and "total_token_throughput" in document and "output_throughput" in document


def read(document: Json, text: str) -> Measured:
    """See `_serving.measured`."""
    return measured(document, "vllm bench serve", "spec_decode_acceptance_length", "e2el", _ASKED)
