"""Output probe: what a server answers to a few fixed prompts, greedily, as hashes.

A server that became fast may have become wrong. The same prompts are put to it twice, outside the measured window:
where the two answers differ, greedy decoding is not deterministic there (batching and cached prefixes change the
order of sums), and a difference to another run says little.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from envsnap.host import Host
from envsnap.reading import Json, Missing, Why

DEFAULT_COUNT = 3
TOKENS = 48
SECONDS = 60.0
LIMIT = 4 << 20

PROMPTS = (
    "The capital of France is",
    "Count from one to twenty in words: one, two, three,",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a village at the edge of the forest,",
    "2 + 2 = 4\n3 + 5 = 8\n7 + 6 =",
    "Translate to German: 'The train leaves at nine in the morning.'",
    "A list of the planets in order of their distance from the sun:",
    "SELECT name, COUNT(*) FROM orders",
)


def probe(host: Host, base: str, count: int, key_file: str = "") -> dict[str, Json]:
    """Hashes of what the server at `base` answers to the first `count` prompts, asked twice.

    {"prompts_sha256", "tokens", "outputs", "again"}. Raises: Missing.
    """
    prompts = PROMPTS[:count]
    try:
        ask = _sglang if _serves_sglang(host, base, key_file) else _openai
        model = "" if ask is _sglang else _model(host, base, key_file)
        once, again = ([ask(host, base, model, prompt, key_file) for prompt in prompts] for _ in range(2))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise Missing(Why.NOT_SUPPORTED, f"an answer is not understood ({type(error).__name__}: {error})") from error
    return {"prompts_sha256": _sha256("\0".join(prompts)), "tokens": TOKENS, "outputs": once, "again": again}


def steady(found: Mapping[str, Json]) -> bool:
    """Whether the server gave the same answers twice."""
    return bool(found["outputs"] == found["again"])


def judged(a: Sequence[Mapping[str, Json]], b: Sequence[Mapping[str, Json]]) -> str:
    """What two sides' probes say of each other: a sentence, empty where they answer alike or one was not probed."""
    a, b = [found for found in a if found], [found for found in b if found]
    if not a or not b:
        return ""
    if len({(str(found["prompts_sha256"]), found["tokens"]) for found in (*a, *b)}) > 1:
        return "The two sides were probed with different prompts, so that their outputs were not compared."
    for name, side in (("A", a), ("B", b)):
        if not all(map(steady, side)) or len({str(found["outputs"]) for found in side}) > 1:
            return f"Greedy output is not deterministic on side {name}, so that equal outputs cannot be tested."
    one, two = a[0]["outputs"], b[0]["outputs"]
    different = sum(x != y for x, y in zip(one, two))
    if not different:
        return ""
    return (
        f"The two sides answer {different} of {len(one)} fixed prompts differently, though each gives the same answer "
        "twice: is the faster one wrong?"
    )


def _serves_sglang(host: Host, base: str, key_file: str) -> bool:
    """SGLang has an endpoint that vLLM lacks."""
    reply = host.one("http", f"{base}/model_info", None, SECONDS, LIMIT, key_file)
    return bool(reply["status"] == 200)


def _sglang(host: Host, base: str, model: str, prompt: str, key_file: str) -> str:
    sampling = {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True}
    answer = _post(host, f"{base}/generate", {"text": prompt, "sampling_params": sampling}, key_file)
    return _sha256(json.dumps(answer["output_ids"]) if "output_ids" in answer else answer["text"])


def _openai(host: Host, base: str, model: str, prompt: str, key_file: str) -> str:
    asked = {"model": model, "prompt": prompt, "temperature": 0, "max_tokens": TOKENS, "seed": 0}
    return _sha256(_post(host, f"{base}/v1/completions", asked, key_file)["choices"][0]["text"])


def _model(host: Host, base: str, key_file: str) -> str:
    answer = _parsed(host.one("http", f"{base}/v1/models", None, SECONDS, LIMIT, key_file), "/v1/models")
    return str(answer["data"][0]["id"])


def _post(host: Host, url: str, document: Json, key_file: str) -> Json:
    headers = {"Content-Type": "application/json"}
    reply = host.one("http", url, headers, SECONDS, LIMIT, key_file, json.dumps(document))
    return _parsed(reply, url[url.index("/", 8) :])


def _parsed(reply: Json, path: str) -> Json:
    if reply["status"] != 200:
        raise Missing(Why.NOT_SUPPORTED, f"the server answers {path} with status {reply['status']}")
    return json.loads(reply["body"])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
