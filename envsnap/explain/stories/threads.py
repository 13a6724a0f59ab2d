"""Threads are sized to the node and not to what the workers may use, or a setting of them came too late.

A library takes as many threads as it sees CPUs, whatever a container's quota grants; the quota then stops all of
them at once. OMP_NUM_THREADS set after the library was imported changes nothing, so that the variable says one
number and the process runs with another: what torch itself reports counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.harm_values import number
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import argument_changes, middle, variable, variable_changes
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.keys import instances_of, path_of

CODE = "threads"
NEEDS = ("record[].torch.num_threads", "cgroup.cpu_quota_cpus", "worker[].cpus_count", "inherited.cpus_count")

_VARIABLES = ("OMP_*", "MKL_*", "OPENBLAS_*", "KMP_*", "GOMP_*", "NUMEXPR_*")


def tell(view: View) -> Iterator[Finding]:
    """Yield threads that do not fit."""
    threads = view.changed("record[].torch.num_threads", "record[].torch.num_interop_threads")
    settings = variable_changes(view, *_VARIABLES)
    limits = view.changed("cgroup.cpu_quota_cpus", "cgroup.cpu_limited", "worker[].cpus_count", "cgroup.cpus")
    yield from _asked_for(view)
    crowded = [_crowded(facts) for facts in view.sides]
    if crowded[1] and not crowded[0] and (threads or settings or limits):
        yield Clue(f"{crowded[1]}.", STRONG if _stopped(view.slow) else FAIR, (*threads, *settings, *limits))
    elif crowded[1] and crowded[0]:
        yield Mistake(
            f"{crowded[1]} on both sides",
            "Set OMP_NUM_THREADS, before Python starts, to the CPUs that a rank may use.",
            tuple(view.slow.values("record[].torch.num_threads")),
        )
    late = [_late(facts) for facts in view.sides]
    if late[1] and not late[0] and threads:
        yield Clue(f"{late[1]}: it was set after the library was imported.", STRONG, (*threads, *settings))
    elif settings and not threads and _known(view):
        yield Clue("torch runs as many threads as before, whatever the variable says.", -FAIR, tuple(settings))
    elif threads and not settings:
        yield Clue(
            "Threads changed, and no variable of them did: something sets them in the process.", WEAK, tuple(threads)
        )


_LIMITS = ("cgroup.cpu_quota_cpus", "inherited.cpus_count", "worker[].cpus_count")
_WAITING = ("during.worker[].run_delay*", "during.worker[].involuntary*", "during.host.cpu_pressure*",
            "cgroup.cpu_throttled*")  # fmt: skip


def _asked_for(view: View) -> Iterator[Finding]:
    """Options that ask for more threads or workers than there are CPUs, which are as many as before."""
    limits = [_granted(facts) for facts in view.sides]
    limit = limits[1]
    if limit is None or limits[0] != limit:
        return
    # NOTE: where torch says how many threads it has, what a variable asks for is not needed.
    variables = [] if _known(view) else variable_changes(view, "*_NUM_THREADS")
    for change in (*argument_changes(view, "*thread*", "*worker*"), *variables):
        was, now = number(change.before), number(change.after)
        if now is not None and now > max(limit, was or 0):
            waits = view.changed(*_WAITING)
            yield Clue(
                f"It asks for {now:g}, and there are {limit:g} CPUs as before.",
                STRONG if waits else FAIR,
                (change,),
                (change.path, *(c.path for c in waits[:1])),
            )


def _granted(facts: Facts) -> float | None:
    """The fewest CPUs that a limit leaves one side; None where no limit is known."""
    found = [v for key in _LIMITS for v in facts.values(key).values() if isinstance(v, (int, float))]
    return min((float(v) for v in found if v > 0), default=None)


def _known(view: View) -> bool:
    """Whether both sides say how many threads torch has."""
    return all(facts.has("record[].torch.num_threads") for facts in view.sides)


def _crowded(facts: Facts) -> str:
    """In words, where the ranks together run more threads than they have CPUs; empty where not, or not known."""
    per_rank = middle(facts, "record[].torch.num_threads")
    roles = ranks(facts)
    if per_rank is None or per_rank <= 1 or not roles:
        return ""
    quota = facts.get("cgroup.cpu_quota_cpus")
    if isinstance(quota, (int, float)) and per_rank * len(roles) > 2 * quota:
        return f"{len(roles)} ranks have {per_rank:.0f} threads each, and the quota grants {quota:g} CPUs"
    own = middle(facts, "worker[].cpus_count")
    if own is not None and per_rank > own:
        return f"A rank has {per_rank:.0f} threads on {own:.0f} CPUs"
    return ""


def _stopped(facts: Facts) -> bool:
    count = facts.get("cgroup.cpu_throttled_count")
    return isinstance(count, int) and count > 0


def _late(facts: Facts) -> str:
    """In words, where torch has other threads than the variable says."""
    wanted = variable(facts, "OMP_NUM_THREADS")
    if wanted is None or not wanted.isdecimal():
        return ""
    for path, threads in facts.values("record[].torch.num_threads").items():
        role = instances_of(path)[0]
        cpus = facts.get(path_of("worker[].cpus_count", role))
        # NOTE: torch takes no more threads than there are CPUs, however many were asked for.
        capped = isinstance(cpus, int) and threads == cpus < int(wanted)
        if role in ranks(facts) and threads != int(wanted) and not capped:
            return f"OMP_NUM_THREADS is {wanted}, and torch has {threads} threads"
    return ""
