"""Prompts are computed in more parts.

An engine computes a long prompt in parts, each of them a step of its own: a smaller part leaves the GPU less to do at
once and makes the first token later. Whether it matters at all depends on the prompts: one that fits is computed at
once, however much larger the limit is. The server's or the benchmark's count of prompt tokens says how long they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from envsnap.explain.setting import Setting
from envsnap.explain.stories._look import argument, argument_changes, cached_share, prompt_tokens
from envsnap.explain.story import Clue, Finding, View
from envsnap.explain.symptom import NOTICED
from envsnap.explain.weights import FAIR, STRONG

CODE = "prompt_parts"
NEEDS = ("server[].argument[]", "record[].argument[]", "server[].launch_command", "worker[].argv")

_SIZES = ("chunked_prefill_size", "max_num_batched_tokens", "long_prefill_token_threshold")
_MORE = 1.5
"""Times as many parts that count as more."""
_SURELY = 2.0
"""A limit that is so many times what is asked at once is not reached, though some prompts are longer than others."""


def tell(view: View) -> Iterator[Finding]:
    """Yield limits that make more parts of the prompts that were sent, and those that no prompt comes to."""
    sent = [n for facts in view.sides if (n := prompt_tokens(facts)) is not None]
    if len(sent) < len(view.sides):
        return
    shares = [share for facts in view.sides if (share := cached_share(facts)) is not None]
    computed = [tokens * (1 - min(max(share, 0.0), 1.0)) for tokens, share in zip(sent, shares)]
    for name in _SIZES:
        changes = argument_changes(view, name)
        then, now = (_size(setting, name) for setting in view.settings)
        if not changes or then is None or now is None:
            continue
        # NOTE: where the cache's part is not known, nor are the parts; what fits whole fits all the more.
        parts = [math.ceil(tokens / size) or 1 for tokens, size in zip(computed, (then, now))]
        if len(shares) == len(sent) and parts[1] >= _MORE * parts[0]:
            weight = STRONG if view.symptom.terms.get("prefill", 0.0) >= NOTICED else FAIR
            before = "at once" if parts[0] == 1 else f"in {parts[0]}"
            text = f"A prompt of about {computed[1]:.0f} tokens is computed in {parts[1]} parts, not {before}."
            yield Clue(text, weight, tuple(changes))
        elif (many := view.setting.concurrency) and min(then, now) >= _SURELY * max(sent) * many:
            text = f"Prompts of about {max(sent):.0f} tokens are computed at once on both sides."
            yield Clue(text, -STRONG, tuple(changes))


def _size(setting: Setting, name: str) -> float | None:
    """Tokens of a part; infinite where prompts are not parted, None where that is not known."""
    value = argument(setting, name)
    try:
        size = float(str(value))
    except (TypeError, ValueError):
        return None
    return None if math.isnan(size) else size if size > 0 else math.inf
