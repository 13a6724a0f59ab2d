"""The server's own figures over the measured window: how its counters grew while the benchmark ran.

Right before the benchmark starts and right after it ends the server is asked for `/metrics` and `/server_info`. What
lies between is of the benchmark as a whole, its own warm-up requests included.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from envsnap.host import Host
from envsnap.reading import Found, Json, Unavailable, Value, Why
from envsnap.runs import server_counters as counters
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.prometheus import MAX_BYTES, Page, parse
from envsnap.runs.server_counters import ROOT, SOURCE

SECONDS = 5.0


@dataclass(frozen=True)
class Sight:
    """What a server said at one moment: its metrics, accept lengths since its cache was last flushed by DP rank, and
    the times of its decode steps so far by DP rank and batch size (under SGLANG_RECORD_STEP_TIME=1).

    `why` says why there are no metrics.
    """

    page: Page | None
    why: Unavailable | None = None
    accept_lengths: tuple[float, ...] = ()
    step_seconds: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Figures:
    """What a window showed: `metrics` of the run, readings for its section `during`, and warnings in sentences."""

    metrics: tuple[Metric, ...] = ()
    values: dict[str, Json] = field(default_factory=dict)
    unavailable: dict[str, Unavailable] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def unknown(why: Why, detail: str) -> Figures:
    """No figures, and why."""
    return Figures(unavailable={ROOT: Unavailable(why, detail)})


def look(host: Host, base: str, key_file: str = "") -> Sight:
    """Ask a server at this moment."""
    paths = ("/metrics", "/server_info")
    answers = host.found([["http", base + path, None, SECONDS, MAX_BYTES, key_file] for path in paths])
    metrics, info = (_body(path, answer) for path, answer in zip(paths, answers))
    told = _told(info) if isinstance(info, str) else ((), {})
    if isinstance(metrics, Unavailable):
        return Sight(None, metrics, *told)
    try:
        return Sight(parse(metrics), None, *told)
    except ValueError as error:
        return Sight(None, Unavailable(Why.NOT_SUPPORTED, f"/metrics is not understood: {error}"), *told)


def between(before: Sight, after: Sight) -> Figures:
    """The figures of the window between two sights of one server."""
    if before.page is None or after.page is None:
        return _averaged(before, after, before.why or after.why or Unavailable(Why.ABSENT))
    counted = counters.counted(before.page, after.page)
    if not counted:
        known = any(name.startswith(("sglang:", "vllm:")) for name in after.page.samples)
        idle = ("the server did nothing while the benchmark ran: does that ask another one?",) if known else ()
        why = Unavailable(Why.NOT_SUPPORTED, "no counter of SGLang or vLLM in /metrics grew")
        return Figures(unavailable={ROOT: why}, warnings=idle)
    metrics = (*counters.metrics(counted), *_steps(before, after))
    return Figures(metrics, dict(counters.values(counted)), {}, tuple(counters.warnings(counted)))


def joined(own: tuple[Metric, ...], server: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """The benchmark's metrics and beneath them the server's, each name once; the step time follows where it can."""
    found = {m.name: m for m in (*reversed(server), *reversed(own))}
    order = dict.fromkeys(m.name for m in (*own, *server))
    metrics = [found[name] for name in order]
    accept, speeds = found.get("accept_length"), {m.name: m.value for m in reversed(own)}
    per_token = speeds.get("tpot_seconds")
    if per_token is None and "stream_tokens_per_second" in speeds:
        per_token = 1 / speeds["stream_tokens_per_second"]
    elif per_token is None and "tpot_seconds" in found:
        per_token = found["tpot_seconds"].value
    if accept and per_token and "step_seconds" not in found:
        step = Metric("step_seconds", accept.value * per_token, "s", Better.LOWER, SOURCE)
        metrics.insert(metrics.index(accept) + 1, step)
    return tuple(metrics)


def disagreement(own: tuple[Metric, ...], server: tuple[Metric, ...]) -> str:
    """A sentence where the benchmark's accept length is not that of the window; else empty."""
    one, two = (next((m.value for m in side if m.name == "accept_length"), None) for side in (own, server))
    if one is None or two is None or abs(math.log(one / two)) < 0.03:
        return ""
    return (
        f"the benchmark reports an accept length of {one:.3f}, the server's counters over the run give {two:.3f}: "
        "the former may hold what came before, or one rank alone"
    )


def _averaged(before: Sight, after: Sight, why: Unavailable) -> Figures:
    """What /server_info alone tells: an average since the cache was last flushed, renewed every few dozen steps."""
    unavailable = {ROOT: why}
    steps = tuple(_steps(before, after))
    if not after.accept_lengths:
        return Figures(steps, unavailable=unavailable)
    if after.accept_lengths == before.accept_lengths:
        stale = "the server's accept length did not move during the run, and is left out"
        return Figures(steps, unavailable=unavailable, warnings=(stale,))
    value = sum(after.accept_lengths) / len(after.accept_lengths)
    metric = Metric("accept_length", value, "tokens", Better.NEITHER, "server, since its cache was last flushed")
    held = (
        ("accept length is the server's average since its cache was last flushed, not of this run alone",)
        if before.accept_lengths
        else ()
    )
    return Figures((metric, *steps), {}, unavailable, held)


def _steps(before: Sight, after: Sight) -> Iterator[Metric]:
    """The median time of the steps that came since: each is the mean of some dozens, so the first may hold a pause."""
    new = [s for key, times in after.step_seconds.items() for s in times[len(before.step_seconds.get(key, ())) :]]
    if new:
        yield Metric("step_seconds", median(new), "s", Better.LOWER, SOURCE)


def _told(body: str) -> tuple[tuple[float, ...], dict[str, list[float]]]:
    """Accept lengths and step times in /server_info, of each DP rank that decoded anything."""
    try:
        states = json.loads(body, parse_constant=lambda _: None)["internal_states"]
        lengths = [state.get("avg_spec_accept_length") for state in states]
        steps = {
            f"{rank}/{size}": [float(s) for s in times if _positive(s)]
            for rank, state in enumerate(states)
            for size, times in (state.get("step_time_dict") or {}).items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return (), {}
    return tuple(float(v) for v in lengths if _positive(v)), steps


def _positive(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e6


def _body(path: str, answer: Found) -> str | Unavailable:
    """What the server answered at a path, or why nothing."""
    if isinstance(answer, Unavailable):
        return answer
    if not isinstance(answer, Value):
        return Unavailable(Why.ABSENT, f"{path}: {answer.message}")
    status = answer.value["status"]
    if status == 200:
        return str(answer.value["body"])
    if status in (404, 405):
        hint = "; SGLang has them under --enable-metrics" if path == "/metrics" else ""
        return Unavailable(Why.NOT_SUPPORTED, f"the server has no {path}{hint}")
    return Unavailable(Why.NOT_SUPPORTED, f"the server answers {path} with status {status}")
