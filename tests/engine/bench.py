"""The benchmark of the engine's bench: greedy requests one after the other, figures as one JSON document.

    python bench.py --port N --out FILE --prompts FILE [--tokens 96] [--seconds 0]

Standard library only, so that it runs in any environment. The file holds a prompt a line; its first one is asked to
warm up and is not counted. Text comes as a stream, since the time to the first token tells prefill from decoding.
Figures are medians over the requests, which a single stutter of the machine does not move.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

WORDS = """
the of and to in is was that for it with as on be at by this have from or one had not but what all were when we
there can your which their said if do will each about how up out them then she many some so these would other into
has more her two like him see time could no make than first been its who now people my made over did down only way
find use may water long little very after words called just where most know get through back much before go good
"""


def prompts_of(seed: int, words: int, count: int = 7) -> str:
    """The file of a seed: prompts that share no beginning."""
    draw = random.Random(seed)
    return "".join(" ".join(draw.choices(WORDS.split(), k=words)) + "\n" for _ in range(count))


def ask(port: int, prompt: str, tokens: int, timeout: float) -> dict[str, Any]:
    """One request: seconds to the first token and to the last, tokens, and what the engine says of speculation."""
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    body = json.dumps({"text": prompt, "sampling_params": sampling, "stream": True}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/generate", body, {"Content-Type": "application/json"})
    began = time.perf_counter()
    first = 0.0
    meta: dict[str, Any] = {}
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        for line in reply:
            if line.startswith(b"data: {"):
                first = first or time.perf_counter() - began
                meta = json.loads(line[6:])["meta_info"]
    whole = time.perf_counter() - began
    count = int(meta["completion_tokens"])
    steps = meta.get("spec_verify_ct") or count
    return {
        "ttft_seconds": first,
        "whole_seconds": whole,
        "tokens": count,
        "step_seconds": (whole - first) / max(steps - 1, 1),
        "stream_tokens_per_second": (count - 1) / (whole - first),
        "output_tokens_per_second": count / whole,
        "accept_length": meta.get("spec_accept_length"),
        "cached_tokens": meta.get("cached_tokens"),
    }


FIGURES = ("output_tokens_per_second", "stream_tokens_per_second", "step_seconds", "ttft_seconds", "accept_length")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--port", type=int, required=True)
    add("--out", required=True)
    add("--prompts", required=True)
    add("--tokens", type=int, default=96)
    add("--concurrency", type=int, default=1, help="requests at once")
    add("--seconds", type=float, default=0.0, help="ask all of them again until so much time has passed")
    add("--timeout", type=float, default=600.0)
    given = parser.parse_args()
    with open(given.prompts, encoding="utf-8") as file:
        warm_up, *prompts = file.read().splitlines()
    ask(given.port, warm_up, given.tokens, given.timeout)
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    with ThreadPoolExecutor(given.concurrency) as pool:
        while not rows or time.perf_counter() - began < given.seconds:
            rows += pool.map(lambda prompt: ask(given.port, prompt, given.tokens, given.timeout), prompts)
    figures = {
        name: statistics.median(values)
        for name in FIGURES
        if len(values := [row[name] for row in rows if row[name]]) == len(rows)
    }
    with open(given.out, "w", encoding="utf-8") as file:
        json.dump({**figures, "requests": rows}, file)
    print(" ".join(f"{name}={value:.5g}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
