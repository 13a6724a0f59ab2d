"""Batches are larger than the largest captured CUDA graph.

The largest graph and the number of requests at once are set independently of each other, by memory size,
speculation and arguments. Beyond the largest captured size the engine decodes without graphs and says nothing:
about four times the time a token.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.explanation import Mistake
from envsnap.explain.stories._look import argument, argument_changes
from envsnap.explain.story import Clue, Finding, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.reading import Json

CODE = "graph_sizes"
NEEDS = (
    "server[].dp[].graph_batch_sizes",
    "record[].graph_batch_sizes[]",
    "server[].argument[]",
    "record[].argument[]",
)

_LARGEST = (
    "cuda_graph_config.decode.max_bs",
    "cuda_graph_max_bs",
    "cuda_graph_max_bs_decode",
    "max_cudagraph_capture_size",
)
_ASKED = ("max_concurrency", "concurrency", "batch_size", "num_concurrent")
_SLOTS = ("max_running_requests", "max_num_seqs")


def tell(view: View) -> Iterator[Finding]:
    """Yield batches that no graph fits any more."""
    sides = [(_largest(view, side), _batch(view, side)) for side in (0, 1)]
    (then, batch_then), (now, batch_now) = sides
    if now is None or batch_now is None or now >= batch_now:
        return
    text = f"The largest captured graph is for {now} requests, and {batch_now} run at once: those steps run without."
    if then is not None and batch_then is not None and then < batch_then:
        yield Mistake(
            text.replace("those", "on both sides those"),
            "Raise --cuda-graph-max-bs, or lower the requests.",
            tuple(view.slow.values("server[].dp[].graph_batch_sizes")),
        )
        return
    changes: list[Change] = [
        *view.changed("server[].dp[].graph_batch_sizes", "record[].graph_batch_sizes[]"),
        *argument_changes(view, "*cuda_graph*", "*cudagraph*", *_SLOTS),
        *view.changed("server[].dp[].max_running_requests_count"),
        *(c for c in view.changes if c.path.startswith("request[") and any(name in c.path for name in _ASKED)),
    ]
    if changes:
        yield Clue(text, STRONG if _asked(view, 1) else FAIR, tuple(changes))


def _largest(view: View, side: int) -> int | None:
    """The largest batch size with a graph of decoding."""
    facts = view.sides[side]
    sizes = [n for v in facts.values("server[].dp[].graph_batch_sizes").values() for n in _integers(v)]
    sizes += [
        n for p, v in facts.values("record[].graph_batch_sizes[]").items() if "[decode]" in p for n in _integers(v)
    ]
    if sizes:
        return max(sizes)
    given = argument(view.settings[side], *_LARGEST)
    return int(given) if str(given).isdecimal() and int(given) > 0 else None


def _batch(view: View, side: int) -> int | None:
    """How many requests run at once: as the benchmark asked, within what the engine lets run."""
    slots = argument(view.settings[side], *_SLOTS)
    limit = int(slots) if str(slots).isdecimal() else None
    counts = view.sides[side].values("server[].dp[].max_running_requests_count").values()
    limit = next((n for n in counts if isinstance(n, int)), limit)
    asked = _asked(view, side)
    known = [n for n in (asked, limit) if n]
    return min(known) if asked and known else None


def _asked(view: View, side: int) -> int | None:
    runs = view.sides[side].side.runs
    for run in runs:
        for name in _ASKED:
            value = run.request.get(name)
            if isinstance(value, (int, float)) and value > 0:
                return int(value)
    return None


def _integers(value: Json) -> list[int]:
    return [n for n in value if isinstance(n, int)] if isinstance(value, list) else []
