"""/dev/shm is as small as a container's default, or full.

Ranks that cannot reach each other directly exchange through shared memory there, data loaders and tokenizers too.
64 MB is Docker's default. What killed servers left there takes its share.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.stories._look import most
from envsnap.explain.story import Clue, Finding, View, after, before
from envsnap.explain.weights import FAIR, STRONG

CODE = "shm_small"
NEEDS = ("memory.shm_size_bytes",)

SMALL = 1 << 30
"""Below this, several ranks run short."""


def tell(view: View) -> Iterator[Finding]:
    """Yield a shared memory that became too small."""
    for change in view.changed("memory.shm_size_bytes"):
        now, then = after(change), before(change)
        if isinstance(now, int) and isinstance(then, int) and now < SMALL and now < then / 4:
            weight = STRONG if view.setting.communicates else FAIR
            yield Clue(
                f"Shared memory is {now >> 20} MiB, not {then >> 20} MiB: a container's default.", weight, (change,)
            )
    sizes = [most(facts, "memory.shm_size_bytes") for facts in view.sides]
    if all(size is not None and size <= 64 << 20 for size in sizes) and view.setting.communicates:
        yield Mistake(
            "/dev/shm has 64 MiB on both sides",
            "Start the container with --shm-size=16g or --ipc=host.",
            ("memory.shm_size_bytes",),
        )
