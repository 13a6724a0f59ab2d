"""SGLang's single prompt (`python -m sglang.test.send_one`), its table on standard output.

Seen: 0.5.16.
"""

from __future__ import annotations

import re

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Measured, Metric, NoMetrics, positive

SOURCE = "sglang.test.send_one"
_HEAD = re.compile(r"\|\s*Latency \(s\)\s*\|\s*Tokens\s*\|\s*Acc Length\s*\|\s*Speed \(token/s\)\s*\|")
_ROW = re.compile(r"^\|\s*([\d.]+)\s*\|\s*(\d+)\s*\|\s*([\d.]+)\s*\|\s*([\d.]+)\s*\|\s*$", re.MULTILINE)


def recognise(document: Json, text: str) -> bool:
    """By the table's head."""
    return bool(_HEAD.search(text))


def read(document: Json, text: str) -> Measured:
    """Speed of the last table's row; step time follows from latency and accept length."""
    rows = _ROW.findall(text[[m.end() for m in _HEAD.finditer(text)][-1] :])
    if not rows:
        raise NoMetrics("The table has no row: the request did not finish.")
    latency, tokens, accept, speed = (float(cell) for cell in rows[0])
    if tokens < 2:
        raise NoMetrics("The request generated fewer than two tokens.")
    return Measured(
        (
            Metric("stream_tokens_per_second", positive(speed), "tok/s", Better.HIGHER, SOURCE),
            Metric("accept_length", positive(accept), "tokens", Better.NEITHER, SOURCE),
            Metric("step_seconds", positive(latency * accept / tokens), "s", Better.LOWER, SOURCE),
        ),
        {"output_tokens": int(tokens)},
    )
