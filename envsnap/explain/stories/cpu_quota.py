"""A quota stops the workers.

A container's CPU limit is granted in slices of a tenth of a second: threads that used theirs up stand still until
the next. A rank spins while it waits for the GPU, so that it always takes a whole CPU, and its helpers come on top.
The kernel counts the periods in which the group was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.ranks import ranks
from envsnap.explain.story import Clue, Facts, Finding, Together, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import Effect
from envsnap.reading import Value

CODE = "cpu_quota"
NEEDS = ("cgroup.cpu_quota_cpus", "cgroup.cpu_throttled_count", "cgroup.cpu_limited")

_COUNT = "cgroup.cpu_throttled_count"
_PER_RANK = 2.0
_SOME = 50
"""Periods in which the group was stopped, from which it counts."""


def tell(view: View) -> Iterator[Finding]:
    """Yield a quota that stopped the slow side."""
    changed = view.changed("cgroup.cpu_quota_cpus", "cgroup.cpu_limited", "cgroup.cpu_weight", "cgroup.cpu_shares")
    stopped = [_stopped(facts) for facts in view.sides]
    tight = [_tight(facts) for facts in view.sides]
    if stopped[1] > _SOME and stopped[1] > 10 * stopped[0]:
        count = Change(_COUNT, key_for(_COUNT), Value(stopped[0]), Value(stopped[1]))
        yield Together(
            "the CPU quota stops the workers",
            "Threads stand still until the next slice of CPU time.",
            (*changed, count),
            (Effect.HOST_LAUNCH, Effect.COMMUNICATION),
            (
                Evidence(
                    f"The group was stopped in {stopped[1]} periods on the slow side, not {stopped[0]}.",
                    STRONG,
                    (_COUNT,),
                ),
            ),
            prior=0.6,
        )
    elif tight[1] and not tight[0] and changed:
        yield Clue(f"{tight[1]}.", FAIR, tuple(changed))
    if tight[0] and tight[1]:
        yield Mistake(
            f"{tight[1]} on both sides",
            "Raise the container's CPU limit, or use CPU sets instead.",
            ("cgroup.cpu_quota_cpus",),
        )


def _stopped(facts: Facts) -> int:
    """Periods in which the group was stopped: during a run, else since the group was made."""
    grown = []
    for run in facts.side.runs:
        first, last = run.snapshots.get("before"), run.snapshots.get("after")
        if first is not None and last is not None and _COUNT in first.values and _COUNT in last.values:
            grown.append(int(last.values[_COUNT]) - int(first.values[_COUNT]))
    count = facts.get(_COUNT)
    return max(grown) if grown else count if isinstance(count, int) else 0


def _tight(facts: Facts) -> str:
    quota, roles = facts.get("cgroup.cpu_quota_cpus"), len(ranks(facts))
    if isinstance(quota, (int, float)) and roles and quota < _PER_RANK * roles:
        return f"A quota of {quota:g} CPUs for {roles} ranks, each of which needs one and more for its helpers"
    return ""
