"""Ranks share too few CPUs.

Each rank has a thread that launches kernels and must run at once when a step ends. A cpuset, an affinity inherited
from a launcher, a Slurm binding or one list for all ranks can leave several of them on one CPU; each then waits for
the other, and the GPU for both.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import cpus, middle
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of

CODE = "few_cpus"
NEEDS = ("worker[].cpus", "inherited.cpus", "cgroup.cpus", "cgroup.cpu_quota_cpus")

_LIMITS = ("worker[].cpus", "worker[].cpus_count", "inherited.cpus", "inherited.cpus_count", "cgroup.cpus",
           "cgroup.cpu_quota_cpus", "cgroup.cpu_limited")  # fmt: skip
_ENOUGH = 2
"""CPUs a rank, with its helpers."""


def tell(view: View) -> Iterator[Finding]:
    """Yield ranks that share too few CPUs."""
    short = [_short(facts) for facts in view.sides]
    changed = view.changed(*_LIMITS)
    if short[1] and not short[0] and changed:
        waits = middle(view.slow, "during.worker[].run_delay_median_percent")
        text = f"{short[1]}{f'; they wait {waits:.0f} % of the time' if waits and waits > 2 else ''}."
        yield Clue(text, STRONG if waits is None or waits > 2 else FAIR, tuple(changed))
    elif short[0] and short[1]:
        yield Mistake(
            f"{short[1]} on both sides",
            "Give each rank CPUs of its own, near its GPU.",
            tuple(view.slow.values("worker[].cpus")),
        )


def _short(facts: Facts) -> str:
    """In words, where ranks have fewer than two CPUs each; empty where not, or not known."""
    roles = ranks(facts)
    if not roles:
        return ""
    held = [cpus(v) for p, v in facts.values("worker[].cpus").items() if instances_of(p)[0] in roles]
    union = frozenset[int]().union(*held) if held else frozenset()
    quota = facts.get("cgroup.cpu_quota_cpus")
    if isinstance(quota, (int, float)) and quota < len(roles):
        return f"{len(roles)} ranks share a quota of {quota:g} CPUs"
    there = facts.get("cpu.threads_count")
    if not held or not all(held) or not isinstance(there, int):
        return ""
    if len(union) < min(_ENOUGH * len(held), there):
        return f"{len(held)} ranks share {len(union)} CPUs"
    return ""
