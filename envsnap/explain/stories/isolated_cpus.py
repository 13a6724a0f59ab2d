"""CPUs are withheld from scheduling, and the workers are on them or need them.

The kernel places nothing on isolated CPUs by itself and does not spread what is bound there: threads that share one
stay on it. Isolating CPU 0, or those that interrupts go to, starves the host's side of every step: 148,000 tokens a
second became 50,000 by `isolcpus=0,1,48,49`, while five other kernel parameters of the same profile did nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.explanation import Mistake
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import cpus, middle
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of

CODE = "isolated_cpus"
NEEDS = ("cpu.isolated", "kernel.parameter[]", "worker[].cpus")

_PARAMETERS = ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity", "kthread_cpus")
_WAITING = 2.0
"""Percent of time that a worker waits for a CPU, from which it starves."""


def tell(view: View) -> Iterator[Finding]:
    """Yield isolation that hurts the workers."""
    changed = [*view.changed("cpu.isolated"), *_parameters(view)]
    affinity = view.changed("worker[].cpus", "worker[].cpus_count")
    isolated = [cpus(facts.get("cpu.isolated")) for facts in view.sides]
    if isolated[1] - isolated[0] and changed:
        first = "CPU 0 is among them. " if 0 in isolated[1] else ""
        waits = _waits(view)
        hurt = bool(first) or _on_isolated(view.slow, isolated[1]) or waits
        text = f"{len(isolated[1])} CPUs are withheld from scheduling that were not. {first}"
        text += "Workers wait for a CPU. " if waits else ""
        yield Clue(text.strip(), STRONG if hurt else FAIR, tuple(changed))
    elif _on_isolated(view.slow, isolated[1]) and not _on_isolated(view.fast, isolated[0]) and affinity:
        yield Clue(
            "Workers are bound to isolated CPUs, where the kernel does not spread their threads.",
            STRONG,
            tuple(affinity),
        )
    elif _on_isolated(view.slow, isolated[1]) and _on_isolated(view.fast, isolated[0]):
        yield Mistake(
            "Workers are bound to isolated CPUs on both sides",
            "Bind each thread by itself, or boot without isolcpus.",
            ("cpu.isolated",),
        )


def _parameters(view: View) -> list[Change]:
    return [c for c in view.changed("kernel.parameter[]") if instances_of(c.path)[0] in _PARAMETERS]


def _on_isolated(facts: Facts, isolated: frozenset[int]) -> bool:
    """Whether some rank may run on isolated CPUs alone."""
    held = {instances_of(p)[0]: cpus(v) for p, v in facts.values("worker[].cpus").items()}
    return any(held.get(role) and held[role] <= isolated for role in ranks(facts))


def _waits(view: View) -> bool:
    key = "during.worker[].run_delay_median_percent"
    then, now = (middle(facts, key) for facts in view.sides)
    return now is not None and now > _WAITING and now > 2 * (then or 0.0)
