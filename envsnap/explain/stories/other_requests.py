"""The benchmark asked for other work.

Other prompts, lengths, numbers of requests at once or sampling are another measurement: throughput, acceptance and
time a token follow them. It is the client's doing, and no reading of the machine shows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.story import Clue, Finding, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of
from envsnap.wording import reading_text

CODE = "other_requests"
# NOTE: what was asked for is no reading; any snapshot of a machine will do.
NEEDS = ("os.hostname", "os.libc", "worker[].argv", "server[].argument[]", "nvml.gpu_count", "kernel.release")

_WORK = ("concurrency", "batch", "len", "rate", "prompt", "dataset", "temperature", "num_", "steps", "topk", "tokens")


def tell(view: View) -> Iterator[Finding]:
    """Yield what was asked for differently."""
    asked = [c for c in view.changes if c.path.startswith("request[")]
    work = [c for c in asked if any(word in instances_of(c.path)[0].lower() for word in _WORK)]
    if not work:
        return
    told = ", ".join(
        f"{instances_of(c.path)[0]} {reading_text(c.key, c.before)} → {reading_text(c.key, c.after)}" for c in work[:4]
    )
    weight = STRONG if view.symptom.moved("accept_length") else FAIR
    yield Clue(f"The two sides measured different work: {told}.", weight, tuple(work))
