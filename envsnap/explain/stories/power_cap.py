"""A power limit acts where the GPU draws that much: in prefill, seldom in decoding.

Decoding waits for memory and draws a third to a half of the limit, so that a lower limit changes nothing there. It
acts where the driver names the power cap as a reason under load, or where the time to the first token moved.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import most, numbers
from envsnap.explain.story import Clue, Finding, View, after, before
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of

CODE = "power_cap"
NEEDS = ("gpu[].power_limit_watts", "gpu[].enforced_power_limit_watts")

_LIMITS = ("gpu[].power_limit_watts", "gpu[].enforced_power_limit_watts")


def tell(view: View) -> Iterator[Finding]:
    """Yield whether a changed limit can have acted."""
    changed = [
        c for c in view.changed(*_LIMITS) if isinstance(before(c), (int, float)) and isinstance(after(c), (int, float))
    ]
    lower = [c for c in changed if after(c) < before(c)]
    if not lower:
        return
    capped = _capped(view)
    drawn = most(view.slow, "during.gpu[].power_p95_watts")
    limit = min(float(after(c)) for c in lower)
    if capped:
        yield Clue(f"The driver names the power cap in {capped:.0f} % of the busy samples.", STRONG, tuple(lower))
    elif drawn is not None and drawn < 0.9 * limit:
        yield Clue(
            f"GPUs draw {drawn:.0f} W at most under load, and {limit:.0f} W are allowed: it does not act.",
            -STRONG,
            tuple(lower),
        )
    elif view.symptom.terms.get("prefill", 0.0) > 0.04 and view.symptom.step_moved is not True:
        yield Clue("Prefill slowed and decoding did not, as under a power cap.", FAIR, tuple(lower))
    elif drawn is None and view.symptom.measured:
        yield Clue(
            "Decoding draws a third to a half of such a limit, so that a cap seldom acts on it.", -FAIR, tuple(lower)
        )


def _capped(view: View) -> float:
    """The share of busy samples in which the power cap held clocks down, where it is more than on the fast side."""
    shares = []
    for facts in view.sides:
        held = numbers(facts, "during.gpu[].throttle_percent[]")
        shares.append(max((v for p, v in held.items() if instances_of(p)[-1] == "sw_power_cap"), default=0.0))
    return shares[1] if shares[1] >= 5 and shares[1] > 1.5 * shares[0] else 0.0
